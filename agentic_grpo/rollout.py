"""Generation, tick by tick. Knows environments and policies, but no loss.

Per tick the longest-waiting lanes write one stage each with the newest parameters; a
lane starts a new problem as soon as its *generation* has ended, so how many episodes
start per tick depends neither on latency nor on the credit rule.

On a simulated clock what was written is answered within the tick (``advance``). On a
real one it is put down (``hold``), and taken up (``unanswered``) when it is answered.

Lanes and rows live in **B** blocks; selection is per block and keys are folded from the
tick and the global lane index, so results do not depend on how devices share them.
Letters: P lanes and D decode slots of a block, N = B * D lanes at work in a tick.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from agentic_grpo import blocks, episodes, records, rollout_metrics, snapshots
from agentic_grpo.lanes import (
    Lanes,
    RolloutSettings,
    choose_lanes,
    move_on,
    schedule,
    start_lanes,
)
from agentic_grpo.ops.reductions import count
from agentic_grpo.records import AWAITED
from agentic_grpo.snapshots import SnapshotTable


@records.record
class Unanswered:
    """N = B * D stages that were written and whose answers are not entered yet.

    Attributes:
      lane: int32 [B, D]; which lanes; ``num_lanes`` where a slot stayed empty.
      row: int32 [B, D]; their snapshot rows; R where a slot stayed empty.
      lanes: ``Lanes`` [N], as they stood when they wrote.
      rows: ``SnapshotTable`` [N], the stage written.
      acting: bool [N, G]; the members that wrote.
    """

    lane: jax.Array
    row: jax.Array
    lanes: Lanes
    rows: SnapshotTable
    acting: jax.Array

    @property
    def working(self) -> jax.Array:
        """bool [N]: the slot holds a lane."""
        return jnp.any(self.acting, axis=1)


@records.record
class Written(Unanswered):
    """Stages that have just been written, and what executing them takes.

    Attributes:
      tokens: int32 [N, G, A].
      mask: bool [N, G, A].
      environment_keys: [N].
    """

    tokens: jax.Array
    mask: jax.Array
    environment_keys: jax.Array


def advance(
    table: SnapshotTable,
    lanes: Lanes,
    act,
    environment,
    settings: RolloutSettings,
    *,
    tick,
    learner_step,
    key,
    first_block=0,
):
    """One tick of generation in every block: ``begin``, execute, ``finish``.

    Args:
      table: leading axes [B, R].
      lanes: leading axes [B, P].
      act: see ``episodes.play_stage``.
      environment: an ``envs.base.Environment``.
      settings: static.
      tick: int32 [].
      learner_step: int32 []; version of the parameters that ``act`` uses.
      key: the run's key.
      first_block: index of the first block here among all blocks of the run.

    Returns:
      (table, lanes, metrics of this tick: a dict of ``Mean`` and of counts, int32 []).
    """
    written, metrics = begin(
        table,
        lanes,
        act,
        environment,
        settings,
        tick=tick,
        key=key,
        first_block=first_block,
    )
    result = environment.step(
        written.lanes.problem,
        written.lanes.stage,
        written.tokens,
        written.mask,
        written.acting,
        written.environment_keys,
    )
    table, lanes, told = finish(
        table,
        lanes,
        written,
        result,
        environment.spec.layout,
        settings,
        tick=tick,
        learner_step=learner_step,
    )
    kept = rollout_metrics.of_contract(
        environment.spec, result, written.lanes.stage, written.acting
    )
    return table, lanes, metrics | told | kept


def begin(
    table: SnapshotTable,
    lanes: Lanes,
    act,
    environment,
    settings: RolloutSettings,
    *,
    tick,
    key,
    first_block=0,
) -> tuple[Written, dict]:
    """Chooses the lanes of this tick, starts new problems, writes a stage each.

    Arguments as of ``advance``. Table and lanes are left as they are: ``finish`` puts
    back what is written here.
    """
    num_blocks, num_rows = lanes.row.shape[0], table.occupied.shape[1]
    choose = functools.partial(choose_lanes, tick=tick, num_slots=settings.decode_slots)
    lane, row, starting, working, starved = jax.vmap(choose)(table, lanes)

    block = first_block + jnp.arange(num_blocks, dtype=jnp.int32)
    global_lane = block[:, None] * settings.num_lanes + lane
    tick_key = jax.random.fold_in(key, tick)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(tick_key, global_lane.reshape(-1))
    start_keys, play_keys = episodes.split_keys(keys)
    act_keys, environment_keys = episodes.split_keys(play_keys)

    at_work = blocks.merge(jax.vmap(_take)(lanes, lane))
    rows = blocks.merge(jax.vmap(snapshots.read)(table, row))
    at_work, rows = start_lanes(
        environment, settings, at_work, rows, starting.reshape(-1), start_keys
    )
    acting = at_work.active & working.reshape(-1)[:, None]
    before = count(rows.action_mask)
    rows, tokens, mask = episodes.write_stage(
        act,
        environment.spec.layout,
        rows,
        at_work.problem,
        at_work.stage,
        acting,
        act_keys,
    )
    metrics = {
        "groups_started": count(starting),
        "lanes_without_row": count(starved),
        "tokens_written": count(rows.action_mask) - before,
    }
    written = Written(
        lane=jnp.where(working, lane, settings.num_lanes),
        row=jnp.where(working, row, num_rows),
        lanes=at_work,
        rows=rows,
        acting=acting,
        tokens=tokens,
        mask=mask,
        environment_keys=environment_keys,
    )
    return written, metrics


def finish(
    table: SnapshotTable,
    lanes: Lanes,
    written: Unanswered,
    result,
    layout,
    settings: RolloutSettings,
    *,
    tick,
    learner_step,
):
    """Enters what came back, schedules rewards and verdicts, moves the lanes on.

    Args:
      table, lanes, settings, tick: as of ``advance``.
      written: by ``begin``, or by ``unanswered``.
      result: ``envs.base.StageResult`` of it.
      layout: of the episodes.
      learner_step: as of ``advance``; or int32 [N, S], of stages that were stamped
        when they were held.

    Returns:
      (table, lanes, metrics).
    """
    num_blocks = lanes.row.shape[0]
    stage, acting = written.lanes.stage, written.acting
    rows = episodes.enter_result(
        layout,
        written.rows,
        result,
        stage,
        acting,
        stage_deadline=settings.stage_deadline,
        verdict_deadline=settings.verdict_deadline,
    )
    rows = schedule(
        rows,
        result,
        layout,
        settings,
        stage,
        acting,
        tick=tick,
        learner_step=learner_step,
    )
    at_work, rows = move_on(
        written.lanes,
        rows,
        result,
        settings,
        stage,
        acting,
        tick=tick,
        row=written.row.reshape(-1),
    )
    put = jax.vmap(snapshots.write)
    lanes = put(lanes, written.lane, blocks.unmerge(at_work, num_blocks))
    table = put(table, written.row, blocks.unmerge(rows, num_blocks))
    metrics = rollout_metrics.of_stages(
        layout, result, rows, stage, acting, written.working
    )
    return table, lanes, metrics


def hold(
    table: SnapshotTable, lanes: Lanes, written: Written, problem, *, learner_step
) -> tuple[SnapshotTable, Lanes]:
    """Puts back what was written; its lanes wait until somebody hears of them.

    Args:
      table, lanes: as they were before ``begin``.
      written: by ``begin``.
      problem: the environment's state [N], what was written noted.
      learner_step: int32 []; version of the parameters that wrote.
    """
    num_blocks, num_stages = lanes.row.shape[0], table.version.shape[-1]
    stages = jnp.arange(num_stages, dtype=jnp.int32)
    is_stage = written.lanes.stage[:, None] == stages[None]
    rows = dataclasses.replace(
        written.rows, version=jnp.where(is_stage, learner_step, written.rows.version)
    )
    at_work = dataclasses.replace(
        written.lanes,
        row=written.row.reshape(-1),
        ready_at=jnp.full_like(written.lanes.ready_at, AWAITED),
        active=written.acting,
        problem=problem,
    )
    put = jax.vmap(snapshots.write)
    lanes = put(lanes, written.lane, blocks.unmerge(at_work, num_blocks))
    return put(table, written.row, blocks.unmerge(rows, num_blocks)), lanes


def unanswered(table: SnapshotTable, lanes: Lanes, chosen) -> Unanswered:
    """The ``chosen`` lanes, bool [B, P], that are held; for ``finish``."""
    num_lanes, num_rows = lanes.row.shape[1], table.occupied.shape[1]
    each = jnp.arange(num_lanes, dtype=jnp.int32)[None]
    row = jnp.where(chosen, lanes.row, num_rows)
    at_work = blocks.merge(lanes)
    return Unanswered(
        lane=jnp.where(chosen, each, num_lanes),
        row=row,
        lanes=at_work,
        rows=blocks.merge(jax.vmap(snapshots.read)(table, row)),
        acting=at_work.active & chosen.reshape(-1)[:, None],
    )


def _take(tree, index):
    return jax.tree.map(lambda x: x[index], tree)
