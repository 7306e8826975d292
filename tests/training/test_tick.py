"""The tick as a whole: bookkeeping, identities between rules, one scan."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_program
from toy_program import program, rule, run

from agentic_grpo.ops import credit
from agentic_grpo.ops.reductions import Mean
from agentic_grpo.training import tick

TICKS = 24
CLIP = credit.Clip(0.2, 0.2)


@pytest.fixture(scope="module")
def agentic_run():
    return run(program(rule(correction_clip=CLIP)), TICKS)


def total(metrics, name):
    value = metrics[name]
    return float(jnp.sum(value.total if isinstance(value, Mean) else value))


def test_every_event_is_served_once_or_expires_or_is_still_pending(agentic_run):
    state, metrics = agentic_run
    came = total(metrics, "events/scheduled")
    served = total(metrics, "events/stage_rewards_served") + total(
        metrics, "events/verdicts_served"
    )
    event_mask = np.array([True, True, True])
    pending = jax.vmap(lambda table: tick.snapshots.pending(table, event_mask))(
        state.table
    )
    assert served + float(pending.sum()) == came
    assert total(metrics, "events/expired_stage_rewards") == 0


def test_learner_steps_and_idle_ticks_add_up(agentic_run):
    state, metrics = agentic_run
    assert int(state.learner.step) + total(metrics, "idle") == TICKS
    assert int(state.tick) == TICKS


def test_a_scan_of_ticks_is_tick_after_tick(agentic_run):
    built = program(rule(correction_clip=CLIP))
    step = jax.jit(functools.partial(tick.run_ticks, built, num_ticks=TICKS // 2))
    half, _ = step(toy_program.initial_state(built))
    state, _ = step(half)
    both = jax.tree.map(
        lambda x: (
            jax.random.key_data(x)
            if jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
            else x
        ),
        (state, agentic_run[0]),
    )
    jax.tree.map(np.testing.assert_array_equal, *both)


def test_the_same_shapes_compile_once():
    traces = []

    def schedule(now):
        traces.append(now)
        return 3e-3 + 0.0 * now

    built = program(schedule=schedule)
    step = jax.jit(functools.partial(tick.run_ticks, built, num_ticks=2))
    state, _ = step(toy_program.initial_state(built))
    traced = len(traces)
    step(state)
    assert len(traces) == traced


def test_calibrated_with_worth_zero_takes_the_steps_of_outcome():
    """What is worth nothing is not served, and the correction is the whole outcome."""
    outcome, _ = run(program(rule(credit.outcome, clip=CLIP)), TICKS)
    calibrated, metrics = run(
        program(
            rule(credit.calibrated, fixed_worth=0.0, clip=CLIP, correction_clip=CLIP)
        ),
        TICKS,
    )
    assert total(metrics, "events/stage_rewards_served") == 0
    assert total(metrics, "events/verdicts_served") > 0
    assert int(outcome.learner.step) == int(calibrated.learner.step) > 0
    jax.tree.map(
        np.testing.assert_array_equal,
        outcome.learner.params,
        calibrated.learner.params,
    )


def test_what_is_too_old_expires_and_is_counted():
    # With a limit of 0 learner steps only what is used in the tick of sampling is young
    # enough, and no reward of this environment comes that early.
    state, metrics = run(program(max_age=0), TICKS)
    assert total(metrics, "events/expired_stage_rewards") > 0
    # Until the first step nothing is stale; from then on nearly everything is.
    assert int(state.learner.step) < TICKS / 2


def test_the_schedule_counts_ticks_not_steps():
    """alibaba/ROLL#407: a schedule that counts optimizer steps is used up too early."""
    seen = []

    def schedule(now):
        jax.debug.callback(lambda value: seen.append(int(value)), now)
        return 1e-3 * (now >= TICKS)

    state, metrics = run(program(schedule=schedule), TICKS)
    assert total(metrics, "idle") > 0 and int(state.learner.step) > 0
    assert sorted(seen) == list(range(TICKS))
    jax.tree.map(
        np.testing.assert_array_equal,
        state.learner.params,
        toy_program.initial_params(),
    )


def test_blocks_give_the_run_of_one_device_whatever_the_device_holds():
    """Two devices with one block each, against one device with both blocks."""
    built = program()
    state = toy_program.initial_state(built)
    whole, metrics = run(built, 6, state)
    per_block = dataclasses.replace(
        state,
        table=jax.tree.map(lambda x: x[:, None], state.table),
        lanes=jax.tree.map(lambda x: x[:, None], state.lanes),
    )
    step = jax.pmap(
        lambda table, lanes, rest: tick.run_ticks(
            built,
            dataclasses.replace(rest, table=table, lanes=lanes),
            num_ticks=6,
            axis_name="devices",
        ),
        axis_name="devices",
        in_axes=(0, 0, None),
    )
    split, split_metrics = step(per_block.table, per_block.lanes, state)
    for device in range(2):
        jax.tree.map(
            lambda a, b, d=device: np.testing.assert_allclose(
                a[d], b, rtol=1e-4, atol=1e-5
            ),
            split.learner.params,
            whole.learner.params,
        )
    np.testing.assert_allclose(
        split_metrics["tokens_written"][0], metrics["tokens_written"]
    )
