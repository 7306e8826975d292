"""The table of snapshots: a row is one group's episodes, from start until settled.

A row holds what was sampled (tokens, masks, log-probs, the learner step of each stage),
what came back (rewards, verdicts) and what has been applied to it. Nothing is copied
into queues: an event is *ready* when its tick has come, the rows whose ready events are
the oldest are served first, and a row is free again once its last event was served or
has expired.

All functions work on ONE block of R rows; the caller vmaps over blocks. Events are
numbered 0 .. S - 1 for the stage rewards and S for the verdict. Row indices equal to R
mean "no row": reading clips, writing drops.
"""

import dataclasses

import jax
import jax.numpy as jnp

from agentic_grpo import records
from agentic_grpo.records import NEVER


@records.record
class SnapshotTable:
    """R rows of G episodes.

    Attributes:
      tokens: int32 [R, G, T].
      token_mask: bool [R, G, T]; real tokens.
      action_mask: bool [R, G, T]; tokens that the policy wrote.
      log_probs: float32 [R, G, T]; at sampling, on actions; 0 elsewhere.
      anchor_log_probs: float32 [R, G, T]; what ratios are taken against: ``log_probs``,
        unless the anchor is taken anew after an immediate update.
      acted: bool [R, G, S].
      reward, reward_mask: float32, bool [R, G, S].
      verdict, verdict_mask: float32, bool [R, G].
      solved: bool [R, G]; the hidden judge is fully satisfied.
      end_reason: int32 [R, G] of ``records.EndReason``.
      state_id: int32 [R, G, S].
      level: int32 [R].
      version: int32 [R, S]; learner step that sampled the stage.
      ready_at: int32 [R, S + 1]; tick of each event, NEVER until it is known.
      served: bool [R, S + 1]; served or expired: in either case done with.
      applied_advantage, paid: float32, bool [R, G, S]; see ``records.StageEvents``.
      divisor: float32 [R, S].
      generating: bool [R]; a lane still writes here.
      occupied: bool [R].
    """

    tokens: jax.Array
    token_mask: jax.Array
    action_mask: jax.Array
    log_probs: jax.Array
    anchor_log_probs: jax.Array
    acted: jax.Array
    reward: jax.Array
    reward_mask: jax.Array
    verdict: jax.Array
    verdict_mask: jax.Array
    solved: jax.Array
    end_reason: jax.Array
    state_id: jax.Array
    level: jax.Array
    version: jax.Array
    ready_at: jax.Array
    served: jax.Array
    applied_advantage: jax.Array
    paid: jax.Array
    divisor: jax.Array
    generating: jax.Array
    occupied: jax.Array


def init(layout, *, num_rows, num_members) -> SnapshotTable:
    """An empty table of R rows for episodes of this layout."""
    rows, members, stages = num_rows, num_members, layout.num_stages
    per_token = (rows, members, layout.num_columns)
    per_stage = (rows, members, stages)
    return SnapshotTable(
        tokens=jnp.zeros(per_token, jnp.int32),
        token_mask=jnp.zeros(per_token, bool),
        action_mask=jnp.zeros(per_token, bool),
        log_probs=jnp.zeros(per_token, jnp.float32),
        anchor_log_probs=jnp.zeros(per_token, jnp.float32),
        acted=jnp.zeros(per_stage, bool),
        reward=jnp.zeros(per_stage, jnp.float32),
        reward_mask=jnp.zeros(per_stage, bool),
        verdict=jnp.zeros((rows, members), jnp.float32),
        verdict_mask=jnp.zeros((rows, members), bool),
        solved=jnp.zeros((rows, members), bool),
        end_reason=jnp.zeros((rows, members), jnp.int32),
        state_id=jnp.zeros(per_stage, jnp.int32),
        level=jnp.zeros((rows,), jnp.int32),
        version=jnp.zeros((rows, stages), jnp.int32),
        ready_at=jnp.full((rows, stages + 1), NEVER, jnp.int32),
        served=jnp.zeros((rows, stages + 1), bool),
        applied_advantage=jnp.zeros(per_stage, jnp.float32),
        paid=jnp.zeros(per_stage, bool),
        divisor=jnp.ones((rows, stages), jnp.float32),
        generating=jnp.zeros((rows,), bool),
        occupied=jnp.zeros((rows,), bool),
    )


def read(table, rows):
    """The rows [U] of every field; an index of R reads some row, to be masked."""
    return jax.tree.map(lambda field: field.at[rows].get(mode="clip"), table)


def write(table, rows, values):
    """Puts ``values`` [U, ...] at ``rows`` [U]; an index of R writes nothing."""
    return jax.tree.map(
        lambda field, value: field.at[rows].set(value, mode="drop"), table, values
    )


def allocate(table, wanted):
    """A free row for each of the ``wanted`` [D] lanes, first come first served.

    Returns:
      int32 [D]; R where no row is wanted or none is left.
    """
    num_rows = table.occupied.shape[0]
    free_first = jnp.argsort(table.occupied, stable=True).astype(jnp.int32)
    rank = jnp.cumsum(wanted) - 1
    has_row = wanted & (rank < jnp.sum(~table.occupied))
    row = free_first.at[rank].get(mode="clip")
    return jnp.where(has_row, row, num_rows)


