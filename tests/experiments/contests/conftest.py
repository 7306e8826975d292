"""A contestant that copies programs from the statement, so that contests have solvers.

On problems of the family ``multiples`` (f(n) = n // a + b, told in full) it writes the
efficient program, the slow one or one that is wrong, by a draw of its own.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.envs.code_execution.problems import vocabulary
from agentic_grpo.training import tick
from experiments.config import fields
from experiments.config.build import build
from experiments.configs import smoke
from experiments.contests import problems
from experiments.contests.play import Contestant

CHANGES = {
    "env.code_execution.families": ("multiples",),
    "env.code_execution.stages": ("code", "debug"),
    "env.code_execution.hidden_rate": 0.0,
    "env.code_execution.visible_fidelity": 0.0,
    "algorithm.clip": 0.8,
    "algorithm.credit": "agentic",
    "learner.learning_rate": 1e-2,
    "learner.warmup_ticks": 0,
    "learner.schedule": "constant",
    "rollout.group_size": 4,
}

#: Of the draws, in ascending order: efficient, slow, wrong.
TEXTS = ("n {a} // {b} +", "n sum i {a} % 0 = close {b} +", "n {a} + {b} +")


@pytest.fixture(scope="session")
def program():
    return build(fields.change(smoke.get_config(), CHANGES)).program


@pytest.fixture(scope="session")
def learner_of():
    """A function from a program to a contestant with its own decoder."""

    def make(program):
        params = program.policy.init(jax.random.key(1))
        state = tick.init(program, params, jax.random.key(2))
        return Contestant(name="agent", program=program, state=state)

    return make


@pytest.fixture(scope="session")
def copier(program, learner_of):
    """The contestant that copies; what it scores is what a decoder scores."""
    policy = program.policy._replace(sample=_copy)
    return learner_of(dataclasses.replace(program, policy=policy))


@pytest.fixture(scope="session")
def drawn(program):
    """Two contests of three problems."""
    return problems.draw(
        program.environment,
        jax.random.key(0),
        num_contests=2,
        num_problems=3,
        num_compositions=0,
        num_members=program.rollout.num_members,
    )


def _copy(
    params, tokens, token_mask, stage, active, uniforms, *, temperature, group_size=1
):
    """The ``sample`` of a policy; writes ``TEXTS`` at stage 0, then submits."""
    del params, token_mask, temperature, group_size
    width = uniforms.shape[1]
    written = jnp.stack(
        [_filled(text, tokens[:, 1], tokens[:, 2], width) for text in TEXTS]
    )
    which = jnp.minimum(3 * uniforms[:, 0], 2).astype(jnp.int32)
    code = written[which, jnp.arange(len(which))]
    submit = np.full(width, vocabulary.PAD, np.int32)
    submit[:2] = vocabulary.SUBMIT, vocabulary.END
    text = jnp.where((stage == 0)[:, None], code, submit[None, :])
    mask = (text != vocabulary.PAD) & active[:, None]
    return text, mask, jnp.where(mask, -3.0, 0.0)


def _filled(text, a, b, width):
    columns = []
    for word in text.split():
        told = {"{a}": a, "{b}": b}
        known = None if word in told else vocabulary.TOKENS[word]
        columns.append(told[word] if known is None else jnp.full_like(a, known))
    columns.append(jnp.full_like(a, vocabulary.END))
    columns += [jnp.full_like(a, vocabulary.PAD)] * (width - len(columns))
    return jnp.stack(columns, axis=1)
