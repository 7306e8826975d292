"""One group on the simulated clock, with its credit, and no learner.

The same lanes, the same table and the same credit rule as in training, for one lane and
one row; parameters and the moments of the rule stay as they are.
"""

import dataclasses
from typing import Any

import jax
import numpy as np

from agentic_grpo import rollout, snapshots
from agentic_grpo.lanes import init_lanes
from agentic_grpo.training import serving
from agentic_grpo.training import tick as tick_module


@dataclasses.dataclass(frozen=True, kw_only=True)
class Moment:
    """What one tick brought.

    Attributes:
      tick: of the simulated clock, from 0.
      row: the group's ``SnapshotTable`` row [1, ...], before this tick's service.
      problem: the environment's state [1, ...] behind the stage written now.
      written: index of that stage; None if none was written.
      ready: bool [S + 1]; the events served now.
      advantage: float [2, G, S].
      mask: bool [2, G, S]; whose tokens it is written on.
    """

    tick: int
    row: snapshots.SnapshotTable
    problem: Any
    written: int | None
    ready: np.ndarray
    advantage: np.ndarray
    mask: np.ndarray


def play(
    program: tick_module.Program, act, credit_state, key, *, first_step, split
) -> list[Moment]:
    """Plays one group until its row is free again.

    Args:
      program: of the run.
      act: see ``episodes.play_stage``.
      credit_state: moments of the run's credit rule.
      key: of the group.
      first_step: learner step of the parameters; one more step is counted per tick.
      split: of the environment's problems.

    Raises:
      ValueError: the split is unknown to the environment.
    """
    environment = program.environment
    settings = dataclasses.replace(
        program.rollout, num_lanes=1, decode_slots=1, split=split
    )
    program = dataclasses.replace(
        program, rollout=settings, num_blocks=1, num_rows=1, update_slots=1
    )
    members = settings.num_members
    layout = environment.spec.layout

    @jax.jit
    def one_tick(table, lanes, tick):
        step = first_step + tick
        table, lanes, _ = rollout.advance(
            table,
            lanes,
            act,
            environment,
            settings,
            tick=tick,
            learner_step=step,
            key=key,
        )
        table, served = serving.serve(
            program, table, credit_state, tick=tick, step=step
        )
        after, _, _ = serving.settle(program, table, served, credit_state, True)
        credit = served.credit
        seen = (
            jax.tree.map(lambda x: x[0], table),
            lanes.problem,
            served.ready[0, 0],
            credit.advantage[:, 0],
            credit.mask[:, 0],
        )
        return after, lanes, seen

    table = snapshots.init(layout, num_rows=1, num_members=members)
    lanes = init_lanes(environment, settings)
    table, lanes = jax.tree.map(lambda x: x[None], (table, lanes))
    moments: list[Moment] = []
    num_written = 0
    for tick in range(_horizon(layout, settings, environment.spec)):
        table, lanes, seen = one_tick(table, lanes, np.int32(tick))
        row, problem, ready, advantage, mask = jax.device_get(seen)
        now_written = int(row.acted.any(axis=(0, 1)).sum())
        moments.append(
            Moment(
                tick=tick,
                row=row,
                problem=jax.tree.map(lambda x: x[0], problem),
                written=now_written - 1 if now_written > num_written else None,
                ready=ready,
                advantage=advantage,
                mask=mask,
            )
        )
        num_written = now_written
        if not table.occupied.any():
            break
    return moments


def _horizon(layout, settings, spec) -> int:
    """More ticks than any group can need."""
    waits = [min(stage.max_latency, settings.stage_deadline) for stage in layout.stages]
    verdict = min(spec.max_verdict_latency, settings.verdict_deadline)
    return sum(waits) + len(waits) + verdict + 3
