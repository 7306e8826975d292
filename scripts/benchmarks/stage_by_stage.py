"""The tick as a Python loop drives it: every part compiled, every part waited for.

What most trainers do: the host calls generation, credit, learner and bookkeeping one
after the other and looks at what came. Same functions, same numbers; the difference in
time is what one compiled program saves.
"""

import functools

import jax

from agentic_grpo import episodes, learner, records, rollout, snapshots
from agentic_grpo.ops import credit as credit_ops
from agentic_grpo.training import tick


def loop_of(program: tick.Program):
    """One tick per call, going on from call to call: () -> tokens written, a number."""
    state = jax.jit(lambda k: tick.init(program, program.policy.init(k), k))(
        jax.random.key(0)
    )
    generate = jax.jit(functools.partial(_generate, program))
    pay = jax.jit(functools.partial(_pay, program))
    learn = jax.jit(functools.partial(_learn, program))
    settle = jax.jit(functools.partial(_settle, program))

    def call():
        nonlocal state
        table, lanes, metrics = generate(state)
        written = int(metrics["tokens_written"])
        table, chosen, batch, noted, moments = jax.block_until_ready(pay(state, table))
        taught, metrics = learn(state, batch)
        float(metrics["entropy"].total)
        table = jax.block_until_ready(settle(table, chosen, noted))
        state = tick.TrainState(
            learner=taught,
            table=table,
            lanes=lanes,
            credit=moments,
            key=state.key,
            tick=state.tick + 1,
        )
        return written

    return call


def _generate(program, state):
    """Lanes write a stage each, the environment executes it."""
    settings = program.rollout
    act = episodes.sample_with(
        program.policy, state.learner.params, temperature=settings.temperature
    )
    return rollout.advance(
        state.table,
        state.lanes,
        act,
        program.environment,
        settings,
        tick=state.tick,
        learner_step=state.learner.step,
        key=state.key,
    )


def _pay(program, state, table):
    """Ready rows of every block and the credit on their tokens."""
    rule, step = program.credit_rule, state.learner.step
    when = dict(tick=state.tick)

    def of_block(table):
        table, _ = snapshots.expire(
            table, rule.event_mask, learner_step=step, max_age=program.max_age, **when
        )
        slots, ready, _ = snapshots.select(
            table, rule.event_mask, num_slots=program.update_slots, **when
        )
        return table, slots, ready, snapshots.read(table, slots)

    table, slots, ready, rows = jax.vmap(of_block)(table)
    rows = rollout.merge(rows)
    events = snapshots.stage_events(
        rows, rollout.merge(ready), learner_step=step, max_age=program.max_age
    )
    credit = rule.apply(state.credit, events)
    moments, _ = rule.update(state.credit, events)
    noted = rollout.unmerge(
        (credit.spent, credit.paid, credit.divisor), program.num_blocks
    )
    return table, (slots, ready), _batch(program, rows, credit), noted, moments


def _batch(program, rows, credit):
    segments = program.environment.spec.layout.segment_of_column
    written = credit_ops.write_on_tokens(credit, segments, rows.action_mask)
    return learner.Batch(
        tokens=rollout.merge(rows.tokens),
        token_mask=rollout.merge(rows.token_mask),
        anchor_log_probs=rollout.merge(rows.anchor_log_probs),
        behaviour_log_probs=rollout.merge(rows.log_probs),
        credit=records.TokenCredit(
            **{
                name: value.reshape(2, -1, value.shape[-1])
                for name, value in vars(written).items()
            }
        ),
    )


def _learn(program, state, batch):
    return learner.take_steps(
        program.passes,
        state.learner,
        batch,
        program.policy.score,
        program.optimizer,
        program.learner,
        learning_rate=program.schedule(state.tick),
        packed=program.policy.packed,
    )


def _settle(program, table, chosen, noted):
    def of_block(table, chosen, spent, paid, divisor):
        return snapshots.settle(
            table,
            *chosen,
            program.credit_rule.event_mask,
            spent=spent,
            paid=paid,
            divisor=divisor,
        )

    return jax.vmap(of_block)(table, chosen, *noted)
