"""The table of rows: oldest first, each event once, a row is free when all are done."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_environment as toy

from agentic_grpo import snapshots
from agentic_grpo.layout import place
from agentic_grpo.records import NEVER

ROWS, MEMBERS = 4, 2
LAYOUT = toy.ToyEnvironment().spec.layout
BOTH = np.array([True, True, True])
VERDICT_ONLY = np.array([False, False, True])


@pytest.fixture
def table():
    """Rows 0 .. 2 are occupied; their events are ready at the ticks written here."""
    empty = snapshots.init(LAYOUT, num_rows=ROWS, num_members=MEMBERS)
    ready_at = [[5, 9, 20], [3, NEVER, NEVER], [5, 6, 7], [0, 0, 0]]
    return dataclasses.replace(
        empty,
        ready_at=jnp.array(ready_at, jnp.int32),
        occupied=jnp.array([True, True, True, False]),
        acted=jnp.ones_like(empty.acted),
        version=jnp.array([[0, 4], [0, 0], [0, 0], [0, 0]], jnp.int32),
    )


def settle(table, rows, ready, event_mask=BOTH):
    rows = jnp.array(rows, jnp.int32)
    old = snapshots.read(table, rows)
    return snapshots.settle(
        table,
        rows,
        jnp.array(ready),
        event_mask,
        applied_advantage=old.applied_advantage + 0.25,
        paid=jnp.ones_like(old.paid),
        divisor=old.divisor,
    )


def test_the_row_that_has_waited_longest_is_served_first(table):
    rows, ready, waiting = snapshots.select(table, BOTH, tick=6, num_slots=2)
    # Row 1 since tick 3; rows 0 and 2 both since 5, so the lower one; row 2 must wait.
    np.testing.assert_array_equal(rows, [1, 0])
    np.testing.assert_array_equal(ready, [[True, False, False], [True, False, False]])
    assert waiting == 1


def test_all_ready_events_of_a_row_are_served_together(table):
    rows, ready, waiting = snapshots.select(table, BOTH, tick=7, num_slots=4)
    np.testing.assert_array_equal(rows, [1, 0, 2, ROWS])  # the free row is never ready
    np.testing.assert_array_equal(ready[2], [True, True, True])
    np.testing.assert_array_equal(ready[3], [False, False, False])
    assert waiting == 0


def test_a_rule_that_waits_for_the_verdict_sees_no_stage_reward(table):
    rows, ready, _ = snapshots.select(table, VERDICT_ONLY, tick=7, num_slots=2)
    np.testing.assert_array_equal(rows, [2, ROWS])
    np.testing.assert_array_equal(ready[0], [False, False, True])


def test_each_event_is_served_exactly_once(table):
    rows, ready, _ = snapshots.select(table, BOTH, tick=30, num_slots=4)
    table = settle(table, rows, ready)
    again, _, waiting = snapshots.select(table, BOTH, tick=30, num_slots=4)
    np.testing.assert_array_equal(again, [ROWS] * 4)
    assert waiting == 0


def test_a_row_is_free_when_nothing_more_can_come(table):
    table = settle(table, [2, 0], [[True, True, True], [True, True, False]])
    # Row 2 is done; row 0 still waits for its verdict.
    np.testing.assert_array_equal(table.occupied, [True, True, False, False])
    np.testing.assert_array_equal(
        table.applied_advantage[:, 0, 0], [0.25, 0.0, 0.25, 0.0]
    )


def test_a_row_that_a_lane_still_writes_is_not_free(table):
    generating = jnp.array([False, True, False, False])
    table = dataclasses.replace(table, generating=generating)
    table = settle(table, [1], [[True, False, False]])
    assert table.occupied[1]


def test_writing_to_no_row_changes_nothing(table):
    changed = settle(table, [ROWS], [[True, True, True]])
    jax.tree.map(np.testing.assert_array_equal, changed, table)


def test_rows_are_given_out_in_order_and_not_beyond_what_is_free(table):
    table = dataclasses.replace(table, occupied=jnp.array([True, False, True, False]))
    wanted = jnp.array([True, False, True, True])
    rows = snapshots.allocate(table, wanted)
    np.testing.assert_array_equal(rows, [1, ROWS, 3, ROWS])


def test_what_is_too_old_expires_and_is_counted(table):
    # At step 6 with a limit of 3, stage 0 (version 0) is too old, stage 1 of row 0
    # (version 4) is not: its verdict is still served.
    table, expired = snapshots.expire(table, BOTH, tick=30, learner_step=6, max_age=3)
    expected = [[1, 0, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0]]
    np.testing.assert_array_equal(expired, np.array(expected, bool))
    events = snapshots.stage_events(
        snapshots.read(table, jnp.array([0])),
        jnp.array([[False, True, True]]),
        tick=30,
        learner_step=6,
        max_age=3,
    )
    np.testing.assert_array_equal(events.fresh, [[False, True]])


def test_what_is_not_ready_does_not_expire(table):
    _, expired = snapshots.expire(table, BOTH, tick=2, learner_step=99, max_age=0)
    assert not expired.any()


@pytest.mark.parametrize("part", ["marker", "action", "observation"])
def test_values_land_on_the_columns_of_their_stage(part):
    # prompt 2 | marker, 2 actions, 1 observation | marker, 3 actions
    columns = {
        "marker": {0: [2], 1: [6]},
        "action": {0: [3, 4], 1: [7, 8, 9]},
        "observation": {0: [5], 1: []},
    }[part]
    values = jnp.arange(1, 4, dtype=jnp.int32)[None, None, :]
    values = jnp.broadcast_to(values, (2, MEMBERS, 3))
    stage = jnp.array([0, 1])
    placed = np.asarray(place(values, stage, LAYOUT, part=part, fill=0))
    for lane, here in columns.items():
        expected = np.zeros(LAYOUT.num_columns, int)
        expected[here] = np.arange(1, len(here) + 1)
        np.testing.assert_array_equal(placed[lane, 0], expected)


def test_there_are_as_many_slots_as_asked_for_also_beyond_the_rows(table):
    """The loss counts slots: 64 of them over 24 rows gave 2.667 times the gradient."""
    rows, ready, waiting = snapshots.select(table, BOTH, tick=7, num_slots=6)
    np.testing.assert_array_equal(rows, [1, 0, 2, ROWS, ROWS, ROWS])
    assert ready.shape == (6, 3) and not ready[3:].any() and waiting == 0


def test_a_reward_is_absent_until_its_tick_has_come(table):
    """The simulator tells a row its rewards at writing; a rule may not hear of them."""
    told = dataclasses.replace(
        table,
        reward_mask=jnp.ones_like(table.reward_mask),
        verdict_mask=jnp.ones_like(table.verdict_mask),
        ready_at=table.ready_at.at[0].set(jnp.array([5, 9, 6])),
    )
    row = snapshots.read(told, jnp.array([0]))
    # The verdict (tick 6) is earlier than the reward of stage 1 (tick 9).
    for tick, stage, verdict in ((4, [0, 0], 0), (6, [1, 0], 1), (9, [1, 1], 1)):
        events = snapshots.stage_events(
            row, jnp.zeros((1, 3), bool), tick=tick, learner_step=0, max_age=9
        )
        np.testing.assert_array_equal(events.reward_mask[0, 0], np.array(stage, bool))
        assert bool(events.verdict_mask[0, 0]) == bool(verdict)
