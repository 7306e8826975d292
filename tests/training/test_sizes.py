"""With the default number of rows no lane ever waits for one."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_environment as toy
import toy_program

from agentic_grpo.lanes import RolloutSettings
from agentic_grpo.ops import credit
from agentic_grpo.training import sizes, tick

TICKS = 40


def write_digits(params, tokens, token_mask, stage, active, uniforms, *, temperature):
    """The ``sample`` of a policy that writes a digit, and costs nothing to compile."""
    del params, tokens, token_mask, temperature, stage
    written = toy.DIGITS + (uniforms * 4).astype(jnp.int32)
    mask = active[:, None] & (jnp.arange(written.shape[1]) < 1)[None, :]
    return written, mask, jnp.where(mask, -jnp.log(4.0), 0.0)


def lanes_that_waited(environment, num_lanes, decode_slots):
    rollout = RolloutSettings(
        num_lanes=num_lanes,
        decode_slots=decode_slots,
        num_members=2,
        stage_deadline=20,
        verdict_deadline=30,
    )
    needed = sizes.rows_needed(
        environment.spec,
        num_lanes=num_lanes,
        decode_slots=decode_slots,
        stage_deadline=20,
        verdict_deadline=30,
    )
    _, most = sizes.slots_needed(environment.spec, decode_slots=decode_slots)
    policy = toy_program.policy()._replace(sample=write_digits)
    built = toy_program.program(
        toy_program.rule(credit.agentic),
        environment=environment,
        policy=policy,
        rollout=rollout,
        num_blocks=1,
        num_rows=needed,
        update_slots=most,
    )
    run = jax.jit(functools.partial(tick.run_ticks, built, num_ticks=TICKS))
    _, metrics = run(toy_program.initial_state(built))
    assert np.sum(metrics["groups_started"]) > num_lanes
    return int(np.sum(metrics["lanes_without_row"]))


@pytest.mark.parametrize(
    ("verdict_latency", "answer_latency", "num_lanes", "decode_slots"),
    [(3, 1, 6, 3), (0, 10, 6, 3), (16, 1, 4, 4), (5, 4, 7, 2)],
)
def test_no_lane_waits_for_a_row_with_the_default_sizes(
    verdict_latency, answer_latency, num_lanes, decode_slots
):
    environment = toy.ToyEnvironment(
        verdict_latency=verdict_latency, answer_latency=answer_latency
    )
    assert lanes_that_waited(environment, num_lanes, decode_slots) == 0


def test_rows_are_counted_for_the_worst_window():
    # P = 16, D = 8, m = 3: the verdict takes 3 ticks, one more is served in, two more
    # may pass behind all 16 lanes. In these 6 ticks 48 stages are written, and up to 2
    # of the 3 of each group lie before them: (48 + 16 * 2) / 3 = 26 groups end.
    spec = dataclasses.replace(toy_spec(3), min_stages=3)
    assert (
        sizes.rows_needed(
            spec, num_lanes=16, decode_slots=8, stage_deadline=9, verdict_deadline=9
        )
        == 16 + 26
    )
    # Deadlines bound what is waited for: 1 tick, a window of 4: (32 + 32) / 3 = 21.
    assert (
        sizes.rows_needed(
            spec, num_lanes=16, decode_slots=8, stage_deadline=1, verdict_deadline=1
        )
        == 16 + 21
    )


def toy_spec(latency):
    """Three stages whose rewards take a tick, and a verdict."""
    environment = toy.ToyEnvironment(guess_latency=-6, verdict_latency=latency)
    spec = environment.spec
    layout = spec.layout
    stages = tuple(
        dataclasses.replace(layout.stages[0], name=name, max_latency=1)
        for name in "abc"
    )
    layout = dataclasses.replace(layout, stages=stages, visibility=((True,) * 4,) * 4)
    return dataclasses.replace(spec, layout=layout)
