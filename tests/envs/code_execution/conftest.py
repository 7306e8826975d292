"""One environment with every stage, stepped by one compiled function."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.envs.code_execution import (
    CodeExecution,
    CodeExecutionConfig,
)
from agentic_grpo.envs.code_execution.problems import vocabulary as v
from agentic_grpo.envs.code_execution.stages import suites

LANES, MEMBERS = 6, 4


class Played:
    """An environment whose ``start`` and ``step`` are compiled once, and take texts."""

    def __init__(self, config):
        self.environment = CodeExecution(config)
        self.spec = self.environment.spec
        self.table = self.environment.setting.table
        self.step = jax.jit(self.environment.step)
        self.start = jax.jit(
            lambda keys: self.environment.start(
                keys, split="train", num_members=MEMBERS
            )
        )

    def begin(self, seed=0, **fields):
        """A fresh state of LANES lanes, with fields of it replaced."""
        state = self.start(jax.random.split(jax.random.key(seed), LANES)).state
        return dataclasses.replace(state, **fields)

    def begin_with(self, problem, seed=0, hidden=False):
        """Every lane at the same row of the problem table, with its own suites."""
        setting = self.environment.setting
        num_tests = setting.config.num_visible_tests + setting.config.num_hidden_tests
        problems = jnp.full(LANES, problem, jnp.int32)
        uniform = jax.random.uniform(jax.random.key(seed), (LANES, 3, num_tests))
        return self.begin(
            seed,
            problem=problems,
            hidden=jnp.full(LANES, hidden),
            suites=suites.draw_suites(uniform, problems, setting),
        )

    def stage(self, name):
        return self.environment.config.stages.index(name)

    def write(self, state, stage, texts, acting=None, seed=0):
        """Steps with a text for all, or one per lane, or one per lane and member.

        ``stage`` is a name, an index, or one of them per lane.
        """
        stages = [stage] * LANES if isinstance(stage, (str, int)) else list(stage)
        stages = [self.stage(s) if isinstance(s, str) else s for s in stages]
        tokens, mask = self.tokens(texts)
        acting = np.ones((LANES, MEMBERS), bool) if acting is None else acting
        return self.step(
            state,
            jnp.asarray(stages, jnp.int32),
            jnp.asarray(tokens),
            jnp.asarray(mask),
            jnp.asarray(acting),
            jax.random.split(jax.random.key(1000 + seed), LANES),
        )

    def tokens(self, texts):
        width = self.spec.layout.max_action_width
        texts = [texts] * LANES if isinstance(texts, str) else texts
        rows = [[t] * MEMBERS if isinstance(t, str) else t for t in texts]
        tokens = np.array(
            [[v.pad([*v.tokenize(t), v.END], width) for t in row] for row in rows],
            np.int32,
        )
        return tokens, tokens != v.PAD

    def program(self, kind, row):
        """The text of a reference program of one problem."""
        return v.spell(
            v.FIRST_OPCODE + op for op in getattr(self.table, kind)[row] if op
        )

    def told(self, result, lane=0, member=0):
        """The feedback of one member, spelt out."""
        tokens = np.asarray(result.observation_tokens[lane, member])
        return v.spell(tokens[np.asarray(result.observation_mask[lane, member])])


@pytest.fixture(scope="session")
def full():
    """All stages; blind at fidelity 0; two families of two levels."""
    return Played(
        CodeExecutionConfig(
            families=("affine", "rectangle", "mirror", "cubes"),
            stages=(
                "hypothesis",
                "algorithm",
                "summary",
                "code",
                "tests",
                "debug",
                "debug",
            ),
            visible_fidelity=0.0,
        )
    )
