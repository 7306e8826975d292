"""Playing an environment with given texts, and keeping everything that came back."""

import dataclasses
from typing import Any

import jax
import numpy as np

from agentic_grpo.envs import base
from agentic_grpo.records import EndReason


@dataclasses.dataclass(frozen=True, kw_only=True)
class Texts:
    """What the members write, whatever happens: NumPy arrays.

    Attributes:
      tokens: int32 [S, N, G, A].
      mask: bool [S, N, G, A].
    """

    tokens: np.ndarray
    mask: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recording:
    """Episodes of N groups of G members, as NumPy arrays.

    Attributes:
      start: what ``start`` answered.
      acting: bool [S, N, G]; members that had not ended before the stage.
      results: S answers of ``step``, their states left out.
    """

    start: base.Start
    acting: np.ndarray
    results: tuple[base.StageResult, ...]


class Player:
    """An environment whose functions are compiled for one number of lanes.

    Attributes:
      traces: how often JAX had to trace ``start`` and ``step``; 1 each, unless shapes
        or types of the state change on the way.
    """

    def __init__(self, environment: base.Environment, *, split: str, num_members: int):
        self.environment = environment
        self.num_members = num_members
        self.traces = {"start": 0, "step": 0}

        def start(keys):
            self.traces["start"] += 1
            return environment.start(keys, split=split, num_members=num_members)

        def step(*arguments):
            self.traces["step"] += 1
            return environment.step(*arguments)

        self._start, self._step = jax.jit(start), jax.jit(step)

    def play(self, keys, texts: Texts, *, agent=None, delays=None) -> Recording:
        """Plays keys [N] to the end.

        Args:
          keys: typed keys; a lane's stages get keys folded from its own.
          texts: what is written, unless there is an agent.
          agent: a ``base.ScriptedAgent``; writes instead.
          delays: int [N]; rounds that a lane waits before its first stage, so that
            lanes stand at different stages.
        """
        spec, num_lanes = self.environment.spec, len(keys)
        num_stages = spec.layout.num_stages
        delays = np.zeros(num_lanes, np.int32) if delays is None else delays
        start = self._start(keys)
        state, shape = start.state, (num_lanes, self.num_members)
        active = np.ones(shape, bool)
        acting = np.zeros((num_stages, *shape), bool)
        answers: list[Any] = [[None] * num_lanes for _ in range(num_stages)]
        lanes = np.arange(num_lanes)
        for now in range(num_stages + max(delays, default=0)):
            stage = np.clip(now - delays, 0, num_stages - 1).astype(np.int32)
            works = (now >= delays) & (now - delays < num_stages)
            now_acting = active & works[:, None]
            stage_keys = jax.vmap(jax.random.fold_in)(keys, stage)
            written = texts.tokens[stage, lanes], texts.mask[stage, lanes]
            if agent is not None:
                written = agent(state, stage, stage_keys)
            written = written[0], written[1] & now_acting[:, :, None]
            result = self._step(state, stage, *written, now_acting, stage_keys)
            state = result.state
            result = jax.device_get(dataclasses.replace(result, state=()))
            for lane in np.flatnonzero(works):
                acting[stage[lane], lane] = now_acting[lane]
                answers[stage[lane]][lane] = _lane_of(result, lane)
            ended = now_acting & (result.end_reason != EndReason.RUNNING)
            active &= ~ended
        return Recording(
            start=jax.device_get(start),
            acting=acting,
            results=tuple(
                jax.tree.map(lambda *x: np.stack(x), *of_stage) for of_stage in answers
            ),
        )


def noise(spec: base.EnvironmentSpec, num_lanes: int, num_members: int, seed) -> Texts:
    """Words of the vocabulary in any order, of any length."""
    random = np.random.default_rng(seed)
    shape = (spec.layout.num_stages, num_lanes, num_members)
    tokens = random.integers(
        spec.vocabulary_size, size=(*shape, spec.layout.max_action_width)
    )
    return Texts(tokens=tokens.astype(np.int32), mask=_prefixes(spec, random, shape))


def wild(spec: base.EnvironmentSpec, num_lanes: int, num_members: int, seed) -> Texts:
    """Ids that are no tokens: negative ones, just beyond the vocabulary, huge ones."""
    random = np.random.default_rng(seed)
    texts = noise(spec, num_lanes, num_members, seed)
    size, limits = spec.vocabulary_size, np.iinfo(np.int32)
    strange = random.choice(
        np.array([limits.min, -size, -1, size, 2 * size, limits.max], np.int32),
        size=texts.tokens.shape,
    )
    is_strange = random.random(texts.tokens.shape) < 0.5
    return dataclasses.replace(
        texts, tokens=np.where(is_strange, strange, texts.tokens)
    )


def with_other_padding(texts: Texts, seed) -> Texts:
    """The same texts; what stands outside their masks is something else."""
    other = np.random.default_rng(seed).integers(1000, size=texts.tokens.shape)
    tokens = np.where(texts.mask, texts.tokens, other.astype(np.int32))
    return dataclasses.replace(texts, tokens=tokens)


def lanes_of(texts: Texts, lanes) -> Texts:
    """The texts of some lanes."""
    return Texts(tokens=texts.tokens[:, lanes], mask=texts.mask[:, lanes])


def _prefixes(spec, random, shape):
    """Masks of random length within each stage's width; some empty, some full."""
    widths = spec.layout.action_widths.reshape(-1, 1, 1)
    length = random.integers(-1, widths + 2, size=shape).clip(0, widths)
    return np.arange(spec.layout.max_action_width) < length[..., None]


def _lane_of(result, lane):
    return jax.tree.map(lambda x: x[lane], result)
