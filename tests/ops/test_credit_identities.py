"""What is applied at once and what the verdict corrects add up, whatever happened.

The identity of the method: over both phases every stage receives exactly the outcome
credit (times its weight) that a verdict alone would have paid.
"""

import numpy as np
import pytest
import references

from agentic_grpo.ops import credit

KINDS = ("estimate", "skill", "none", "estimate")
ESTIMATES, SKILL, BARE = [0, 3], 1, 2
VERDICT, SIGMA = 4, 0.5


def comparing(**options):
    return credit.agentic(KINDS, comparison=credit.Comparison(**options))


RUNNING = credit.agentic(KINDS)
OWN = comparing(divisor="own")
RULES = {
    "running": RUNNING,
    "stage": comparing(divisor="stage"),
    "none": comparing(divisor="none"),
    "ranks": comparing(use_ranks=True),
    "leave_one_out": comparing(baseline="leave_one_out"),
    "weights": credit.agentic(KINDS, immediate_weight=0.3, correction_weight=0.7),
    "own ranks": comparing(divisor="own", use_ranks=True),
    "calibrated": credit.calibrated(KINDS, prior=credit.Prior(beta=0.6, groups=2.0)),
}
IN_ORDER = [[0], [1], [3], [VERDICT]]

_REWARD_MASK = np.ones((3, 4, 4), bool) & (np.arange(4) != 2)
_LATE = _REWARD_MASK.copy()
_LATE[:, 1, 0] = False
_ABSENT = np.ones((3, 4), bool)
_ABSENT[:, 2] = False
_STOPPED = np.ones((3, 4, 4), bool)
_STOPPED[:, 3, 2:] = False
_OLD = np.ones((3, 4), bool)
_OLD[:, 0] = False

#: case -> (schedule, changes of the events)
CASES = {
    "in order": (IN_ORDER, {}),
    "a stage reward is missing": (IN_ORDER, {"reward_mask": _LATE}),
    "a verdict is missing": (IN_ORDER, {"verdict_mask": _ABSENT}),
    "a member stopped": (
        IN_ORDER,
        {"acted": _STOPPED, "reward_mask": _REWARD_MASK & _STOPPED},
    ),
    "an immediate update expired": ([[1], [3], [VERDICT]], {}),
    "too old when rewarded": (
        [
            {"ready": [0], "fresh": _OLD},
            {"ready": [1, 3, VERDICT], "fresh": ~_OLD | True},
        ],
        {},
    ),
    "verdict first": ([[VERDICT], [0], [1], [3]], {}),
    "verdict in the middle": ([[0], [VERDICT], [1, 3]], {}),
    "all at once": ([[0, 1, 3, VERDICT]], {}),
    "two stages at once": ([[0, 3], [1], [VERDICT]], {}),
}


def outcome_credit(name, events, credits):
    """[U, G, S]: what the verdict alone would have paid, by the slow reference."""
    expected = np.zeros(events.acted.shape)
    verdict_call = next(c for c in credits if np.any(c.mask[1]))
    for u in range(3):
        values, population = events.verdict[u], events.verdict_mask[u]
        if "ranks" in name:
            values = references.centred_ranks(values, population)
        for s in range(4):
            if name in ("stage", "own ranks", "none"):
                divisor = {"stage": float(verdict_call.divisor[u, s]), "none": 1.0}.get(
                    name
                )
                if name == "stage" and not np.any(verdict_call.paid[u, :, s]):
                    divisor = None  # nothing was frozen: the verdict's own deviation
            else:
                divisor = SIGMA
            baseline = "leave_one_out" if name == "leave_one_out" else "mean"
            expected[u, :, s], _ = references.compare(
                values, population, baseline=baseline, divisor=divisor
            )
    expected *= 0.7 if name == "weights" else 1.0
    return expected * np.asarray(events.acted)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", RULES)
def test_phases_add_up_to_outcome_credit(name, case, make_events, serve):
    schedule, changes = CASES[case]
    events = make_events(1, **changes)
    total, credits, _ = serve(RULES[name], events, schedule)
    summed = total.sum(axis=0)
    expected = outcome_credit(name, events, credits)
    where = [0, 2, 3] if name != "calibrated" else [0, 1, 2, 3]
    np.testing.assert_allclose(summed[..., where], expected[..., where], atol=2e-6)


