"""The tick as a whole: bookkeeping, identities between rules, one scan."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import toy_environment
import toy_program
from toy_program import program, rule, run

from agentic_grpo.ops import aggregation, credit
from agentic_grpo.ops.reductions import Mean
from agentic_grpo.training import sizes, tick

TICKS = 24
CLIP = credit.Clip(0.2, 0.2)
CLIPS = credit.Clips(first=CLIP, correction=CLIP)


@pytest.fixture(scope="module")
def agentic_run():
    return run(program(rule(clips=CLIPS)), TICKS)


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
    built = program(rule(clips=CLIPS))
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
        program(rule(credit.calibrated, fixed_beta=0.0, clips=CLIPS)),
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


def test_the_anchor_taken_after_an_update_outlives_the_later_stages():
    """A lane once wrote its own copy back: every earlier stage lost its new anchor."""
    built = program(rule(clips=CLIPS), anchor_after_immediate=True)
    step = jax.jit(functools.partial(tick.tick, built))
    state, kept, lost = toy_program.initial_state(built), 0, 0
    segments = built.environment.spec.layout.segment_of_column
    for _ in range(TICKS):
        state, _ = step(state)
        table = jax.tree.map(np.asarray, state.table)
        # paid at once in its first stage, and the second stage written since
        paid = table.paid[..., 0] & table.acted[..., 1] & table.occupied[..., None]
        here = table.action_mask & (segments == 1) & paid[..., None]
        moved = table.anchor_log_probs != table.log_probs
        kept, lost = kept + (here & moved).sum(), lost + (here & ~moved).sum()
    assert kept > 0 and lost < kept / 10  # an update may leave a token where it was


def test_episodes_started_do_not_depend_on_the_rule_also_if_a_stage_is_late():
    """A stage reward later than the verdict holds its row longer: 72 against 240."""
    late = toy_environment.ToyEnvironment(answer_latency=10, verdict_latency=0)
    needed = sizes.rows_needed(
        late.spec,
        num_lanes=4,
        decode_slots=2,
        stage_deadline=20,
        verdict_deadline=20,
    )
    started = []
    for constructor in (credit.agentic, credit.outcome):
        built = program(rule(constructor), environment=late, num_rows=needed)
        _, metrics = run(built, 40)
        assert total(metrics, "lanes_without_row") == 0
        started.append(total(metrics, "groups_started"))
    assert started[0] == started[1] > 0


def test_calibrated_learns_nothing_from_rewards_that_are_not_in_yet():
    """The verdict comes at once, the reward of the answer ten ticks later."""
    late = toy_environment.ToyEnvironment(answer_latency=10, verdict_latency=0)
    built = program(rule(credit.calibrated), environment=late)
    first = {}
    step = jax.jit(functools.partial(tick.tick, built))
    state = toy_program.initial_state(built)
    for now in range(16):
        state, metrics = step(state)
        if metrics["events/verdicts_served"] > 0:
            first.setdefault("verdict", now)
        if np.asarray(state.credit.groups)[1, 0] > 0:
            first.setdefault("answer", now)
    assert "verdict" in first
    assert first.get("answer", 99) >= first["verdict"] + 10


def test_slots_that_can_never_be_filled_change_no_step():
    """64 slots over 24 rows once made the gradient 2.667 times as large."""

    def trained(slots):
        learner = dataclasses.replace(
            program().learner, aggregate=aggregation.constant_divisor(8.0 / slots)
        )
        # without Adam, which would hide a factor
        built = program(
            learner=learner,
            update_slots=slots,
            optimizer=optax.scale(-1.0),
            schedule=lambda now: 0.1 + 0.0 * now,
        )
        state, metrics = run(built, 10)
        return state.learner, metrics["gradient_norm"].total

    (few, few_norms), (many, many_norms) = trained(16), trained(40)  # of 16 rows
    assert int(few.step) == int(many.step) > 2
    np.testing.assert_allclose(many_norms, few_norms, rtol=1e-5)
    for one, other in zip(*map(jax.tree.leaves, (many, few)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
