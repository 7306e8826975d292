"""What a tick serves: which rows, what the learner gets of them, what is noted.

All three work on every block of the table at once: slots are [B, U], rows and their
credit [B * U, ...].
"""

import jax

from agentic_grpo import blocks, learner, snapshots
from agentic_grpo.ops import credit as credit_ops
from agentic_grpo.ops.reductions import count


def select(program, table, tick, step):
    """Expires what is too old, then picks the rows to serve in every block.

    Returns:
      (table, slots int32 [B, U], ready bool [B, U, S + 1], metrics).
    """
    event_mask = program.credit_rule.event_mask

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
        "events/stage_rewards_served": count(ready[..., :-1]),
        "events/verdicts_served": count(ready[..., -1]),
        "events/rows_waiting": count(waiting),
        "rows_occupied": count(table.occupied),
    }
    return table, slots, ready, metrics


def batch_of(program, rows, credit):
    """The learner's rows: one episode each, with the credit written on its tokens."""
    segments = program.environment.spec.layout.segment_of_column
    token_credit = credit_ops.write_on_tokens(
        credit, segments, rows.action_mask, exclude_silent=program.exclude_silent
    )
    return learner.Batch(
        tokens=blocks.merge(rows.tokens),
        token_mask=blocks.merge(rows.token_mask),
        anchor_log_probs=blocks.merge(rows.anchor_log_probs),
        behaviour_log_probs=blocks.merge(rows.log_probs),
        credit=jax.tree.map(lambda x: x.reshape(2, -1, x.shape[-1]), token_credit),
    )


def settle(program, table, slots, ready, credit):
    """Notes what was spent; frees the rows whose last event this was."""

    def of_block(table, slots, ready, spent, paid, divisor):
        return snapshots.settle(
            table,
            slots,
            ready,
            program.credit_rule.event_mask,
            spent=spent,
            paid=paid,
            divisor=divisor,
        )

    noted = blocks.unmerge((credit.spent, credit.paid, credit.divisor), slots.shape[0])
    return jax.vmap(of_block)(table, slots, ready, *noted)
