"""The tick as a Python loop drives it: every part compiled, every part waited for.

What most trainers do: the host calls generation, credit, learner and bookkeeping one
after the other and looks at what came. Same functions, same numbers; the difference in
time is what one compiled program saves.
"""

import functools

import jax

from agentic_grpo import blocks, episodes, learner, rollout, snapshots
from agentic_grpo.training import serving, tick


def loop_of(program: tick.Program, *, num_ticks: int):
    """Some ticks per call, going on from call to call: () -> number of tokens."""
    state = jax.jit(lambda k: tick.init(program, program.policy.init(k), k))(
        jax.random.key(0)
    )
    generate = jax.jit(functools.partial(_generate, program))
    pay = jax.jit(functools.partial(_pay, program))
    learn = jax.jit(functools.partial(_learn, program))
    settle = jax.jit(functools.partial(serving.settle, program))

    def advance():
        nonlocal state
        table, lanes, metrics = generate(state)
        written = int(metrics["tokens_written"])
        table, served, batch, moments = jax.block_until_ready(pay(state, table))
        taught, metrics = learn(state, batch)
        float(metrics["entropy"].total)
        table = jax.block_until_ready(settle(table, *served))
        state = tick.TrainState(
            learner=taught,
            table=table,
            lanes=lanes,
            credit=moments,
            key=state.key,
            tick=state.tick + 1,
        )
        return written

    return lambda: sum(advance() for _ in range(num_ticks))


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
    table, slots, ready, _ = serving.select(program, table, state.tick, step)
    rows = blocks.merge(jax.vmap(snapshots.read)(table, slots))
    events = snapshots.stage_events(
        rows, blocks.merge(ready), learner_step=step, max_age=program.max_age
    )
    credit = rule.apply(state.credit, events)
    moments, _ = rule.update(state.credit, events)
    batch = serving.batch_of(program, rows, credit)
    return table, (slots, ready, credit), batch, moments


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
