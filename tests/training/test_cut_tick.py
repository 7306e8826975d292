"""A tick cut into its pieces, with a host between them, is the tick to the last bit."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_program
from toy_environment import ToyEnvironment

from agentic_grpo import episodes, rollout
from agentic_grpo.ops import credit
from agentic_grpo.training import tick

TICKS = 40
ENVIRONMENT = ToyEnvironment(answer_latency=4, verdict_latency=9)
RULES = {
    "outcome": credit.outcome,
    "agentic": credit.agentic,
    "calibrated": credit.calibrated,
}


@functools.cache
def program_of(name):
    """Verdicts late, and groups with stragglers: guesses take a tick per member."""
    return toy_program.program(
        toy_program.rule(RULES[name]), environment=ENVIRONMENT, num_rows=24
    )


@functools.cache
def pieces():
    """begin, execute, finish: each a program of its own; they know no credit rule."""
    program = program_of("outcome")
    settings, layout = program.rollout, ENVIRONMENT.spec.layout

    @jax.jit
    def begin(state):
        act = episodes.sample_with(
            program.policy,
            state.learner.policy_params,
            temperature=settings.temperature,
        )
        return rollout.begin(
            state.table,
            state.lanes,
            act,
            ENVIRONMENT,
            settings,
            tick=state.tick,
            key=state.key,
        )[0]

    @jax.jit
    def execute(written):
        return ENVIRONMENT.step(
            written.lanes.problem,
            written.lanes.stage,
            written.tokens,
            written.mask,
            written.acting,
            written.environment_keys,
        )

    @jax.jit
    def finish(state, written, result):
        table, lanes, _ = rollout.finish(
            state.table,
            state.lanes,
            written,
            result,
            layout,
            settings,
            tick=state.tick,
            learner_step=state.learner.step,
        )
        return dataclasses.replace(state, table=table, lanes=lanes)

    return begin, execute, finish


def numbers(state):
    def number(leaf):
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    return jax.tree.map(number, state)


@pytest.mark.parametrize("name", RULES)
def test_begin_execute_finish_learn_is_the_tick(name):
    program = program_of(name)
    whole = jax.jit(functools.partial(tick.tick, program))
    learn = jax.jit(functools.partial(tick.learn, program))
    begin, execute, finish = pieces()
    one = other = toy_program.initial_state(program)
    for _ in range(TICKS):
        one, _ = whole(one)
        written = begin(other)
        other, _, _ = learn(finish(other, written, execute(written)))
    assert int(one.learner.step) > 2
    jax.tree.map(np.testing.assert_array_equal, numbers(one), numbers(other))
