"""Lanes on the simulated clock: what is written when, and what is due when."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_environment as toy

from agentic_grpo import episodes, rollout, rollout_metrics, snapshots
from agentic_grpo.lanes import RolloutSettings, init_lanes
from agentic_grpo.records import NEVER, EndReason

MEMBERS = 2
ENVIRONMENT = toy.ToyEnvironment()
SETTINGS = RolloutSettings(
    num_lanes=2,
    decode_slots=1,
    num_members=MEMBERS,
    stage_deadline=50,
    verdict_deadline=50,
)
NUM_ROWS = 4


RIGHT = (-1, -1)  # instead of a token: the digit that the statement shows


def scripted(script):
    """An act in which member g opens every stage with token ``script[g]``."""

    def act(tokens, token_mask, problem, stage, acting, keys, *, action_width):
        digits = toy.DIGITS + problem["digit"][:, None]
        first = jnp.where(script[None, :] < 0, digits, script[None, :])
        written = jnp.pad(first[:, :, None], ((0, 0), (0, 0), (0, action_width - 1)))
        columns = jnp.arange(action_width)[None, None, :]
        mask = jnp.broadcast_to(columns < 1, written.shape)
        return written, mask, jnp.where(mask, -0.5, 0.0)

    return act


@functools.cache
def stepper(settings=SETTINGS, environment=ENVIRONMENT):
    """One tick; compiled once per environment and settings, whatever the script."""

    @jax.jit
    def step(table, lanes, tick, key, script, first_block):
        return rollout.advance(
            table,
            lanes,
            scripted(script),
            environment,
            settings,
            tick=tick,
            learner_step=10 + tick,
            key=key,
            first_block=first_block,
        )

    return step


def start(num_blocks=1, settings=SETTINGS, environment=ENVIRONMENT):
    table = snapshots.init(
        environment.spec.layout, num_rows=NUM_ROWS, num_members=MEMBERS
    )
    lanes = init_lanes(environment, settings)
    return jax.tree.map(lambda x: jnp.stack([x] * num_blocks), (table, lanes))


def play(script, num_ticks, settings=SETTINGS, environment=ENVIRONMENT):
    """(table, lanes) of one block without its leading axis, and metrics by tick."""
    table, lanes = start(settings=settings, environment=environment)
    step, history = stepper(settings, environment), []
    script, key = jnp.array(script), jax.random.key(0)
    for tick in range(num_ticks):
        table, lanes, metrics = step(table, lanes, jnp.int32(tick), key, script, 0)
        history.append(metrics)
    return jax.tree.map(lambda x: x[0], (table, lanes)), history


def test_events_are_scheduled_by_the_slowest_member_and_versions_are_kept_per_stage():
    (table, lanes), _ = play(RIGHT, 3)
    # Tick 0: lane 0 guesses; members wait 1 and 2 ticks, so the group's reward is in at
    # 2, when the lane answers (latency 1: in at 3; verdict 3 ticks later: at 5).
    np.testing.assert_array_equal(table.ready_at[0], [2, 3, 5])
    np.testing.assert_array_equal(table.version[0], [10, 12])
    # Tick 1: lane 1 guessed into the next row; its reward is in at 3.
    np.testing.assert_array_equal(table.ready_at[1], [3, NEVER, NEVER])
    np.testing.assert_array_equal(table.generating[:3], [False, True, False])
    np.testing.assert_array_equal(lanes.vacant, [True, False])
    np.testing.assert_array_equal(table.reward[0], 1.0)
    np.testing.assert_array_equal(table.verdict[0], 1.0)


def test_a_lane_starts_anew_when_its_generation_ends_not_when_its_verdict_comes():
    (table, _), history = play(RIGHT, 4)
    assert [int(m["groups_started"]) for m in history] == [1, 1, 0, 1]
    assert table.occupied.sum() == 3  # the first row still waits for its verdict


def test_starts_per_tick_do_not_depend_on_the_verdict_latency():
    late = toy.ToyEnvironment(verdict_latency=40)
    settings = dataclasses.replace(SETTINGS, decode_slots=2)
    histories = [
        play(RIGHT, 6, settings, environment)[1] for environment in (ENVIRONMENT, late)
    ]
    started = [[int(m["groups_started"]) for m in h] for h in histories]
    assert started[0] == started[1]


def test_without_a_free_row_a_lane_waits_and_is_counted():
    late = toy.ToyEnvironment(verdict_latency=40)
    _, history = play(RIGHT, 14, environment=late)
    assert sum(int(m["groups_started"]) for m in history) == NUM_ROWS
    assert int(history[-1]["lanes_without_row"]) == 2  # both wait, and hold no slot


def test_a_member_that_stops_early_is_masked_and_judged():
    (table, _), _ = play((toy.STOP, -1), 3)
    np.testing.assert_array_equal(table.acted[0], [[True, False], [True, True]])
    np.testing.assert_array_equal(
        table.end_reason[0], [EndReason.SUBMITTED, EndReason.OUT_OF_STAGES]
    )
    np.testing.assert_array_equal(table.verdict_mask[0], [True, True])
    assert not table.token_mask[0, 0, 6:].any()  # not even the marker of stage 1
    assert table.token_mask[0, 1, 6]


def test_when_all_stop_early_the_lane_does_not_wait_for_them():
    (table, lanes), _ = play((toy.STOP, toy.STOP), 1)
    assert lanes.vacant[0] and lanes.ready_at[0] == 1
    np.testing.assert_array_equal(table.ready_at[0], [2, NEVER, 3])


def test_a_fault_leaves_the_group_without_reward_or_verdict():
    (table, _), history = play((toy.FAULT_TOKEN, -1), 3)
    np.testing.assert_array_equal(table.reward_mask[0, 0], [False, False])
    np.testing.assert_array_equal(table.verdict_mask[0], [False, True])
    assert int(history[0]["members_at_fault"]) == 1


def test_when_all_are_at_fault_the_verdict_comes_at_once_to_take_back_what_was_spent():
    (table, _), _ = play((toy.FAULT_TOKEN, toy.FAULT_TOKEN), 1)
    np.testing.assert_array_equal(table.ready_at[0], [NEVER, NEVER, 0])
    assert not table.verdict_mask[0].any()


def test_a_nan_reward_is_absent_and_counted():
    (table, _), history = play((toy.NAN_TOKEN, -1), 3)
    np.testing.assert_array_equal(table.reward_mask[0, :, 0], [False, True])
    assert np.isfinite(table.reward).all()
    assert int(history[0]["rewards_refused"]) == 1


def test_past_the_deadline_a_reward_is_absent_and_the_others_do_not_wait():
    settings = dataclasses.replace(SETTINGS, stage_deadline=1, verdict_deadline=2)
    (table, _), _ = play(RIGHT, 3, settings)
    # Member 1 would need 2 ticks for its guess; the verdict 3. At tick 1 the other lane
    # has waited longer, so this one answers at tick 2.
    np.testing.assert_array_equal(table.reward_mask[0, :, 0], [True, False])
    np.testing.assert_array_equal(table.ready_at[0], [1, 3, 4])
    assert not table.verdict_mask[0].any()


@pytest.mark.parametrize("block", [0, 1])
def test_blocks_do_not_know_of_each_other(block):
    step, script = stepper(), jnp.array(RIGHT)
    together, alone = start(num_blocks=2), start(num_blocks=1)
    for tick in range(3):
        now, key = jnp.int32(tick), jax.random.key(7)
        together = step(*together, now, key, script, 0)[:2]
        alone = step(*alone, now, key, script, block)[:2]
    jax.tree.map(
        lambda a, b: np.testing.assert_array_equal(a[block], b[0]), together, alone
    )


def test_lanes_and_ticks_draw_different_problems():
    settings = dataclasses.replace(SETTINGS, num_lanes=16, decode_slots=16)
    late = toy.ToyEnvironment(verdict_latency=40)
    table = snapshots.init(late.spec.layout, num_rows=16, num_members=MEMBERS)
    lanes = init_lanes(late, settings)
    table, lanes = jax.tree.map(lambda x: x[None], (table, lanes))
    step, script, key = stepper(settings, late), jnp.array(RIGHT), jax.random.key(0)
    first, _, _ = step(table, lanes, jnp.int32(0), key, script, 0)
    second, _, _ = step(table, lanes, jnp.int32(1), key, script, 0)
    assert len(np.unique(first.tokens[0, :, 0, 0])) > 1
    assert (first.tokens[0, :, 0, 0] != second.tokens[0, :, 0, 0]).any()


def test_whole_episodes_agree_with_lanes():
    keys = jax.random.split(jax.random.key(3), 5)
    rows = episodes.play_episodes(
        scripted(jnp.array(RIGHT)),
        ENVIRONMENT,
        keys,
        split="train",
        num_members=MEMBERS,
    )
    np.testing.assert_array_equal(rows.verdict, 1.0)
    np.testing.assert_array_equal(rows.action_mask.sum(-1), 2)
    assert rows.acted.all() and rows.reward_mask.all()
    np.testing.assert_allclose(rows.log_probs[rows.action_mask], -0.5)


def test_a_lane_that_waits_for_a_row_keeps_no_slot_from_those_that_have_one():
    """Two rows for four lanes, two slots: it once wrote two stages and then nothing."""
    settings = dataclasses.replace(SETTINGS, num_lanes=4, decode_slots=2)
    table = snapshots.init(ENVIRONMENT.spec.layout, num_rows=2, num_members=MEMBERS)
    lanes = init_lanes(ENVIRONMENT, settings)
    table, lanes = jax.tree.map(lambda x: x[None], (table, lanes))
    step, script, key = stepper(settings), jnp.array(RIGHT), jax.random.key(0)
    written = 0
    for tick in range(12):
        table, lanes, metrics = step(table, lanes, jnp.int32(tick), key, script, 0)
        written += int(metrics["stages_written"])
    # Nothing serves the table here: two rows are two episodes of two stages, written to
    # their end although two more lanes have waited for a row since tick 0.
    assert written == 4


@pytest.mark.parametrize(
    ("changes", "out_of_time", "in_no_tokens"),
    [
        ({}, 0, 0),
        ({"latency": 9}, 3, 0),  # guess takes at most 8 ticks, answer at most 1
        ({"latency": 8}, 2, 0),  # late in answer alone
        ({"latency": -1}, 3, 0),
        ({"verdict_latency": 4}, 2, 0),  # of those that end
        ({"observation_tokens": toy.VOCABULARY_SIZE}, 0, 1),  # answer tells nothing
        ({"observation_tokens": -1}, 0, 1),
    ],
)
def test_an_environment_that_breaks_its_word_is_counted(
    changes, out_of_time, in_no_tokens
):
    # a lane at guess whose second member does not act, a lane at answer where both end
    keys = jax.random.split(jax.random.key(0), 2)
    stage, acting = jnp.array([0, 1]), jnp.array([[True, False], [True, True]])
    written = jnp.full((2, MEMBERS, 3), toy.DIGITS), jnp.ones((2, MEMBERS, 3), bool)
    state = {"digit": jnp.array([1, 2])}
    result = ENVIRONMENT.step(state, stage, *written, acting, keys)
    changed = {n: jnp.full_like(getattr(result, n), x) for n, x in changes.items()}
    counted = rollout_metrics.of_contract(
        ENVIRONMENT.spec, dataclasses.replace(result, **changed), stage, acting
    )
    assert counted == {
        "contract/answers_out_of_time": out_of_time,
        "contract/answers_in_no_tokens": in_no_tokens,
    }


def test_every_tick_reports_whether_the_environment_keeps_its_word():
    *_, history = play(RIGHT, 2)
    for metrics in history:
        assert metrics["contract/answers_out_of_time"] == 0
        assert metrics["contract/answers_in_no_tokens"] == 0
