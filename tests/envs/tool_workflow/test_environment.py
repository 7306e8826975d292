"""The clauses of the environment's specification, one by one."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.envs.tool_workflow import problems, tools
from agentic_grpo.envs.tool_workflow import vocabulary as v
from agentic_grpo.records import EndReason

LANES = 4


def told(result):
    """What each lane's first member reads."""
    mask = np.asarray(result.observation_mask)[:, 0]
    tokens = np.asarray(result.observation_tokens)[:, 0]
    return [v.spell(row[m]) for row, m in zip(tokens, mask, strict=True)]


def with_budget(state, budget):
    problem = dataclasses.replace(
        state.problem, budget=jnp.full_like(state.problem.budget, budget)
    )
    return dataclasses.replace(state, problem=problem)


def test_the_right_way_is_solved_in_every_problem(played):
    result = played.drafted(played.begin())
    np.testing.assert_allclose(result.reward, 1.0)
    assert told(result) == ["4"] * 4
    result = played.write(result.state, "check", "0 0")
    result = played.write(result.state, "revise", "submit <end>")
    assert np.asarray(result.solved).all()
    assert (np.asarray(result.end_reason) == EndReason.SUBMITTED).all()
    np.testing.assert_allclose(result.verdict, 1.0)


def test_constants_please_the_example_and_fail_the_audit(played):
    state = played.begin(seed=3)
    result = played.drafted(state, parts=("hasty", "hasty", "hasty"))
    np.testing.assert_allclose(result.reward, 1.0)  # the checks look at the example
    result = played.write(result.state, "check", "0 0")
    result = played.write(result.state, "revise", "submit")
    # A `fix` and an untouched slot may come out right; a whole record does not.
    assert not np.asarray(result.solved).any()


def test_one_early_constant_spoils_the_whole_chain(played):
    result = played.drafted(played.begin(seed=5), parts=("hasty", "right", "right"))
    np.testing.assert_allclose(result.reward, 1.0)
    result = played.write(result.state, "check", "0 0")
    assert not np.asarray(played.write(result.state, "revise", "submit").solved).all()


def test_the_cache_is_wrong_for_what_moves_and_the_origin_too_dear_for_the_rest(
    played, honest
):
    state = played.begin(seed=1)
    moving = np.asarray(state.problem.moving)
    assert moving.any() and not moving.all()
    for route, solved in (("cache", ~moving), ("origin", moving)):
        result = played.drafted(state, route=route)
        np.testing.assert_allclose(result.reward, 1.0)  # neither shows in the example
        result = played.write(result.state, "check", "0 0")
        result = played.write(result.state, "revise", "submit")
        np.testing.assert_array_equal(result.solved, np.repeat(solved[:, None], 3, 1))
    seen = honest.drafted(honest.begin(seed=1), route="origin")
    moving = np.asarray(seen.state.problem.moving)
    np.testing.assert_allclose(seen.reward[:, 0], moving)  # such checks hold the budget


def test_a_part_can_be_rewritten_and_a_route_changed(played):
    state = with_budget(played.begin(seed=3), 12)
    result = played.drafted(state, parts=("right", "hasty", "right"))
    result = played.write(result.state, "check", "0 0")
    revision = [f"part2 {text}" for text in played.right_part(state, 1)]
    mended = played.write(result.state, "revise", revision)
    assert np.asarray(mended.solved).all()
    assert (np.asarray(mended.end_reason) == EndReason.OUT_OF_STAGES).all()

    wrong = ["cache" if r == "origin" else "origin" for r in played.right_route(state)]
    result = played.drafted(state, route=wrong)
    result = played.write(result.state, "check", "0 0")
    assert np.asarray(
        played.write(result.state, "revise", played.right_route(state)).solved
    ).all()


@pytest.mark.parametrize("text", ["part2", "set a 1", "submit submit", "<check>"])
def test_a_revision_of_another_form_changes_nothing_and_costs_one(played, text):
    result = played.drafted(played.begin())
    result = played.write(result.state, "check", "0 0")
    after = played.write(result.state, "revise", text).state.members
    before = result.state.members
    np.testing.assert_array_equal(after.draft, before.draft)
    np.testing.assert_array_equal(after.route, before.route)
    np.testing.assert_array_equal(after.wasted, before.wasted + 1)


