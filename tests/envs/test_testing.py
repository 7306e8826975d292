"""Both environments keep the contract; each clause catches a planted violation."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import toy_environment as toy

from agentic_grpo.envs import code_execution, testing, tool_workflow
from agentic_grpo.layout import StageKind
from agentic_grpo.records import EndReason

WORKFLOW = tool_workflow.ToolWorkflow(tool_workflow.ToolWorkflowConfig())
CODE = code_execution.CodeExecution(
    code_execution.CodeExecutionConfig(
        families=("multiples", "toggle"),
        stages=("hypothesis", "algorithm", "code", "tests", "summary", "debug"),
        latency_of_stage=(
            (
                "code",
                code_execution.Latency(minimum=1, maximum=4, tail_probability=0.5),
            ),
        ),
    )
)


def chain(start):
    problem = start.state.problem
    fields = problem.kind, problem.x, problem.y, problem.digit
    return np.stack(fields, axis=-1)


@pytest.mark.parametrize(
    ("environment", "agent", "identify"),
    [
        (
            WORKFLOW,
            tool_workflow.ScriptedAgent(WORKFLOW, careful_share=0.5, slip_share=0.3),
            chain,
        ),
        (
            CODE,
            code_execution.ScriptedAgent(CODE, efficient_share=0.5),
            lambda start: start.state.problem,
        ),
    ],
    ids=["tool_workflow", "code_execution"],
)
def test_the_environment_keeps_its_contract(environment, agent, identify):
    testing.check_environment(environment, agent=agent, identify=identify)


class Sound(toy.ToyEnvironment):
    """The toy without its token that makes a reward NaN, and with two splits."""

    def start(self, keys, *, split, num_members):
        start = super().start(keys, split=split, num_members=num_members)
        digit = start.state["digit"] // 2 * 2 + (split == "test")
        tokens = start.prompt_tokens.at[:, 0].set(toy.DIGITS + digit)
        return dataclasses.replace(
            start, state={"digit": digit}, prompt_tokens=tokens, level=digit % 2
        )

    def step(self, *arguments):
        return self.answer(super().step(*arguments), *arguments)

    def answer(self, result, state, stage, tokens, mask, acting, keys):
        """What a violation changes in the result."""
        del state, stage, tokens, mask, acting, keys
        return dataclasses.replace(result, reward=jnp.nan_to_num(result.reward))


class WithResult(Sound):
    """A sound environment, but for fields of its results."""

    def __init__(self, change):
        super().__init__()
        self._change = change

    def answer(self, result, *arguments):
        result = super().answer(result, *arguments)
        return dataclasses.replace(result, **self._change(result, *arguments))


class WithStart(Sound):
    """A sound environment, but for fields of its starts."""

    def __init__(self, change):
        super().__init__()
        self._change = change

    def start(self, keys, *, split, num_members):
        start = super().start(keys, split=split, num_members=num_members)
        return dataclasses.replace(start, **self._change(start))


class OneSplit(Sound):
    """Every split is the same."""

    def start(self, keys, *, split, num_members):
        del split
        return super().start(keys, split="train", num_members=num_members)


def with_layout(**changes):
    """A sound environment with another description of its stages."""
    environment = Sound()
    layout = environment.spec.layout
    stages = (dataclasses.replace(layout.stages[0], **changes), *layout.stages[1:])
    layout = dataclasses.replace(layout, stages=stages)
    environment.spec = dataclasses.replace(environment.spec, layout=layout)
    return environment


def with_spec(**changes):
    environment = Sound()
    environment.spec = dataclasses.replace(environment.spec, **changes)
    return environment


def noisy(result, *arguments):
    """Random numbers that no key knows of: other ones in every trace."""
    shift = np.random.default_rng().random(dtype=np.float32)
    return {"reward": result.reward * shift}


def reads_padding(result, state, stage, tokens, mask, *arguments):
    first = jnp.sum(jnp.where(mask, 0, tokens), axis=-1)
    return {"reward": (first % 2).astype(jnp.float32)}


def looks_up(result, state, stage, tokens, *arguments):
    """A table without an entry for ids that are no tokens: JAX fills in NaN."""
    table = jnp.linspace(0.0, 1.0, toy.VOCABULARY_SIZE)
    return {"reward": table.at[tokens[:, :, 0]].get(mode="fill", fill_value=jnp.nan)}


def with_a_hole(result, *arguments):
    wider = jnp.concatenate([result.observation_tokens] * 2, axis=-1)
    mask = jnp.concatenate(
        [jnp.zeros_like(result.observation_mask), result.observation_mask], axis=-1
    )
    return {"observation_tokens": wider, "observation_mask": mask}


def ends_as(reason, *, at):
    def change(result, state, stage, *arguments):
        here = (stage == at)[:, None]
        return {"end_reason": jnp.where(here, reason, result.end_reason)}

    return change


HOLE = with_layout(observation_width=2)
HOLE.answer = lambda result, *a: dataclasses.replace(
    result, reward=jnp.nan_to_num(result.reward), **with_a_hole(result)
)

PLANTED = {
    "marker is the pad token": ("layout", with_layout(marker=toy.PAD)),
    "the pad token ends": ("layout", with_spec(end_tokens=(toy.END, toy.PAD))),
    "a token beyond the vocabulary": ("layout", with_spec(end_tokens=(toy.END, 99))),
    "state changes its type": (
        "compiles_once",
        WithResult(lambda r, state, *a: {"state": {"digit": state["digit"] * 1.0}}),
    ),
    "python asks a traced array": (
        "compiles_once",
        WithResult(lambda r, *a: {"reward": r.reward * bool(r.reward[0, 0])}),
    ),
    "rewards are integers": (
        "shapes",
        WithResult(lambda r, *a: {"reward": r.reward.astype(jnp.int32)}),
    ),
    "level without a lane axis": (
        "shapes",
        WithStart(lambda start: {"state": start.state | {"clock": jnp.zeros(())}}),
    ),
    "randomness without a key": ("deterministic", WithResult(noisy)),
    "lanes feel each other": (
        "one_by_one",
        WithResult(lambda r, *a: {"reward": r.reward * jnp.mean(r.reward)}),
    ),
    "the statement has a hole": (
        "masks",
        WithStart(lambda start: {"prompt_mask": ~start.prompt_mask}),
    ),
    "a level that is not there": (
        "masks",
        WithStart(lambda start: {"level": start.level + 2}),
    ),
    "what is told has a hole": ("masks", HOLE),
    "tells what is no token": (
        "masks",
        WithResult(
            lambda r, *a: {
                "observation_tokens": r.observation_tokens + toy.VOCABULARY_SIZE
            }
        ),
    ),
    "asks in what is no token": (
        "masks",
        WithStart(lambda start: {"prompt_tokens": start.prompt_tokens - 99}),
    ),
    "tells more than its columns": ("shapes", with_layout(observation_width=0)),
    "padding is read": ("masks", WithResult(reads_padding)),
    "a reward where none can be": ("masks", with_layout(kind=StageKind.NONE)),
    "a reward above 1": (
        "rewards",
        WithResult(lambda r, *a: {"reward": r.reward + 1.0}),
    ),
    "a verdict that is NaN": (
        "rewards",
        WithResult(lambda r, *a: {"verdict": r.verdict + jnp.nan}),
    ),
    "running after the last stage": (
        "ends",
        WithResult(ends_as(EndReason.RUNNING, at=1)),
    ),
    "truncated in the middle": (
        "ends",
        WithResult(ends_as(EndReason.OUT_OF_STAGES, at=0)),
    ),
    "an unknown reason": ("ends", WithResult(ends_as(7, at=1))),
    "ends before min_stages": ("ends", with_spec(min_stages=2)),
    "later than declared": ("latencies", with_layout(max_latency=1)),
    "a verdict later than declared": ("latencies", with_spec(max_verdict_latency=2)),
    "ids that are no tokens give NaN": ("invalid_tokens", WithResult(looks_up)),
    "one problem in two splits": ("splits", OneSplit()),
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_verdict_latency": -2}, "max_verdict_latency=-2 must be at least 0"),
        ({"min_verdict_latency": -1}, "min_verdict_latency=-1 must be at least 0"),
        ({"min_verdict_latency": 99}, "max_verdict_latency=.* must be at least 99"),
        ({"min_stages": 3}, "min_stages=3 must be in 1 .. 2"),
        ({"vocabulary_size": 0}, "vocabulary_size=0 must be at least 1"),
        ({"levels": ()}, r"levels=\(\) must be"),
    ],
)
def test_a_description_that_cannot_be_is_refused_where_it_is_made(changes, message):
    with pytest.raises(ValueError, match=message):
        with_spec(**changes)


def test_a_sound_environment_has_no_violations():
    assert testing.violations(Sound(), splits=("train", "test")) == []


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_caught_by_its_check(name):
    check, environment = PLANTED[name]
    found = testing.violations(environment, splits=("train", "test"))
    assert check in [violation.check for violation in found], found


def agent_that_writes(tokens, mask):
    def write(state, stage, keys):
        shape = (*stage.shape, 3, 3)
        given = jnp.array(tokens, jnp.int32)[None, None], jnp.array(mask)[None, None]
        return tuple(jnp.broadcast_to(value, shape) for value in given)

    return write


@pytest.mark.parametrize(
    ("tokens", "mask", "words"),
    [
        ([7, 7, 7], [True, True, True], "longer than its action_width, 2"),
        ([7, 7, 7], [True, False, True], "not a prefix"),
        ([99, 1, 0], [True, True, False], "not in 0 .. 10"),
        ([7, 0, 0], [True, True, False], "is the pad token"),
        ([1, 7, 0], [True, True, False], "goes on after an end token"),
        ([8, 7, 0], [True, True, False], "goes on after an end token"),
    ],
)
def test_a_scripted_agent_that_misbehaves_is_caught(tokens, mask, words):
    agent = agent_that_writes(tokens, mask)
    environment = with_spec(end_tokens=(toy.END, 8))
    found = testing.violations(environment, splits=("train",), agent=agent)
    assert any(v.check == "agent" and words in v.message for v in found), found


def test_every_check_has_a_planted_violation():
    assert {check for check, _ in PLANTED.values()} | {"agent"} == set(testing.CHECKS)


def test_the_error_lists_every_violation_by_its_check():
    wrong = WithResult(
        lambda r, *a: {"reward": r.reward + 1.0, "latency": r.latency - 9}
    )
    with pytest.raises(testing.ContractError) as caught:
        testing.check_environment(wrong, splits=("train",))
    message = str(caught.value)
    assert "WithResult breaks its contract" in message
    assert "rewards: reward of guess is" in message and "latencies: latency" in message
    assert isinstance(caught.value, AssertionError)