@pytest.mark.parametrize("case", CASES)
def test_skill_credit_is_kept_on_top(case, make_events, serve):
    """Whenever the skill is paid, before or after the verdict, the sum is the same."""
    schedule, changes = CASES[case]
    events = make_events(1, **changes)
    total, credits, _ = serve(RUNNING, events, schedule)
    outcome = outcome_credit("running", events, credits)[..., SKILL]
    skill = np.stack(
        [
            references.compare(events.reward[u, :, SKILL], [True] * 4, divisor=SIGMA)[0]
            for u in range(3)
        ]
    )
    np.testing.assert_allclose(total.sum(0)[..., SKILL], outcome + skill, atol=2e-6)


def test_the_identity_survives_a_learnt_sigma(make_events, serve):
    """sigma_N moves between the phases; what was applied is a number, not a formula."""
    events = make_events(2)
    state = RUNNING.init()
    for seed in (5, 6):
        _, _, state = serve(
            RUNNING, make_events(seed), [[VERDICT]], state=state, learn=True
        )
        total, credits, state = serve(
            RUNNING, events, IN_ORDER, state=state, learn=False
        )
        sigma = np.sqrt(float(state.verdict_variance))
        expected = outcome_credit("running", events, credits) * SIGMA / sigma
        assert abs(sigma - SIGMA) > 1e-3
        np.testing.assert_allclose(
            total.sum(0)[..., ESTIMATES], expected[..., ESTIMATES], atol=2e-6
        )


def test_nothing_is_corrected_when_the_verdict_says_what_was_spent(make_events, serve):
    """A terminal reward equal to the stage reward leaves exactly nothing to do."""
    verdict = np.random.default_rng(3).uniform(size=(3, 4))
    reward = np.repeat(verdict[:, :, None], 4, axis=2)
    events = make_events(reward=reward, verdict=verdict)
    for rule in (RUNNING, OWN, RULES["none"], RULES["ranks"]):
        _, credits, _ = serve(rule, events, IN_ORDER)
        correction = np.asarray(credits[-1].advantage[1])
        np.testing.assert_array_equal(correction[..., ESTIMATES], 0.0)
        assert np.all(credits[-1].mask[1][..., ESTIMATES])


def test_own_divisor_pays_twice_when_the_stage_reward_is_half_the_verdict(
    make_events, serve
):
    """As publicly reported: both phases are the normalised verdict, their sum is twice.

    d = r_N - r_N / 2 is r_N / 2 again, and each is divided by its own deviation.
    """
    verdict = np.random.default_rng(4).uniform(size=(3, 4))
    events = make_events(
        verdict=verdict, reward=np.repeat(verdict[..., None], 4, 2) / 2
    )
    total, _, _ = serve(OWN, events, IN_ORDER)
    for u in range(3):
        outcome, _ = references.compare(verdict[u], [True] * 4)
        for s in ESTIMATES:
            np.testing.assert_allclose(total.sum(0)[u, :, s], 2 * outcome, rtol=1e-5)
        np.testing.assert_allclose(total.sum(0)[u, :, BARE], outcome, rtol=1e-5)
    shared, _, _ = serve(RUNNING, events, IN_ORDER)
    np.testing.assert_allclose(
        shared.sum(0)[..., 0], shared.sum(0)[..., BARE], atol=1e-6
    )


def test_own_divisor_corrects_paid_members_as_reported_and_pays_the_others_the_outcome(
    make_events, serve
):
    events = make_events(5, reward_mask=_LATE)
    _, credits, _ = serve(OWN, events, IN_ORDER)
    due = np.asarray(credits[-1].advantage[1])
    for u in range(3):
        delta = np.asarray(events.verdict[u] - events.reward[u, :, 0])
        reported, _ = references.compare(delta, _LATE[u, :, 0])
        outcome, _ = references.compare(events.verdict[u], [True] * 4)
        expected = np.where(_LATE[u, :, 0], reported, outcome)
        np.testing.assert_allclose(due[u, :, 0], expected, rtol=1e-4, atol=1e-6)


def test_own_divisor_takes_back_from_a_member_without_a_verdict(make_events, serve):
    events = make_events(5, verdict_mask=_ABSENT)
    total, _, _ = serve(OWN, events, IN_ORDER)
    np.testing.assert_allclose(total.sum(0)[:, 2][..., ESTIMATES], 0.0, atol=1e-7)