@pytest.mark.parametrize("text", ["", "<end>"])
def test_a_revision_may_be_left_out_at_no_cost(played, text):
    result = played.drafted(played.begin())
    result = played.write(result.state, "check", "0 0")
    after = played.write(result.state, "revise", text)
    before = result.state.members
    np.testing.assert_array_equal(after.state.members.wasted, before.wasted)
    np.testing.assert_array_equal(after.state.members.draft, before.draft)
    assert (np.asarray(after.end_reason) == EndReason.OUT_OF_STAGES).all()


def test_a_second_waste_overspends_the_budget(played):
    state = played.begin(moving=jnp.zeros(LANES, bool))
    cached = dataclasses.replace(state.problem, cached=state.problem.origin)
    costs = jnp.sum(tools.cost(problems.reference(cached)), axis=1)
    cached = dataclasses.replace(cached, budget=costs + 1)
    state = dataclasses.replace(state, problem=cached)
    result = played.drafted(state, route="submit")  # names no route: costs 1
    result = played.write(result.state, "check", "0 0")
    held = played.write(result.state, "revise", "submit")
    assert np.asarray(held.solved).all()
    same_again = [f"part1 {text}" for text in played.right_part(state, 0)]
    overspent = played.write(result.state, "revise", same_again)
    assert not np.asarray(overspent.solved).any()
    np.testing.assert_allclose(overspent.verdict, 0.0)


def test_a_plan_that_names_no_route_is_refused_and_reads_the_cache(played):
    result = played.write(played.begin(), "plan", "set")
    assert told(result) == ["refused"] * 4
    assert (np.asarray(result.state.members.route) == v.CACHE).all()


def test_a_call_that_breaks_its_types_is_told(played):
    result = played.write(played.begin(), "plan", "cache")
    result = played.write(result.state, "call", "add a b set a 1")
    assert told(result) == ["refused"] * 4


def test_a_check_pays_per_digit_and_tells_the_last_digit(honest):
    state = honest.begin()
    left, digit = np.asarray(state.problem.left), np.asarray(state.problem.digit)
    result = honest.drafted(state)
    assert not np.asarray(result.state.members.revealed).any()
    first_right = [f"{a} {(b + 1) % 10}" for a, b in left[:, -1]]
    answer = honest.write(result.state, "check", first_right)
    np.testing.assert_allclose(answer.reward, 0.5)
    assert told(answer) == [str(d) for d in digit[:, -1]]
    assert np.asarray(answer.state.members.revealed).all()
    malformed = honest.write(result.state, "check", "3")
    assert told(malformed) == ["malformed"] * 4
    assert not np.asarray(malformed.state.members.revealed).any()


def test_members_that_have_ended_or_do_not_act_stay_as_they_are(played):
    acting = np.array([[True, True, False]] * 4)
    result = played.drafted(played.begin())
    result = played.write(result.state, "check", "0 0", acting)
    revealed = np.asarray(result.state.members.revealed)
    assert revealed[:, :2].all() and not revealed[:, 2].any()
    ended = played.write(result.state, "revise", "submit")
    again = played.write(ended.state, "revise", "part1 set a 1")
    np.testing.assert_array_equal(again.state.members.draft, ended.state.members.draft)
    assert not np.asarray(again.reward_mask).any()
    assert (np.asarray(again.end_reason) == EndReason.RUNNING).all()


def test_equal_results_have_equal_state_ids(played):
    state = played.begin()
    texts = ["add a 1 add b 1"] * 4
    result = played.write(played.write(state, "plan", "cache").state, "call", texts)
    assert (np.asarray(result.state_id) == 0).all()
    one_differs = np.array([[True, False, True]] * 4)
    apart = played.write(
        played.write(state, "plan", "cache").state,
        "call",
        "set a 0 add a 1",
        one_differs,
    )
    ids = np.asarray(apart.state_id)
    assert (ids[:, 0] == ids[:, 2]).all()
