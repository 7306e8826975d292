"""The environment with every stage, stepped by one compiled function."""

import dataclasses

import jax
import numpy as np
import pytest

from agentic_grpo.envs.tool_workflow import (
    ToolWorkflow,
    ToolWorkflowConfig,
    requests,
    tools,
)
from agentic_grpo.envs.tool_workflow import vocabulary as v

LANES, MEMBERS = 4, 3


class Played:
    """An environment whose ``start`` and ``step`` are compiled once, and take texts."""

    def __init__(self, **fields):
        self.environment = ToolWorkflow(ToolWorkflowConfig(**fields))
        self.spec = self.environment.spec
        self.step = jax.jit(self.environment.step)
        self.start = jax.jit(
            lambda keys: self.environment.start(
                keys, split="train", num_members=MEMBERS
            )
        )

    def begin(self, seed=0, **changes):
        """A fresh state of LANES lanes, with fields of its problem replaced."""
        state = self.start(jax.random.split(jax.random.key(seed), LANES)).state
        problem = dataclasses.replace(state.problem, **changes)
        return dataclasses.replace(state, problem=problem)

    def write(self, state, stage, texts, acting=None):
        """Steps with a text for all lanes, or one per lane; ``stage`` is a name."""
        names = [spec.name for spec in self.spec.layout.stages]
        texts = [texts] * LANES if isinstance(texts, str) else texts
        width = self.spec.layout.max_action_width
        tokens = np.full((LANES, MEMBERS, width), v.PAD, np.int32)
        mask = np.zeros(tokens.shape, bool)
        for lane, text in enumerate(texts):
            ids = [v.TOKENS[word] for word in text.split()]
            tokens[lane, :, : len(ids)] = ids
            mask[lane, :, : len(ids)] = True
        acting = np.ones((LANES, MEMBERS), bool) if acting is None else acting
        stages = np.full(LANES, names.index(stage), np.int32)
        keys = jax.random.split(jax.random.key(0), LANES)
        return self.step(state, stages, tokens, mask & acting[..., None], acting, keys)

    def right_route(self, state):
        return ["origin" if moving else "cache" for moving in state.problem.moving]

    def right_part(self, state, part):
        """How each lane's request is answered for all records."""
        kinds = list(requests.KINDS)
        texts = []
        for lane in range(LANES):
            kind = kinds[int(state.problem.kind[lane, part])]
            x, y = (
                tools.SLOTS[int(field[lane, part])]
                for field in (state.problem.x, state.problem.y)
            )
            k = int(state.problem.digit[lane, part])
            first = {
                "raise": f"add {x} {k}",
                "fix": f"set {x} {k}",
                "triple": f"scale {x} 3",
                "exchange": f"swap {x} {y}",
                "derive": f"copy {x} {y}",
                "order": f"sort {x} {y}",
                "fold": f"mix {x} {y}",
            }[kind]
            texts.append(f"{first} add {x if kind == 'exchange' else y} {k}")
        return texts

    def hasty_part(self, state, part):
        """What sets the example right, and no other record."""
        return [
            f"set {tools.SLOTS[int(state.problem.x[lane, part])]}"
            f" {int(state.problem.left[lane, part, 0])}"
            f" set {tools.SLOTS[int(state.problem.y[lane, part])]}"
            f" {int(state.problem.left[lane, part, 1])}"
            for lane in range(LANES)
        ]

    def drafted(self, state, *, route=None, parts=("right",) * 3):
        """The state and the last result after the plan and the three parts."""
        result = self.write(state, "plan", route or self.right_route(state))
        for index, (name, how) in enumerate(
            zip(("call", "call_2", "call_3"), parts, strict=True)
        ):
            write = self.right_part if how == "right" else self.hasty_part
            texts = write(state, index)
            result = self.write(result.state, name, texts)
        return result


@pytest.fixture(scope="session")
def played():
    """Checks look at the example alone, nothing is hidden."""
    return Played(visible_fidelity=0.0, hidden_rate=0.0)


@pytest.fixture(scope="session")
def honest():
    """Checks look at records like the audited ones; half the digits are hidden."""
    return Played(visible_fidelity=1.0)
