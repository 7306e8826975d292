"""What every credit rule owes: symmetry, clean masks, silence, age, refusals."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.ops import credit

KINDS = ("estimate", "skill", "none", "estimate")
VERDICT = 4
STAGES, REWARDED = np.arange(4), [0, 1, 3]
IN_ORDER = [[0], [1], [3], [VERDICT]]

RULES = {
    "outcome": credit.outcome(KINDS),
    "immediate": credit.immediate(KINDS),
    "agentic": credit.agentic(KINDS),
    "calibrated": credit.calibrated(KINDS),
    "returns": credit.returns(KINDS),
    "turn_mix": credit.turn_mix(KINDS),
    "state_groups": credit.state_groups(KINDS),
    "critic": credit.calibrated(KINDS, signal="forecast"),
    "value_baseline": credit.value_baseline(KINDS),
}
OWN = {
    f"{name} own": getattr(credit, name)(
        KINDS, comparison=credit.Comparison(divisor="own")
    )
    for name in (
        *("outcome", "immediate", "agentic", "returns", "state_groups"),
        "value_baseline",
    )
}


@pytest.mark.parametrize("name", RULES)
def test_members_can_be_renamed(name, make_events, serve):
    """A group is a set: permuting members permutes their credit and nothing else."""
    order = np.array([2, 0, 3, 1])
    acted = np.ones((3, 4, 4), bool)
    acted[:, 1, 3:] = False
    events = make_events(3, acted=acted)
    of_members = ("acted", "reward", "reward_mask", "verdict", "verdict_mask")
    of_members += ("forecast", "forecast_mask", "state_id")
    changes = {name: getattr(events, name)[:, order] for name in of_members}
    first, _, _ = serve(RULES[name], events, IN_ORDER)
    second, _, _ = serve(RULES[name], dataclasses.replace(events, **changes), IN_ORDER)
    np.testing.assert_allclose(second, first[:, :, order], atol=1e-6)


@pytest.mark.parametrize("rule", (RULES | OWN).values(), ids=RULES | OWN)
@pytest.mark.parametrize("poison", [np.nan, np.inf, -1e30])
def test_what_lies_behind_a_false_mask_changes_nothing(
    rule, poison, make_events, serve
):
    acted = np.ones((3, 4, 4), bool)
    acted[:, 1, 2:] = False
    reward_mask = np.broadcast_to(STAGES != 2, (3, 4, 4)) & acted
    reward_mask[:, 0, 0] = False
    verdict_mask = np.ones((3, 4), bool)
    verdict_mask[:, 2] = False
    clean = make_events(
        4,
        acted=acted,
        reward_mask=reward_mask,
        verdict_mask=verdict_mask,
        forecast_mask=acted,
    )
    dirty = dataclasses.replace(
        clean,
        reward=jnp.where(clean.reward_mask, clean.reward, poison),
        verdict=jnp.where(clean.verdict_mask, clean.verdict, poison),
        forecast=jnp.where(clean.forecast_mask, clean.forecast, poison),
    )
    first, _, state = serve(rule, clean, IN_ORDER, learn=True)
    second, credits, poisoned = serve(rule, dirty, IN_ORDER, learn=True)
    np.testing.assert_array_equal(first, second)
    jax.tree.map(np.testing.assert_array_equal, state, poisoned)
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(credits))


@pytest.mark.parametrize("rule", (RULES | OWN).values(), ids=RULES | OWN)
@pytest.mark.parametrize("value", [np.nan, -np.inf, 3e38])
def test_a_reward_that_is_not_finite_is_as_absent_and_counted(
    rule, value, make_events, serve
):
    """One infinite reward made [-inf, nan, -inf] of its group, and NaN of the moments;
    a finite one whose square is not does the same.
    """
    reward_mask = np.broadcast_to(STAGES != 2, (3, 4, 4)).copy()
    reward_mask[:, 0, 0] = False
    verdict_mask = np.ones((3, 4), bool)
    verdict_mask[:, 2] = False
    forecast_mask = np.ones((3, 4, 4), bool)
    forecast_mask[:, 0, 0] = False
    absent = make_events(
        4,
        reward_mask=reward_mask,
        verdict_mask=verdict_mask,
        forecast_mask=forecast_mask,
    )
    present = dataclasses.replace(
        absent,
        forecast=absent.forecast.at[:, 0, 0].set(value),
        forecast_mask=absent.forecast_mask.at[:, 0, 0].set(True),
        reward=absent.reward.at[:, 0, 0].set(value),
        reward_mask=absent.reward_mask.at[:, 0, 0].set(True),
        verdict=absent.verdict.at[:, 2].set(value),
        verdict_mask=absent.verdict_mask.at[:, 2].set(True),
    )
    first, _, state = serve(rule, absent, IN_ORDER, learn=True)
    second, _, same = serve(rule, present, IN_ORDER, learn=True)
    np.testing.assert_array_equal(first, second)
    jax.tree.map(np.testing.assert_array_equal, same, state)
    assert jax.jit(rule.update)(state, absent)[1]["rewards_left_out"] == 0
    assert jax.jit(rule.update)(state, present)[1]["rewards_left_out"] == 3 + 3


@pytest.mark.parametrize("name", RULES)
def test_equal_rewards_are_exactly_zero_and_reported(name, make_events, serve):
    """trl#3857, #3452: float32 noise in a group of equal rewards became credit."""
    value = np.float32(0.7)
    events = make_events(
        reward=np.full((3, 4, 4), value),
        verdict=np.full((3, 4), value),
        forecast=np.full((3, 4, 4), value),
    )
    total, credits, _ = serve(RULES[name], events, IN_ORDER)
    np.testing.assert_array_equal(total, 0.0)
    for served in credits:
        paid = np.any(served.mask, axis=2)
        np.testing.assert_array_equal(np.asarray(served.zero_variance) & paid, paid)


