"""Generating lanes on a simulated clock. Knows environments and policies, but no loss.

A lane is one group in lockstep: its members write the same stage in the same tick,
those that have stopped are masked. Per tick the longest-waiting lanes write one stage
each with the newest parameters; a lane starts a new problem as soon as its *generation*
has ended, so how many episodes start per tick depends neither on latency nor on the
credit rule.

Lanes and rows live in **B** blocks; selection is per block and keys are folded from the
tick and the global lane index, so results do not depend on how devices share them.
Letters: P lanes and D decode slots of a block, N = B * D lanes at work in a tick.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from agentic_grpo import blocks, episodes, records, rollout_metrics, snapshots
from agentic_grpo.ops.reductions import count
from agentic_grpo.records import NEVER, EndReason
from agentic_grpo.snapshots import SnapshotTable


@dataclasses.dataclass(frozen=True, kw_only=True)
class RolloutSettings:
    """Static sizes and rules of generation.

    Attributes:
      num_lanes: P, generating lanes per block.
      decode_slots: D, lanes per block that write one stage per tick.
      num_members: G.
      stage_deadline: ticks after which a stage reward counts as absent.
      verdict_deadline: ticks after which a verdict counts as absent.
      temperature: of sampling, and so of every log-prob.
      split: of the environment's problems.
    """

    num_lanes: int
    decode_slots: int
    num_members: int
    stage_deadline: int
    verdict_deadline: int
    temperature: float = 1.0
    split: str = "train"


@records.record
class Lanes:
    """P generating lanes.

    Attributes:
      row: int32 [P]; the snapshot row that the lane writes to.
      stage: int32 [P]; the next stage to write.
      ready_at: int32 [P]; the tick from which it can be written.
      active: bool [P, G]; members still running.
      verdict_at: int32 [P]; when the last verdict of the members that ended arrives.
      vacant: bool [P]; the lane needs a new problem and a free row.
      problem: the environment's state, leading axis P.
    """

    row: jax.Array
    stage: jax.Array
    ready_at: jax.Array
    active: jax.Array
    verdict_at: jax.Array
    vacant: jax.Array
    problem: Any


def init_lanes(environment, settings: RolloutSettings) -> Lanes:
    """P vacant lanes that start at tick 0."""
    lanes = settings.num_lanes
    keys = jax.random.split(jax.random.key(0), lanes)
    start = jax.eval_shape(
        lambda keys: environment.start(
            keys, split=settings.split, num_members=settings.num_members
        ),
        keys,
    )
    return Lanes(
        row=jnp.zeros((lanes,), jnp.int32),
        stage=jnp.zeros((lanes,), jnp.int32),
        ready_at=jnp.zeros((lanes,), jnp.int32),
        active=jnp.zeros((lanes, settings.num_members), bool),
        verdict_at=jnp.zeros((lanes,), jnp.int32),
        vacant=jnp.ones((lanes,), bool),
        problem=jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), start.state),
    )


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
    """One tick of generation in every block.

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
    num_blocks = lanes.row.shape[0]
    slots = settings.decode_slots
    num_rows = table.occupied.shape[1]
    choose = jax.vmap(functools.partial(_choose, tick=tick, num_slots=slots))
    lane, row, starting, working = choose(table, lanes)

    block = first_block + jnp.arange(num_blocks, dtype=jnp.int32)
    global_lane = block[:, None] * settings.num_lanes + lane
    tick_key = jax.random.fold_in(key, tick)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(tick_key, global_lane.reshape(-1))
    start_keys, play_keys = episodes.split_keys(keys)

    at_work = blocks.merge(jax.vmap(_take)(lanes, lane))
    rows = blocks.merge(jax.vmap(snapshots.read)(table, row))
    flat_starting, flat_working = starting.reshape(-1), working.reshape(-1)
    at_work, rows = _start_lanes(
        environment, settings, at_work, rows, flat_starting, start_keys
    )
    acting = at_work.active & flat_working[:, None]
    before = count(rows.action_mask)
    stage = at_work.stage
    rows, result = episodes.play_stage(
        act,
        environment,
        rows,
        at_work.problem,
        stage,
        acting,
        play_keys,
        stage_deadline=settings.stage_deadline,
        verdict_deadline=settings.verdict_deadline,
    )
    rows = _schedule(
        rows, result, settings, stage, acting, tick=tick, learner_step=learner_step
    )
    at_work, rows = _move_on(
        at_work, rows, result, settings, stage, acting, tick=tick, row=row.reshape(-1)
    )

    keep = jnp.where(working, lane, settings.num_lanes)
    lanes = jax.vmap(snapshots.write)(lanes, keep, blocks.unmerge(at_work, num_blocks))
    target = jnp.where(working, row, num_rows)
    table = jax.vmap(snapshots.write)(table, target, blocks.unmerge(rows, num_blocks))
    metrics = rollout_metrics.of_stages(
        environment.spec.layout, result, rows, stage, acting, flat_working
    ) | {
        "groups_started": count(working & starting),
        "lanes_without_row": count(starting & ~working),
        "tokens_written": count(rows.action_mask) - before,
    }
    return table, lanes, metrics


