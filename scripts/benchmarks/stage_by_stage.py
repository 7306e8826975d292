"""The tick as a Python loop drives it: every part compiled, every part waited for.

What most trainers do: the host calls generation, credit, learner and bookkeeping one
after the other and looks at what came. Same functions, same numbers; the difference in
time is what one compiled program saves.
"""

import dataclasses
import functools

import jax

from agentic_grpo import learner
from agentic_grpo.training import serving, tick


def loop_of(program: tick.Program, *, num_ticks: int):
    """Some ticks per call, going on from call to call: () -> number of tokens."""
    state = jax.jit(lambda k: tick.init(program, program.policy.init(k), k))(
        jax.random.key(0)
    )
    generate = jax.jit(functools.partial(tick.generate, program))
    serve = jax.jit(functools.partial(_serve, program))
    learn = jax.jit(functools.partial(_learn, program))
    settle = jax.jit(functools.partial(serving.settle, program))

    def advance():
        nonlocal state
        state, metrics = generate(state)
        written = int(metrics["tokens_written"])
        table, served = jax.block_until_ready(serve(state))
        taught, accepted, metrics = learn(state, served.batch)
        float(metrics["entropy"].total)
        table, moments, _ = jax.block_until_ready(
            settle(table, served, state.credit, accepted)
        )
        state = dataclasses.replace(
            state, learner=taught, table=table, credit=moments, tick=state.tick + 1
        )
        return written

    return lambda: sum(advance() for _ in range(num_ticks))


def _serve(program, state):
    return serving.serve(
        program, state.table, state.credit, tick=state.tick, step=state.learner.step
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
