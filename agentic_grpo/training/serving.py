"""What a tick serves: which rows, their credit, what the learner gets, what is noted.

``serve`` is the middle of a tick, from the table to a batch; ``settle`` its end, when
the learner has said whether the step was taken. Both work on every block of the table
at once: slots are [B, U], rows and their credit [B * U, ...].
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo import blocks, learner, records, snapshots
from agentic_grpo.critic.network import Prefix
from agentic_grpo.ops import credit as credit_ops
from agentic_grpo.ops.reductions import count
from agentic_grpo.records import CORRECTION, IMMEDIATE
from agentic_grpo.training import tick_metrics


@records.record
class Served:
    """The rows that a tick serves, and what their credit is.

    Attributes:
      slots: int32 [B, U]; R where fewer rows are ready.
      ready: bool [B, U, S + 1]; the events served.
      events: ``StageEvents`` of these rows, forecasts included.
      examples: what a critic keeps of their episodes [B * U * G, ...]; None without.
      rows: ``SnapshotTable`` [B * U, ...], as they were before.
      credit: ``StageCredit`` of these rows.
      credit_state: of the rule, after learning from them.
      batch: ``learner.Batch``, an episode per row.
      metrics: dict of sums of this device.
      credit_metrics: dict of what the rule reports, equal on all devices.
    """

    slots: jax.Array
    ready: jax.Array
    events: records.StageEvents
    examples: Any
    rows: snapshots.SnapshotTable
    credit: records.StageCredit
    credit_state: Any
    batch: learner.Batch
    metrics: dict
    credit_metrics: dict


def serve(
    program,
    table,
    credit_state,
    *,
    tick,
    step,
    forecaster=None,
    in_pilot=False,
    axis_name=None,
):
    """Expires what is too old, picks the rows to serve and gives them credit.

    Args:
      program: a ``tick.Program``.
      table: leading axes [B, R].
      credit_state: of ``program.credit_rule``.
      tick: int32 [].
      step: int32 []; version of the parameters.
      forecaster: (``critic.network.Prefix`` of N episodes) -> (examples, forecasts
        [N, S], whether they mean anything); None: there is no critic.
      in_pilot: bool []; verdicts alone are served, and nothing is trained on.
      axis_name: of the devices that hold other blocks.

    Returns:
      (table, ``Served``). Nothing is booked as applied yet: see ``settle``.
    """
    layout = program.environment.spec.layout
    event_mask = events_served(program, in_pilot)
    table, slots, ready, metrics = _select(program, table, event_mask, tick, step)
    rows = blocks.merge(jax.vmap(snapshots.read)(table, slots))
    examples, forecast = None, {}
    if forecaster is not None:
        examples, forecasts, known = forecaster(prefix_of(rows, tick))
        forecast = {
            "forecast": forecasts.reshape(rows.reward.shape),
            "forecast_known": known,
        }
    events = snapshots.stage_events(
        rows,
        blocks.merge(ready),
        tick=tick,
        learner_step=step,
        max_age=program.max_age,
        **forecast,
    )
    credit = program.credit_rule.apply(credit_state, events)
    credit_state, credit_metrics = program.credit_rule.update(
        credit_state, events, axis_name=axis_name
    )
    return table, Served(
        slots=slots,
        ready=ready,
        events=events,
        examples=examples,
        rows=rows,
        credit=credit,
        credit_state=credit_state,
        batch=_batch_of(program, rows, credit, in_pilot),
        metrics=metrics | tick_metrics.of_credit(layout, events, rows, credit, step),
        credit_metrics=credit_metrics,
    )


def events_served(program, in_pilot=False):
    """bool [S + 1]: the events that are served now, the verdict last."""
    verdict = np.arange(program.credit_rule.event_mask.size)
    verdict = verdict == program.credit_rule.event_mask.size - 1
    return program.credit_rule.event_mask & (verdict | ~jnp.asarray(in_pilot))


def members_settled(served: Served):
    """bool [U, G, S]: stages of members whose verdict is served now, and came."""
    events = served.events
    has_verdict = events.ready[:, -1:] & events.verdict_mask
    return events.acted & has_verdict[:, :, None]


def prefix_of(rows, tick) -> Prefix:
    """What a critic may see of rows [U]: an episode each, [U * G]."""
    is_in = rows.ready_at[:, None, :-1] <= tick
    return blocks.merge(
        Prefix(
            tokens=rows.tokens,
            token_mask=rows.token_mask,
            reward=rows.reward,
            reward_mask=rows.reward_mask & is_in,
        )
    )


def settle(program, table, served: Served, credit_state, accepted, *, in_pilot=False):
    """Notes what was applied and frees the rows whose last event this was.

    What a refused step would have applied was not applied: its rows stay as they were,
    their events stay ready for the next tick, and the rule has learnt nothing.

    Args:
      program: a ``tick.Program``.
      table: leading axes [B, R].
      served: of this tick.
      credit_state: as it was before ``serve``.
      accepted: bool []; see ``learner.take_steps``.
      in_pilot: as of ``serve``; a row whose verdict is served is free.

    Returns:
      (table, credit state, metrics: how many events are done with).
    """
    credit = served.credit
    noted = credit.applied_advantage, credit.paid, credit.divisor
    event_mask = events_served(program, in_pilot)

    def of_block(table, slots, ready, applied, paid, divisor):
        return snapshots.settle(
            table,
            slots,
            ready,
            event_mask,
            applied_advantage=applied,
            paid=paid,
            divisor=divisor,
        )

    table = jax.vmap(of_block)(
        table,
        jnp.where(accepted, served.slots, program.num_rows),
        served.ready,
        *blocks.unmerge(noted, served.slots.shape[0]),
    )
    credit_state = jax.tree.map(
        lambda new, old: jnp.where(accepted, new, old),
        served.credit_state,
        credit_state,
    )
    done = served.ready & accepted
    metrics = {
        "events/stage_rewards_served": count(done[..., :-1]),
        "events/verdicts_served": count(done[..., -1]),
    }
    return table, credit_state, metrics


def move_anchor(program, table, served: Served, params, accepted):
    """Re-scores what was just paid at once: its correction is measured from here.

    Args:
      program: a ``tick.Program``.
      table: leading axes [B, R].
      served: of this tick.
      params: of the policy after the step.
      accepted: bool []; a step that was refused moved nothing.
    """
    batch, slots = served.batch, served.slots
    log_probs, _ = program.policy.score(
        params, batch.tokens, batch.token_mask, temperature=program.rollout.temperature
    )
    paid_now = batch.credit.mask[IMMEDIATE] & ~batch.credit.mask[CORRECTION]
    anchor = jnp.where(paid_now & accepted, log_probs, batch.anchor_log_probs)
    anchor = anchor.reshape(*slots.shape, *served.rows.anchor_log_probs.shape[1:])

    def of_block(old, slots, anchor):
        return old.at[slots].set(anchor, mode="drop")

    moved = jax.vmap(of_block)(table.anchor_log_probs, slots, anchor)
    return dataclasses.replace(table, anchor_log_probs=moved)


def _select(program, table, event_mask, tick, step):
    """(table, slots int32 [B, U], ready bool [B, U, S + 1], metrics)."""

    def of_block(table):
        table, expired = snapshots.expire(
            table, event_mask, tick=tick, learner_step=step, max_age=program.max_age
        )
        slots, ready, waiting = snapshots.select(
            table, event_mask, tick=tick, num_slots=program.update_slots
        )
        return table, slots, ready, expired, waiting

    table, slots, ready, expired, waiting = jax.vmap(of_block)(table)
    pending = jax.vmap(lambda t: snapshots.pending(t, event_mask))(table)
    metrics = {
        "events/expired_stage_rewards": count(expired[..., :-1]),
        "events/expired_verdicts": count(expired[..., -1]),
        "events/pending": count(pending),
        "events/rows_waiting": count(waiting),
        "rows_occupied": count(table.occupied),
    }
    return table, slots, ready, metrics


def _batch_of(program, rows, credit, in_pilot):
    """The learner's rows: one episode each, with the credit written on its tokens."""
    if program.pilot_groups:
        credit = dataclasses.replace(credit, mask=credit.mask & ~in_pilot)
    segments = program.environment.spec.layout.segment_of_column
    token_credit = credit_ops.write_on_tokens(
        credit,
        segments,
        rows.action_mask,
        exclude_zero_variance=program.exclude_zero_variance,
    )
    return learner.Batch(
        tokens=blocks.merge(rows.tokens),
        token_mask=blocks.merge(rows.token_mask),
        anchor_log_probs=blocks.merge(rows.anchor_log_probs),
        behaviour_log_probs=blocks.merge(rows.log_probs),
        credit=jax.tree.map(lambda x: x.reshape(2, -1, x.shape[-1]), token_credit),
    )
