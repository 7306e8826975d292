"""A host environment under the protocol of all environments: time is drawn, not taken.

Whatever trains in simulation then trains on real work as it is: configs, paired seeds,
sweeps and ablations. The device waits while the host works.
"""

import dataclasses
import threading
import traceback
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from jax.experimental import io_callback

from agentic_grpo import records
from agentic_grpo.envs import base, desk, host, latency
from agentic_grpo.errors import require
from agentic_grpo.records import EndReason


@records.record
class HostState:
    """What the members of N lanes have written.

    Attributes:
      problem: int32 [N].
      written: int32 [N, G, S, A]; the actions of each stage.
      length: int32 [N, G, S]; how many tokens of them are real.
      reward: float32 [N, G]; of the last stage, 0 where it had none.
      ended: bool [N, G].
    """

    problem: jax.Array
    written: jax.Array
    length: jax.Array
    reward: jax.Array
    ended: jax.Array


def on_simulated_clock(
    environment: host.HostEnvironment,
    *,
    stage_latencies: Sequence[latency.Latency],
    verdict_latency: latency.Latency,
    patience: float = 600.0,
) -> "SimulatedClock":
    """An ``base.Environment`` whose work is done by the host while the device waits.

    Args:
      environment: does the work.
      stage_latencies: ticks until a stage's answer, one for each stage.
      verdict_latency: ticks from a member's end to its verdict.
      patience: seconds after which what has not arrived counts as our fault.

    Raises:
      Refused: there is not one latency per stage, or the patience is not positive.
    """
    stages = environment.spec.layout.stages
    rule = f"one for each of {', '.join(stage.name for stage in stages)}"
    require(
        len(stage_latencies) == len(stages), "stage_latencies", stage_latencies, rule
    )
    require(patience > 0, "patience", patience, "greater than 0")
    return SimulatedClock(
        environment, tuple(stage_latencies), verdict_latency, patience
    )


class SimulatedClock:
    """Implements ``base.Environment``, ``base.Readable``; see ``on_simulated_clock``.

    ``step`` calls the host, also under ``jit``, ``scan`` and ``vmap``. It is as
    reproducible as the host's answers are. An exception on the host never ends a run:
    it is logged, and members whose answers are missing end as FAULT.

    Attributes:
      spec: see ``base.Environment``.
      host: the environment that does the work.
    """

    def __init__(self, environment, stage_latencies, verdict_latency, patience):
        self.host = environment
        self._desk = desk.Desk(environment)
        self._counter = self._desk.counter()
        self._latencies, self._verdict_latency = stage_latencies, verdict_latency
        self._patience = patience
        self._lock = threading.Lock()  # several devices call at once
        self._calls = 0
        self.spec = _with_latencies(environment.spec, stage_latencies, verdict_latency)

    def start(self, keys: jax.Array, *, split: str, num_members: int) -> base.Start:
        """Draws one problem per key [N], all of a split alike; see ``envs.base``.

        Raises:
          Refused: the split is unknown or empty.
        """
        table, layout = self.host.problems, self.spec.layout
        numbers = jnp.asarray(table.numbers(split))
        draw = jax.vmap(lambda key: jax.random.randint(key, (), 0, len(numbers)))
        problem = numbers[draw(keys)]
        members = (keys.shape[0], num_members)
        stages = (*members, layout.num_stages)
        state = HostState(
            problem=problem,
            written=jnp.full(
                (*stages, layout.max_action_width), self.spec.pad_token, jnp.int32
            ),
            length=jnp.zeros(stages, jnp.int32),
            reward=jnp.zeros(members, jnp.float32),
            ended=jnp.zeros(members, bool),
        )
        return base.Start(
            state=state,
            prompt_tokens=jnp.asarray(table.prompt_tokens)[problem],
            prompt_mask=jnp.asarray(table.prompt_mask)[problem],
            level=jnp.asarray(table.level)[problem],
        )

    def step(
        self,
        state: HostState,
        stage: jax.Array,
        action_tokens: jax.Array,
        action_mask: jax.Array,
        acting: jax.Array,
        keys: jax.Array,
    ) -> base.StageResult:
        """Has one stage of each lane executed; see ``envs.base`` for the arguments."""
        acting = acting & ~state.ended
        state = self.write(state, stage, action_tokens, action_mask, acting)
        answers = io_callback(
            self._answer,
            answers_of(self.spec, acting.shape),
            state.problem,
            stage,
            state.written,
            state.length,
            acting,
        )
        uniform = jax.vmap(lambda key: jax.random.uniform(key, (4, acting.shape[1])))(
            keys
        )
        return self.result(
            state,
            acting,
            answers,
            latency=latency.draw(uniform[:, :2], self._latencies, stage),
            verdict_latency=latency.draw(
                uniform[:, 2:], [self._verdict_latency], jnp.zeros_like(stage)
            ),
        )

    def write(self, state, stage, action_tokens, action_mask, acting) -> HostState:
        """The state with what has just been written; nothing outside the mask.

        Arguments as of ``step``.
        """
        layout = self.spec.layout
        widths = jnp.asarray(layout.action_widths)[stage][:, None]
        length = jnp.minimum(jnp.sum(action_mask, axis=-1, dtype=jnp.int32), widths)
        tokens = jnp.where(action_mask, action_tokens, self.spec.pad_token)
        numbers = jnp.arange(layout.num_stages, dtype=jnp.int32)[None]
        here = (stage[:, None] == numbers)[:, None] & acting[..., None]
        return dataclasses.replace(
            state,
            written=jnp.where(here[..., None], tokens[:, :, None], state.written),
            length=jnp.where(here, length[..., None], state.length),
        )

    def result(
        self, state, acting, answers, *, latency, verdict_latency
    ) -> base.StageResult:
        """What came of a stage that was written, once its answers are there.

        Args:
          state: by ``write``.
          acting: bool [N, G].
          answers: as of ``answers_of``.
          latency, verdict_latency: int32 [N, G]; ticks that it took.
        """
        ended = acting & (answers["end_reason"] != EndReason.RUNNING)
        state = dataclasses.replace(
            state,
            reward=jnp.where(acting, answers["reward"], state.reward),
            ended=state.ended | ended,
        )
        return base.StageResult(
            state=state, latency=latency, verdict_latency=verdict_latency, **answers
        )

    def counter(self) -> desk.Counter:
        """Where others may hand in work beside what ``step`` asks."""
        return self._desk.counter()

    def spell(self, tokens) -> str:
        """See ``base.Readable``."""
        return self.host.spell(tokens)

    def describe_problem(self, state: HostState, lane: int) -> list[str]:
        """See ``base.Readable``."""
        return self.host.describe_problem(int(state.problem[lane]))

    def describe_member(self, state: HostState, lane: int, member: int) -> list[str]:
        """See ``base.Readable``."""
        written, length = jax.device_get((state.written, state.length))
        lengths = length[lane, member]
        stages = int(np.max(np.flatnonzero(lengths), initial=-1)) + 1
        actions = actions_of(written[lane, member], lengths, stages)
        return self.host.describe_work(int(state.problem[lane]), actions)

    # On the host from here on.

    def _answer(self, problem, stage, written, length, acting):
        """The fields of a StageResult that are not drawn; never raises."""
        problem, stage, written, length, acting = (
            np.asarray(x) for x in (problem, stage, written, length, acting)
        )
        answers = no_answers(self.spec, acting.shape)
        answers["end_reason"][acting] = EndReason.FAULT  # unless an answer comes
        arrived = {}
        with self._lock:
            self._calls += 1
            try:
                works = [
                    host.Work(
                        ticket=(self._calls, lane, member),
                        problem=int(problem[lane]),
                        actions=actions_of(
                            written[lane, member], length[lane, member], stage[lane] + 1
                        ),
                    )
                    for lane, member in np.argwhere(acting).tolist()
                ]
                arrived = host.wait_for_all(
                    self._counter, works, patience=self._patience
                )
            except Exception:  # one that leaves a callback ends the run
                logging.error("The host failed:\n%s", traceback.format_exc())
        for (_, lane, member), arrivals in arrived.items():
            try:
                enter(answers, (lane, member), *arrivals)
            except Exception:
                logging.error("The host's answer is none:\n%s", traceback.format_exc())
        return answers