@pytest.mark.parametrize("name", RULES)
def test_nothing_is_paid_when_nothing_is_ready(name, make_events, serve):
    total, credits, _ = serve(RULES[name], make_events(), [[]])
    np.testing.assert_array_equal(total, 0.0)
    assert not np.any(credits[0].mask) and not np.any(credits[0].zero_variance)


@pytest.mark.parametrize("name", RULES)
def test_a_stage_that_is_too_old_gets_nothing(name, make_events, serve):
    fresh = np.broadcast_to(STAGES != 3, (3, 4))
    total, credits, _ = serve(RULES[name], make_events(fresh=fresh), IN_ORDER)
    np.testing.assert_array_equal(total[..., 3], 0.0)
    assert not any(np.any(c.mask[..., 3]) for c in credits)
    assert np.any(total[..., 0])


def test_each_rule_says_which_events_it_serves():
    served = {name: list(np.flatnonzero(r.event_mask)) for name, r in RULES.items()}
    assert served == {
        "outcome": [VERDICT],
        "immediate": [*REWARDED, VERDICT],  # sigma_N needs the verdict
        "agentic": [*REWARDED, VERDICT],
        "calibrated": [*REWARDED, VERDICT],
        "returns": [VERDICT],
        "turn_mix": [*REWARDED, VERDICT],
        "state_groups": [VERDICT],
        "critic": [*STAGES, VERDICT],  # a stage without a reward is forecast too
        "value_baseline": [VERDICT],
    }
    alone = credit.immediate(KINDS, comparison=credit.Comparison(divisor="own"))
    assert list(np.flatnonzero(alone.event_mask)) == REWARDED


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: credit.agentic(KINDS, comparison=credit.Comparison(divisor="std")),
            "divisor='std'",
        ),
        (
            lambda: credit.outcome(
                KINDS, comparison=credit.Comparison(baseline="median")
            ),
            "baseline='median'",
        ),
        (
            lambda: credit.immediate(KINDS, fill=credit.Fill(estimates="none")),
            "fill='none'",
        ),
        (lambda: credit.agentic(KINDS, fill=credit.Fill(skills="x")), "skill_fill='x'"),
        (lambda: credit.returns(KINDS, fill="carry_forward"), "fill='carry_forward'"),
        (
            lambda: credit.state_groups(
                KINDS, comparison=credit.Comparison(divisor="stage")
            ),
            "divisor='stage'",
        ),
        (lambda: credit.outcome(KINDS, clip=credit.Clip(1.5, 0.2)), "low <= 1"),
        (lambda: credit.outcome(KINDS, clip=credit.Clip(0.2, -0.1)), "0 <= high"),
        (lambda: credit.outcome(KINDS, decay=1.0), "decay=1.0"),
        (lambda: credit.calibrated(KINDS, fixed_beta=1.5), "fixed_beta=1.5"),
        (lambda: credit.calibrated(KINDS, num_levels=0), "num_levels=0"),
        (lambda: credit.calibrated(KINDS, signal="verdict"), "signal='verdict'"),
        (
            lambda: credit.value_baseline(
                KINDS, comparison=credit.Comparison(divisor="stage")
            ),
            "divisor='stage'",
        ),
        (
            lambda: credit.calibrated(KINDS, prior=credit.Prior(2.0, 1.0)),
            "prior.beta=2.0",
        ),
        (
            lambda: credit.calibrated(
                KINDS, comparison=credit.Comparison(divisor="own")
            ),
            "divisor='own' must be one of running",
        ),
        (
            lambda: credit.returns(KINDS, comparison=credit.Comparison(use_ranks=True)),
            "use_ranks=True must be False",
        ),
        (
            lambda: credit.turn_mix(
                KINDS, clips=credit.Clips(correction=credit.Clip(2.0, 0.1))
            ),
            "correction_clip=",
        ),
        (lambda: credit.outcome(()), "one kind per stage"),
        (lambda: credit.outcome(["estimates"]), "did you mean 'estimate'"),
        (lambda: credit.outcome(np.array([True, False])), "one of estimate, skill"),
    ],
)
def test_a_bad_option_is_refused_by_name(build, message):
    with pytest.raises(ValueError, match=message):
        build()
