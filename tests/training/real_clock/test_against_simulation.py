"""When everything comes in time and in the same order, both clocks are one."""

import functools

import jax
import numpy as np
import pytest
import toy_host

from agentic_grpo.ops import credit
from agentic_grpo.training import devices, tick
from agentic_grpo.training.real_clock import exchange, pieces

TICKS = 24
RULES = {
    "agentic": credit.agentic,
    "calibrated": credit.calibrated,
    "outcome": credit.outcome,
}
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in RULES][1:]


def parts_of(program):
    layout = devices.make_layout(num_blocks=program.num_blocks)
    state = toy_host.initial_state(program)
    return pieces.compile_pieces(layout, program, state, exchange.no_news(program))


@pytest.mark.parametrize("name", ["agentic", *SLOW])
def test_the_learner_takes_the_same_steps_to_the_last_bit(name, run_on):
    toy = toy_host.ToyHost()  # another than the simulation asks
    program = toy_host.program(toy_host.ToyHost(), RULES[name])
    simulate = jax.jit(functools.partial(tick.tick, program))
    parts = toy_host.compiled() if name == "agentic" else parts_of(program)
    run = run_on(toy, built=program, parts=parts)
    one = toy_host.initial_state(program)
    other = toy_host.initial_state(program)
    for number in range(TICKS):
        one, _ = simulate(one)
        toy.now = float(number)
        other, _, _ = run.dispatch(other, num_ticks=1)
        for field in ("learner", "credit", "tick"):
            ours, theirs = (
                toy_host.numbers(getattr(state, field)) for state in (other, one)
            )
            jax.tree.map(np.testing.assert_array_equal, ours, theirs)
    assert int(one.learner.step) > TICKS / 3