def _with_latencies(spec, stage_latencies, verdict_latency):
    stages = tuple(
        dataclasses.replace(stage, max_latency=ticks.maximum)
        for stage, ticks in zip(spec.layout.stages, stage_latencies, strict=True)
    )
    return dataclasses.replace(
        spec,
        layout=dataclasses.replace(spec.layout, stages=stages),
        max_verdict_latency=verdict_latency.maximum,
        min_verdict_latency=verdict_latency.minimum,
    )


def actions_of(written, length, stages):
    """What one member wrote in its first stages: a tuple of token ids each.

    Args:
      written: int32 [S, A].
      length: int32 [S].
      stages: how many.
    """
    return tuple(
        tuple(written[number, : length[number]].tolist()) for number in range(stages)
    )


def answers_of(spec: base.EnvironmentSpec, members: tuple[int, ...]) -> dict:
    """Shapes of what the host answers to ``members`` [N, G] of a stage.

    The fields of a ``base.StageResult`` that come from the host.
    """

    def shape(dtype, *more):
        return jax.ShapeDtypeStruct((*members, *more), dtype)

    width = spec.layout.max_observation_width
    return {
        "observation_tokens": shape(jnp.int32, width),
        "observation_mask": shape(jnp.bool_, width),
        "reward": shape(jnp.float32),
        "reward_mask": shape(jnp.bool_),
        "end_reason": shape(jnp.int32),
        "verdict": shape(jnp.float32),
        "solved": shape(jnp.bool_),
        "state_id": shape(jnp.int32),
    }


def no_answers(spec: base.EnvironmentSpec, members: tuple[int, ...]) -> dict:
    """NumPy arrays of these shapes before anything has come; see ``enter``."""
    answers = {
        name: np.zeros(shape.shape, shape.dtype)
        for name, shape in answers_of(spec, members).items()
    }
    answers["observation_tokens"][:] = spec.pad_token
    return answers


def enter(answers: dict, place: tuple, stage, verdict=None) -> None:
    """Writes what has arrived for the member at ``place``, and last why it ended."""
    count = len(stage.observation)
    answers["observation_tokens"][place][:count] = stage.observation
    answers["observation_mask"][place][:count] = True
    answers["state_id"][place] = stage.state_id
    if verdict is not None:
        answers["verdict"][place] = verdict.verdict
        answers["solved"][place] = verdict.solved
    if stage.reward is not None:
        answers["reward"][place] = stage.reward
        answers["reward_mask"][place] = True
    answers["end_reason"][place] = stage.end_reason
