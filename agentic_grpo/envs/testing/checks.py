"""The clauses of the contract, each a pure function over what was recorded.

Every check answers with the sentences that say what is wrong: none, if all is well.
"""

from collections.abc import Iterator

import jax
import numpy as np

from agentic_grpo.envs import base
from agentic_grpo.envs.testing.playing import Recording
from agentic_grpo.layout import StageKind
from agentic_grpo.records import EndReason


def layout(spec: base.EnvironmentSpec) -> Iterator[str]:
    """The static description holds together."""
    stages = spec.layout.stages
    names = [stage.name for stage in stages]
    if len(set(names)) < len(names):
        yield f"stage names repeat: {names}"
    if spec.pad_token in spec.end_tokens:
        yield f"pad_token {spec.pad_token} is also in end_tokens {spec.end_tokens}"
    markers = {f"marker of {stage.name}": stage.marker for stage in stages}
    ends = [("end_tokens", token) for token in spec.end_tokens]
    for name, token in [("pad_token", spec.pad_token), *ends, *markers.items()]:
        if not 0 <= token < spec.vocabulary_size:
            yield f"{name} is {token}; the vocabulary has {spec.vocabulary_size} tokens"
    for name, marker in markers.items():
        if marker in (spec.pad_token, *spec.end_tokens):
            yield f"{name} is {marker}, which is the pad token or an end token"
    for stage in stages:
        if stage.action_width < 1 or stage.observation_width < 0:
            yield f"{stage.name} has no columns to write to, or fewer than 0 to read"
        if stage.max_latency < 0:
            yield f"{stage.name} has max_latency {stage.max_latency}"
    visibility = np.asarray(spec.layout.visibility)
    if visibility.shape != (len(stages) + 1,) * 2:
        yield f"visibility has shape {visibility.shape}"
    elif not np.diagonal(visibility).all() or not visibility[:, 0].all():
        yield "visibility hides the statement, or a stage from itself"


def shapes(spec, start, result, num_members) -> Iterator[str]:
    """Shapes and types are those that ``envs.base`` says."""
    num_lanes = start.level.shape[0]
    members = (num_lanes, num_members)
    prompt = (num_lanes, spec.layout.prompt_width)
    observed = (*members, spec.layout.max_observation_width)
    int32, float32, boolean = np.int32, np.float32, np.bool_
    wanted = {
        "prompt_tokens": (start.prompt_tokens, prompt, int32),
        "prompt_mask": (start.prompt_mask, prompt, boolean),
        "level": (start.level, (num_lanes,), int32),
        "observation_tokens": (result.observation_tokens, observed, int32),
        "observation_mask": (result.observation_mask, observed, boolean),
        "reward": (result.reward, members, float32),
        "reward_mask": (result.reward_mask, members, boolean),
        "latency": (result.latency, members, int32),
        "end_reason": (result.end_reason, members, int32),
        "verdict": (result.verdict, members, float32),
        "verdict_latency": (result.verdict_latency, members, int32),
        "solved": (result.solved, members, boolean),
        "state_id": (result.state_id, members, int32),
    }
    for name, (value, shape, dtype) in wanted.items():
        if value.shape != shape or value.dtype != dtype:
            yield (
                f"{name} is {value.dtype} {list(value.shape)}; it must be"
                f" {np.dtype(dtype)} {list(shape)}"
            )
    for path, leaf in jax.tree_util.tree_leaves_with_path(start.state):
        if not leaf.shape or leaf.shape[0] != num_lanes:
            name = jax.tree_util.keystr(path)
            yield f"state{name} is {list(leaf.shape)}; its leading axis must be N"


def prompts(spec, start: base.Start) -> Iterator[str]:
    """Statements are real tokens on a prefix of their columns; levels exist."""
    yield from _tokens(spec, "the statement", start.prompt_tokens, start.prompt_mask)
    if not start.prompt_mask.any(axis=1).all():
        yield "a statement is empty"
    if ((start.level < 0) | (start.level >= len(spec.levels))).any():
        yield f"level is {start.level.tolist()}; there are {len(spec.levels)}"


def masks(spec, recording: Recording) -> Iterator[str]:
    """Observations keep to their columns, and stages without a reward have none."""
    for stage, result, acting in _stages(spec, recording):
        mask = result.observation_mask & acting[..., None]
        yield from _tokens(
            spec, f"what {stage.name} tells", result.observation_tokens, mask
        )
        if mask[..., stage.observation_width :].any():
            yield (
                f"{stage.name} tells more than its observation_width,"
                f" {stage.observation_width}"
            )
        if stage.kind is StageKind.NONE and (result.reward_mask & acting).any():
            yield f"{stage.name} is of kind NONE, and has a reward"


def rewards(spec, recording: Recording) -> Iterator[str]:
    """Rewards and verdicts are finite and in [0, 1]."""
    for stage, result, acting in _stages(spec, recording):
        judged = acting & _judged(result)
        for name, values, mask in (
            ("reward", result.reward, acting & result.reward_mask),
            ("verdict", result.verdict, judged),
        ):
            bad = values[mask & ~((values >= 0.0) & (values <= 1.0))]
            if bad.size:
                yield f"{name} of {stage.name} is {bad[0]}; it must be in [0, 1]"


