"""What each credit rule pays, by hand or by the slow reference."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import references

from agentic_grpo.ops import credit

KINDS = ("estimate", "skill", "none", "estimate")
KINDS = ("estimate", "skill", "none", "estimate")
IS_ESTIMATE = np.array([True, False, False, True])
IS_SKILL = np.array([False, True, False, False])
SIGMA, EVERYONE = 0.5, [True] * 4
STAGES, REWARDED = np.arange(4), [0, 1, 3]
IN_ORDER = [[0], [1], [3], [4]]


def advantages(values, population=EVERYONE, **options):
    return references.compare(np.asarray(values), population, **options)[0]


@pytest.mark.parametrize("divisor", ["own", "stage", "running", "none"])
def test_outcome_pays_every_stage_the_normalised_verdict(divisor, make_events, serve):
    rule = credit.outcome(
        KINDS, comparison=credit.Comparison(divisor=divisor, baseline="leave_one_out")
    )
    events = make_events(1)
    total, _, _ = serve(rule, events, IN_ORDER)
    divisor = {"running": SIGMA, "none": 1.0}.get(divisor)
    for u in range(3):
        expected = advantages(
            events.verdict[u], baseline="leave_one_out", divisor=divisor
        )
        for s in STAGES:
            np.testing.assert_allclose(total[1, u, :, s], expected, atol=1e-6)
    np.testing.assert_array_equal(total[0], 0.0)


@pytest.mark.parametrize("divisor", ["own", "stage", "running", "none"])
def test_immediate_pays_stage_rewards_and_nothing_else(divisor, make_events, serve):
    rule = credit.immediate(
        KINDS, comparison=credit.Comparison(divisor=divisor), skill_weight=0.25
    )
    events = make_events(2)
    total, credits, _ = serve(rule, events, IN_ORDER)
    divisor = {"running": SIGMA, "none": 1.0}.get(divisor)
    for u in range(3):
        for s in REWARDED:
            expected = advantages(events.reward[u, :, s], divisor=divisor)
            expected *= 0.25 if s == 1 else 1.0
            np.testing.assert_allclose(total[0, u, :, s], expected, atol=1e-6)
    np.testing.assert_array_equal(total[1], 0.0)
    np.testing.assert_array_equal(total[..., 2], 0.0)
    np.testing.assert_array_equal(credits[-1].applied_advantage, 0.0)


def test_a_tiny_stage_spread_falls_back_to_sigma(make_events, serve):
    """Rewards 0.50, 0.51 would otherwise be blown up to +-1."""
    reward = np.tile(np.array([0.50, 0.51, 0.50, 0.51])[None, :, None], (3, 1, 4))
    rule = credit.immediate(KINDS, comparison=credit.Comparison(divisor="stage"))
    total, _, _ = serve(rule, make_events(reward=reward), IN_ORDER)
    np.testing.assert_allclose(
        total[0, 0, :, 0], np.array([-1, 1, -1, 1]) * 0.005 / SIGMA, rtol=1e-4
    )


def test_ranks_compare_and_do_not_measure(make_events, serve):
    """A strictly increasing change of the rewards leaves rank credit alone."""
    rule = credit.agentic(KINDS, comparison=credit.Comparison(use_ranks=True))
    events = make_events(3)
    bent = dataclasses.replace(
        events, reward=events.reward**3, verdict=jnp.exp(events.verdict)
    )
    first, credits, _ = serve(rule, events, IN_ORDER)
    second, _, _ = serve(rule, bent, IN_ORDER)
    np.testing.assert_allclose(first, second, atol=1e-6)
    for u in range(3):
        ranks = references.centred_ranks(events.reward[u, :, 0], EVERYONE)
        np.testing.assert_allclose(credits[0].advantage[0, u, :, 0], ranks / SIGMA)


def test_a_skill_can_be_treated_as_an_estimate_as_publicly_reported(make_events, serve):
    rule = credit.agentic(KINDS, skill_as_estimate=True)
    events = make_events(4)
    total, credits, _ = serve(rule, events, IN_ORDER)
    np.testing.assert_allclose(total.sum(0)[..., 1], total.sum(0)[..., 2], atol=1e-6)
    assert np.any(credits[1].applied_advantage[..., 1])


def test_turn_mix_adds_a_weighted_outcome_to_the_stage_part(make_events, serve):
    """MT-GRPO: A_stage + lambda A_outcome, each divided by its own deviation."""
    rule = credit.turn_mix(KINDS, outcome_weight=0.5)
    events = make_events(5)
    total, _, _ = serve(rule, events, IN_ORDER)
    for u in range(3):
        outcome = 0.5 * advantages(events.verdict[u])
        for s in STAGES:
            stage = advantages(events.reward[u, :, s]) if s in REWARDED else 0.0
            np.testing.assert_allclose(
                total.sum(0)[u, :, s], stage + outcome, atol=1e-5
            )


@pytest.mark.parametrize("discount", [1.0, 0.5])
def test_returns_pay_what_was_still_to_come(discount, make_events, serve):
    rule = credit.returns(KINDS, discount=discount, skill_weight=0.1)
    acted = np.ones((3, 4, 4), bool)
    acted[:, 3, 2:] = False  # stops after the skill stage
    mask = np.broadcast_to(STAGES != 2, (3, 4, 4)) & acted
    events = make_events(6, acted=acted, reward_mask=mask)
    total, _, _ = serve(rule, events, IN_ORDER)
    for u in range(3):
        to_go = np.zeros((4, 4))
        for g in range(4):
            levels = np.asarray(events.reward[u, g], np.float64)
            rise = references.increments(levels, mask[u, g] & IS_ESTIMATE)
            rewards = rise + 0.1 * levels * (mask[u, g] & IS_SKILL)
            last = int(acted[u, g].sum())
            path = [*rewards[:last], float(events.verdict[u, g]) - rise.sum()]
            whole = references.reward_to_go(path, [True] * len(path), discount)
            to_go[g, :last] = whole[:last]
        for s in STAGES:  # a stopped member still counts, with 0
            expected = advantages(to_go[:, s], divisor=SIGMA) * acted[u, :, s]
            np.testing.assert_allclose(total[1, u, :, s], expected, atol=1e-5)


def test_undiscounted_returns_are_the_verdict_less_what_was_reached_before(
    make_events, serve
):
    events = make_events(7)
    total, _, _ = serve(credit.returns(KINDS), events, IN_ORDER)
    for u in range(3):
        reached = np.asarray(events.reward[u, :, 0])
        np.testing.assert_allclose(
            total[1, u, :, 3],
            advantages(events.verdict[u] - reached, divisor=SIGMA),
            atol=1e-5,
        )


def test_state_groups_compare_those_who_stood_in_equal_states(make_events, serve):
    """Mem-alpha#14: averaging stage 2 over different parents compares the unequal.

    Members 0 and 1 come from state 7, members 2 and 3 from state 8.
    """
    state_id = np.zeros((3, 4, 4), np.int32)
    state_id[:, :, 0] = [7, 7, 8, 8]
    state_id[:, :, 1] = [1, 2, 3, 4]  # everybody alone from stage 2 on
    state_id[:, :, 2] = [1, 2, 3, 4]
    verdict = np.tile([1.0, 0.0, 0.5, 0.5], (3, 1))
    events = make_events(state_id=state_id, verdict=verdict)
    rule = credit.state_groups(
        KINDS, comparison=credit.Comparison(divisor="none"), state_weight=2.0
    )
    total, _, _ = serve(rule, events, IN_ORDER)
    outcome = np.array([0.5, -0.5, 0.0, 0.0])
    np.testing.assert_allclose(total[1, 0, :, 0], outcome * 3)  # all from the start
    np.testing.assert_allclose(total[1, 0, :, 1], outcome + np.array([1.0, -1, 0, 0]))
    np.testing.assert_allclose(total[1, 0, :, 2], outcome)  # alone: the outcome only


def test_a_discount_prefers_the_shorter_way_among_equals(make_events, serve):
    acted = np.ones((3, 4, 4), bool)
    acted[:, 0, 1:] = False
    events = make_events(
        acted=acted, verdict=np.ones((3, 4)), state_id=np.zeros((3, 4, 4), np.int32)
    )
    rule = credit.state_groups(
        KINDS, comparison=credit.Comparison(divisor="none"), discount=0.5
    )
    total, _, _ = serve(rule, events, IN_ORDER)
    to_go = np.array([1.0, 0.125, 0.125, 0.125])  # 0 and 3 stages to come
    np.testing.assert_allclose(total[1, 0, :, 0], to_go - to_go.mean())


def test_a_failed_member_leaves_its_group(make_events, serve):
    """NeMo Gym#2015: one sandbox of four fails; the baseline is over three."""
    mask = np.ones((3, 4), bool)
    mask[:, 1] = False
    events = make_events(verdict=np.tile([1.0, np.nan, 0.0, 0.5], (3, 1)))
    events = dataclasses.replace(events, verdict_mask=jnp.asarray(mask))
    rule = credit.outcome(KINDS, comparison=credit.Comparison(divisor="none"))
    total, credits, _ = serve(rule, events, IN_ORDER)
    np.testing.assert_allclose(total[1, 0, :, 0], [0.5, 0.0, -0.5, 0.0])
    assert not np.any(credits[-1].mask[:, :, 1])


def test_returns_and_fills_read_nothing_that_is_not_in_yet(make_events, serve):
    """A reward that comes after the verdict changes neither the returns of a member
    nor what it counts as in the stages that it did not reach.
    """
    acted = np.ones((3, 4, 4), bool)
    acted[:, 0, 1:] = False
    early = np.ones((3, 4, 4), bool)
    early[:, 0, 0] = False
    events = make_events(8, acted=acted, reward_mask=early)
    other = dataclasses.replace(events, reward=events.reward.at[:, 0, 0].set(9.0))
    for rule in (credit.returns(KINDS), credit.agentic(KINDS)):
        first, _, _ = serve(rule, events, IN_ORDER)
        second, _, _ = serve(rule, other, IN_ORDER)
        np.testing.assert_array_equal(first, second)
    three = advantages(events.reward[0, 1:, 3], [True] * 3, divisor=SIGMA)
    np.testing.assert_allclose(first[0, 0, 1:, 3], three, atol=1e-6)
