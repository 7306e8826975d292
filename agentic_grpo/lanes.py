"""Generating lanes: who writes next, what starts, where a lane goes after a stage.

A lane is one group in lockstep: its members write the same stage in the same tick,
those that have stopped are masked. Letters: P lanes and D decode slots of a block, N
lanes at work in a tick, in all blocks.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo import episodes, records, snapshots
from agentic_grpo.layout import StageKind
from agentic_grpo.ops.reductions import count
from agentic_grpo.records import NEVER, EndReason


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


def choose_lanes(table, lanes, *, tick, num_slots):
    """The longest-waiting lanes of one block, and a row for each that starts anew.

    A lane that needs a row when none is free keeps no slot from those that can write.

    Returns:
      (lane, row int32 [D]; starting, working bool [D]; starved bool [P]: lanes, in the
      order of their waiting, that would start and have no row).
    """
    since = jnp.where(lanes.ready_at <= tick, lanes.ready_at, NEVER)
    order = jnp.argsort(since, stable=True).astype(jnp.int32)
    waits = since[order] < NEVER
    vacant = lanes.vacant[order] & waits
    starved = vacant & (jnp.cumsum(vacant) > count(~table.occupied))
    can_write = waits & ~starved
    chosen = jnp.argsort(~can_write, stable=True)[:num_slots]
    lane, working = order[chosen], can_write[chosen]
    starting = vacant[chosen] & working
    row = jnp.where(starting, snapshots.allocate(table, starting), lanes.row[lane])
    return lane, row, starting, working, starved


def start_lanes(environment, settings, lanes, rows, starting, keys):
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


def schedule(rows, result, layout, settings, stage, acting, *, tick, learner_step):
    """Stamps the stage's version on rows [N] and schedules its reward.

    The reward of a group is in when the slowest member that has one has it, or at the
    deadline; without any, the event never comes. A stage that never has a reward is
    over when the slowest member has its feedback: a critic may be asked then. The
    version is int32 [] of all, or [N, S] of stages that were stamped before.
    """
    is_stage = stage[:, None] == jnp.arange(rows.acted.shape[-1])[None, :]
    has_reward = jnp.any(rows.reward_mask & is_stage[:, None, :], axis=(1, 2))
    unrewarded = np.array([spec.kind is StageKind.NONE for spec in layout.stages])
    unrewarded = jnp.asarray(unrewarded)[stage]
    awaited = acting & (result.reward_mask | unrewarded[:, None])
    wait = jnp.minimum(_slowest(result.latency, awaited), settings.stage_deadline)
    arrival = jnp.where(has_reward | unrewarded, tick + wait, NEVER)[:, None]
    return dataclasses.replace(
        rows,
        version=jnp.where(is_stage, learner_step, rows.version),
        ready_at=rows.ready_at.at[:, :-1].set(
            jnp.where(is_stage, arrival, rows.ready_at[:, :-1])
        ),
    )


def move_on(lanes, rows, result, settings, stage, acting, *, tick, row):
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


def _where(condition, new, old):
    """Chooses between two pytrees along their leading axis [N]."""

    def choose(a, b):
        return jnp.where(condition.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, new, old)