def test_own_divisor_takes_back_where_only_one_verdict_came(make_events, serve):
    """r_N - r_s of a single member has no deviation: the correction was 0, and what
    was paid at once stayed. Rewards 0, 0, 0, 1 pay the last member 1.732.
    """
    reward = np.zeros((3, 4, 4))
    reward[:, 3] = 1.0
    alone = np.broadcast_to(np.arange(4) == 3, (3, 4))
    events = make_events(reward=reward, verdict_mask=alone)
    total, credits, _ = serve(OWN, events, IN_ORDER)
    np.testing.assert_allclose(total[0, :, 3, 0], np.sqrt(3.0), rtol=1e-6)
    np.testing.assert_allclose(total[1, :, 3, 0], -np.sqrt(3.0), rtol=1e-6)
    np.testing.assert_allclose(total.sum(0)[..., ESTIMATES], 0.0, atol=1e-7)
    np.testing.assert_array_equal(credits[-1].applied_advantage, 0.0)


def test_half_of_a_silent_verdict_is_still_taken_back(make_events, serve):
    """Zero variance: credit is 0.0 and reported, but what was applied goes back."""
    verdict = np.full((3, 4), 0.3)
    events = make_events(6, verdict=verdict)
    total, credits, _ = serve(RUNNING, events, IN_ORDER)
    assert np.abs(total[0][..., ESTIMATES]).max() > 0.1
    np.testing.assert_array_equal(total.sum(0)[..., ESTIMATES], 0.0)
    np.testing.assert_array_equal(total[1][..., BARE], 0.0)
    np.testing.assert_array_equal(credits[-1].zero_variance[1], True)
    assert not np.any(credits[-1].zero_variance[0])
    np.testing.assert_array_equal(credits[-1].applied_advantage, 0.0)


def test_a_stage_that_grew_too_old_keeps_its_debt(make_events, serve):
    """A correction past the age limit expires in sight: the advantage stays applied."""
    events = make_events(7)
    schedule = [[0], [3], {"ready": [VERDICT], "fresh": _OLD}]
    total, credits, _ = serve(RUNNING, events, schedule)
    np.testing.assert_array_equal(total[1][..., 0], 0.0)
    assert not np.any(credits[-1].mask[1][..., 0])
    np.testing.assert_array_equal(
        credits[-1].applied_advantage[..., 0], credits[0].applied_advantage[..., 0]
    )
    np.testing.assert_array_equal(credits[-1].applied_advantage[..., 3], 0.0)


def test_each_event_is_paid_once_even_if_it_is_served_twice(make_events, serve):
    events = make_events(8)
    once, _, _ = serve(RUNNING, events, [[0], [VERDICT]])
    twice, credits, _ = serve(RUNNING, events, [[0], [0], [VERDICT]])
    np.testing.assert_array_equal(once, twice)
    assert not np.any(credits[1].mask)


def test_the_correction_is_clipped_tighter_only_where_something_was_spent(
    make_events, serve
):
    clips = credit.Clips(first=credit.Clip(0.2, 0.2), correction=credit.Clip(0.1, 0.1))
    rule, events = credit.agentic(KINDS, clips=clips), make_events(9)
    _, credits, _ = serve(rule, events, [[0], [VERDICT]])
    immediate, verdict = credits
    np.testing.assert_allclose(immediate.clip_low[0], 0.2)
    np.testing.assert_allclose(verdict.clip_high[1][..., 0], 0.1)  # paid at once
    np.testing.assert_allclose(verdict.clip_high[1][..., BARE], 0.2)  # never paid
    np.testing.assert_allclose(verdict.clip_high[1][..., 3], 0.2)  # its update expired
    _, credits, _ = serve(rule, events, [[0, VERDICT]])
    np.testing.assert_allclose(credits[0].clip_low[1][..., 0], 0.1)


def test_calibrated_with_beta_0_is_outcome_exactly(make_events, serve):
    """The control arm: beta fixed at 0 and equal clips leave plain GRPO."""
    clip = credit.Clip(0.2, 0.28)
    control = credit.calibrated(
        KINDS, clips=credit.Clips(first=clip, correction=clip), fixed_beta=0.0
    )
    plain = credit.outcome(KINDS, clip=clip)
    events = make_events(10)
    ours, credits, _ = serve(control, events, IN_ORDER, learn=True)
    theirs, expected, _ = serve(plain, events, [[VERDICT]], learn=True)
    np.testing.assert_array_equal(ours, theirs)
    for field in ("advantage", "mask", "clip_low", "clip_high"):
        np.testing.assert_array_equal(
            getattr(credits[-1], field)[1], getattr(expected[-1], field)[1]
        )