def _choose(table, lanes, *, tick, num_slots):
    """The longest-waiting lanes of one block, and a row for each that starts anew."""
    since = jnp.where(lanes.ready_at <= tick, lanes.ready_at, NEVER)
    lane = jnp.argsort(since, stable=True)[:num_slots].astype(jnp.int32)
    can_write = since[lane] < NEVER
    starting = lanes.vacant[lane] & can_write
    new_row = snapshots.allocate(table, starting)
    row = jnp.where(starting, new_row, lanes.row[lane])
    working = can_write & (row < table.occupied.shape[0])
    return lane, row, starting, working


def _start_lanes(environment, settings, lanes, rows, starting, keys):
    """Gives every starting lane [N] a problem and a clean row with its statement."""
    layout = environment.spec.layout
    start = environment.start(
        keys, split=settings.split, num_members=settings.num_members
    )
    clean = episodes.with_prompt(layout, start, num_members=settings.num_members)
    fresh_lanes = Lanes(
        row=lanes.row,
        stage=jnp.zeros_like(lanes.stage),
        ready_at=lanes.ready_at,
        active=jnp.ones_like(lanes.active),
        verdict_at=jnp.zeros_like(lanes.verdict_at),
        vacant=jnp.zeros_like(lanes.vacant),
        problem=start.state,
    )
    return _where(starting, (fresh_lanes, clean), (lanes, rows))


def _schedule(rows, result, settings, stage, acting, *, tick, learner_step):
    """Stamps the stage's version on rows [N] and schedules its reward.

    The reward of a group is in when the slowest member that has one has it, or at the
    deadline; without any, the event never comes.
    """
    is_stage = stage[:, None] == jnp.arange(rows.acted.shape[-1])[None, :]
    has_reward = jnp.any(rows.reward_mask & is_stage[:, None, :], axis=(1, 2))
    wait = _slowest(result.latency, acting & result.reward_mask)
    wait = jnp.minimum(wait, settings.stage_deadline)
    arrival = jnp.where(has_reward, tick + wait, NEVER)[:, None]
    return dataclasses.replace(
        rows,
        version=jnp.where(is_stage, learner_step, rows.version),
        ready_at=rows.ready_at.at[:, :-1].set(
            jnp.where(is_stage, arrival, rows.ready_at[:, :-1])
        ),
    )


def _move_on(lanes, rows, result, settings, stage, acting, *, tick, row):
    """Sends lanes [N] to their next stage, or ends them and schedules the verdict."""
    num_stages = rows.acted.shape[-1]
    running = acting & (result.end_reason == EndReason.RUNNING)
    ended = acting & ~running & (result.end_reason != EndReason.FAULT)
    wait = jnp.minimum(_slowest(result.latency, acting), settings.stage_deadline)
    verdict_wait = _slowest(result.verdict_latency, ended)
    verdict_wait = jnp.minimum(verdict_wait, settings.verdict_deadline)
    verdict_at = jnp.maximum(lanes.verdict_at, tick + verdict_wait)
    done = ~jnp.any(running, axis=1) | (stage == num_stages - 1)
    lanes = dataclasses.replace(
        lanes,
        row=row,
        stage=stage + 1,
        ready_at=tick + jnp.where(done, 1, jnp.maximum(wait, 1)),
        active=running,
        verdict_at=verdict_at,
        vacant=done,
        problem=result.state,
    )
    verdict_ready_at = jnp.where(done, verdict_at, NEVER)
    rows = dataclasses.replace(
        rows,
        generating=~done,
        ready_at=rows.ready_at.at[:, -1].set(verdict_ready_at),
    )
    return lanes, rows


def _slowest(latency, mask):
    """The largest latency [N] among the members in the mask [N, G], or 0."""
    return jnp.max(jnp.where(mask, latency, 0), axis=1)


def _take(tree, index):
    return jax.tree.map(lambda x: x[index], tree)


def _where(condition, new, old):
    """Chooses between two pytrees along their leading axis [N]."""

    def choose(a, b):
        return jnp.where(condition.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, new, old)