def ends(spec, recording: Recording) -> Iterator[str]:
    """Terminated and truncated are kept apart, and everybody ends."""
    last = spec.layout.num_stages - 1
    known = [int(reason) for reason in EndReason]
    for index, (stage, result, acting) in enumerate(_stages(spec, recording)):
        reasons = set(result.end_reason[acting].tolist())
        if not reasons <= set(known):
            yield f"end_reason of {stage.name} is {reasons - set(known)}"
        if index == last and EndReason.RUNNING in reasons:
            yield f"a member is RUNNING after the last stage, {stage.name}"
        if index < last and EndReason.OUT_OF_STAGES in reasons:
            yield (
                f"{stage.name} is not the last stage, and a member is OUT_OF_STAGES"
                " (truncated); one that ends by itself has SUBMITTED"
            )
        if index + 1 < spec.min_stages and EndReason.SUBMITTED in reasons:
            yield f"a member SUBMITTED in {stage.name}, before {spec.min_stages} stages"
        if (result.solved & acting & ~_judged(result)).any():
            yield f"a member has solved in {stage.name} without being judged"


def latencies(spec, recording: Recording) -> Iterator[str]:
    """Answers come within the declared number of ticks."""
    for stage, result, acting in _stages(spec, recording):
        judged = acting & _judged(result)
        for name, values, mask, most in (
            ("latency", result.latency, acting, stage.max_latency),
            (
                "verdict_latency",
                result.verdict_latency,
                judged,
                spec.max_verdict_latency,
            ),
        ):
            bad = values[mask & ((values < 0) | (values > most))]
            if bad.size:
                yield f"{name} of {stage.name} is {bad[0]}; it must be in 0 .. {most}"


def equal(spec, one: Recording, other: Recording) -> Iterator[str]:
    """Two recordings tell the same of every member that acted."""
    yield from _differences("start", one.start, other.start)
    if not np.array_equal(one.acting, other.acting):
        yield "members end at different stages"
        return
    pairs = zip(_stages(spec, one), other.results, strict=True)
    for (stage, mine, acting), theirs in pairs:
        for name in ("observation_tokens", "reward", "verdict", *_COMPARED):
            mask = acting
            if name == "observation_tokens":
                mask = acting[..., None] & mine.observation_mask
            elif name == "reward":
                mask = acting & mine.reward_mask
            elif name in ("verdict", "verdict_latency", "solved"):
                mask = acting & (mine.end_reason != EndReason.RUNNING)
            a, b = getattr(mine, name), getattr(theirs, name)
            mask = mask.reshape(mask.shape + (1,) * (a.ndim - mask.ndim))
            if not np.array_equal(
                np.where(mask, a, 0),
                np.where(mask, b, 0),
                equal_nan=a.dtype.kind == "f",
            ):
                yield f"{name} of {stage.name} differs"


_COMPARED = (
    "observation_mask",
    "reward_mask",
    "latency",
    "end_reason",
    "verdict_latency",
    "solved",
    "state_id",
)


def writes(spec, stage: int, tokens, mask) -> Iterator[str]:
    """A scripted agent writes real tokens, on a prefix of the stage's columns."""
    of_stage = spec.layout.stages[stage]
    yield from _tokens(spec, f"the agent's {of_stage.name}", tokens, mask)
    if mask[..., of_stage.action_width :].any():
        yield (
            f"the agent's {of_stage.name} is longer than its action_width,"
            f" {of_stage.action_width}"
        )
    after_end = np.cumsum(np.isin(tokens, spec.end_tokens) & mask, axis=-1)
    if (mask[..., 1:] & (after_end[..., :-1] > 0)).any():
        yield f"the agent goes on after an end token in {of_stage.name}"


def _tokens(spec, what, tokens, mask) -> Iterator[str]:
    if (mask[..., 1:] & ~mask[..., :-1]).any():
        yield f"{what}: the mask is not a prefix of the columns"
    real = tokens[mask]
    if ((real < 0) | (real >= spec.vocabulary_size)).any():
        yield f"{what}: a token is not in 0 .. {spec.vocabulary_size - 1}"
    if (real == spec.pad_token).any():
        yield f"{what}: a real token is the pad token"


def _stages(spec, recording):
    """(StageSpec, result, acting [N, G]) of each stage."""
    return zip(spec.layout.stages, recording.results, recording.acting, strict=True)


def _judged(result):
    ended = result.end_reason != EndReason.RUNNING
    return ended & (result.end_reason != EndReason.FAULT)


def _differences(what, one, other) -> Iterator[str]:
    leaves = jax.tree_util.tree_leaves_with_path(one)
    for (path, a), b in zip(leaves, jax.tree.leaves(other), strict=True):
        if not np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f"):
            yield f"{what}{jax.tree_util.keystr(path)} differs"