def pending(table, event_mask):
    """Events [R, S + 1] that will come or have come, and are not done with.

    Args:
      table: R rows.
      event_mask: bool [S + 1]; the events that the credit rule serves at all.
    """
    scheduled = table.ready_at != NEVER
    return table.occupied[:, None] & scheduled & ~table.served & event_mask[None, :]


def expire(table, event_mask, *, tick, learner_step, max_age):
    """Gives up ready events whose tokens are all older than ``max_age`` learner steps.

    A stage reward is as old as its stage; the verdict expires with the youngest stage.
    What is younger is served, its too old stages masked by ``fresh_stages``.

    Returns:
      (table, expired bool [R, S + 1]): expired events count as served, nothing is paid.
    """
    fresh = fresh_stages(table, learner_step=learner_step, max_age=max_age)
    acted = jnp.any(table.acted, axis=1)
    any_fresh = jnp.any(fresh & acted, axis=1, keepdims=True)
    too_old = ~jnp.concatenate([fresh, any_fresh], axis=1)
    ready = pending(table, event_mask) & (table.ready_at <= tick)
    expired = ready & too_old
    return dataclasses.replace(table, served=table.served | expired), expired


def fresh_stages(table, *, learner_step, max_age):
    """bool [R, S]: the stage was sampled at most ``max_age`` learner steps ago."""
    return learner_step - table.version <= max_age


def select(table, event_mask, *, tick, num_slots):
    """The ``num_slots`` rows whose ready events have waited longest.

    Returns:
      (rows int32 [U], R where fewer are ready; ready bool [U, S + 1], all their ready
      events; waiting int32 []: rows with ready events that must wait their turn).
    """
    num_rows = table.occupied.shape[0]
    ready = pending(table, event_mask) & (table.ready_at <= tick)
    since = jnp.min(jnp.where(ready, table.ready_at, NEVER), axis=1)
    rows = jnp.argsort(since, stable=True)[:num_slots].astype(jnp.int32)
    # Slots beyond the rows stay empty, but they are slots: a batch has U rows always.
    missing = num_slots - rows.shape[0]
    rows = jnp.pad(rows, (0, missing), constant_values=num_rows)
    is_ready = since.at[rows].get(mode="fill", fill_value=NEVER) < NEVER
    waiting = jnp.sum(since < NEVER) - jnp.sum(is_ready)
    ready = ready.at[rows].get(mode="fill", fill_value=False) & is_ready[:, None]
    return jnp.where(is_ready, rows, num_rows), ready, waiting


def stage_events(
    rows, ready, *, tick, learner_step, max_age, forecast=None, forecast_known=False
) -> records.StageEvents:
    """What a credit rule sees of rows [U] that were read from the table.

    The simulated environment tells a row its rewards when a stage is written; they are
    *in* once their tick has come, and what is not in yet is absent here.

    Args:
      rows: of the table.
      ready: bool [U, S + 1]; the events to serve.
      tick: int32 [].
      learner_step: int32 [].
      max_age: learner steps after which a stage is too old to be trained on.
      forecast: float [U, G, S] of a critic; None: there is none.
      forecast_known: bool []; the critic has learnt something.
    """
    is_in = rows.ready_at <= tick
    if forecast is None:
        forecast = jnp.zeros_like(rows.reward)
    return records.StageEvents(
        acted=rows.acted,
        reward=rows.reward,
        reward_mask=rows.reward_mask & is_in[:, None, :-1],
        verdict=rows.verdict,
        verdict_mask=rows.verdict_mask & is_in[:, -1:],
        lost=rows.end_reason == records.EndReason.FAULT,
        state_id=rows.state_id,
        level=rows.level,
        ready=ready,
        settled=rows.served[:, -1],
        fresh=fresh_stages(rows, learner_step=learner_step, max_age=max_age),
        forecast=forecast,
        forecast_mask=rows.acted & is_in[:, None, :-1] & forecast_known,
        applied_advantage=rows.applied_advantage,
        paid=rows.paid,
        divisor=rows.divisor,
    )


def settle(table, rows, ready, event_mask, *, applied_advantage, paid, divisor):
    """Notes what was applied to rows [U], closes their events, frees what is done."""
    served = table.served.at[rows].get(mode="clip") | ready
    table = dataclasses.replace(
        table,
        served=table.served.at[rows].set(served, mode="drop"),
        applied_advantage=table.applied_advantage.at[rows].set(
            applied_advantage, mode="drop"
        ),
        paid=table.paid.at[rows].set(paid, mode="drop"),
        divisor=table.divisor.at[rows].set(divisor, mode="drop"),
    )
    still_needed = jnp.any(pending(table, event_mask), axis=1)
    return dataclasses.replace(
        table, occupied=table.occupied & (table.generating | still_needed)
    )
