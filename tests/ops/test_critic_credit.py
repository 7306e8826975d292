"""Credit from a critic: paid by its forecast, corrected by the verdict, all of it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.ops import calibration, credit

KINDS = ("estimate", "skill", "none", "estimate")
VERDICT, SIGMA = 4, 0.5
CLIP = credit.Clip(0.2, 0.2)
ALL_ESTIMATES = ["estimate"] * 4


def trusting(beta):
    return credit.calibrated(
        KINDS, signal="forecast", prior=credit.Prior(beta=beta, groups=2.0)
    )


@pytest.mark.parametrize(
    "schedule",
    [
        [[0], [1], [2], [3], [VERDICT]],
        [[VERDICT], [0, 1, 2, 3]],
        [[0], [VERDICT], [1, 2, 3]],
        [[0, 1, 2, 3, VERDICT]],
        [[1], [VERDICT]],  # three forecasts never became credit
    ],
)
@pytest.mark.parametrize("beta", [0.0, 0.6, 1.0])
def test_whatever_the_critic_says_the_phases_add_up_to_the_outcome(
    schedule, beta, make_events, serve
):
    events = make_events(7)  # forecasts are noise
    total, _, _ = serve(trusting(beta), events, schedule)
    verdict = np.asarray(events.verdict)
    outcome = (verdict - verdict.mean(axis=1, keepdims=True)) / SIGMA
    applied = np.asarray(total).sum(0)
    np.testing.assert_allclose(
        applied, np.broadcast_to(outcome[:, :, None], applied.shape), atol=1e-5
    )


def test_a_critic_that_knows_nothing_yet_is_outcome_credit(make_events, serve):
    events = make_events(forecast_mask=np.zeros((3, 4, 4), bool))
    schedule = [[0], [1], [2], [3], [VERDICT]]
    first, _, state = serve(trusting(1.0), events, schedule, learn=True)
    second, _, _ = serve(credit.outcome(KINDS), events, [[VERDICT]])
    np.testing.assert_array_equal(first[0], 0.0)
    np.testing.assert_allclose(first.sum(0), second.sum(0), atol=1e-6)
    np.testing.assert_array_equal(state.groups, 0.0)  # and teaches beta nothing


def test_a_forecast_is_spent_as_a_stage_reward_of_that_value_would_be(
    make_events, serve
):
    """One rule, not two: the signal takes the reward's place at every stage."""
    events = make_events(1)
    as_reward = dataclasses.replace(
        events, reward=events.forecast, reward_mask=events.forecast_mask
    )
    schedule = [[0], [1], [2], [3], [VERDICT]]
    first = serve(trusting(0.5), events, schedule, learn=True)
    second = serve(
        credit.calibrated(ALL_ESTIMATES, prior=credit.Prior(beta=0.5, groups=2.0)),
        as_reward,
        schedule,
        learn=True,
    )
    for one, other in zip(*map(jax.tree.leaves, (first, second)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_beta_is_the_slope_on_todays_forecasts_not_on_those_that_were_spent(
    make_events, serve
):
    """Measured on what was applied long ago, beta says how bad the critic was then."""
    events = make_events(2)
    rule = trusting(0.0)
    # Spent: the forecast of a critic that has it the wrong way round.
    wrong = dataclasses.replace(
        events, forecast=jnp.broadcast_to(1.0 - events.verdict[..., None], (3, 4, 4))
    )
    _, credits, state = serve(rule, wrong, [[0], [1], [2], [3]], learn=True)
    settled = dataclasses.replace(
        events,
        forecast=jnp.broadcast_to(events.verdict[..., None], (3, 4, 4)),
        applied_advantage=credits[-1].applied_advantage,
        paid=credits[-1].paid,
    )
    _, _, state = serve(rule, settled, [[VERDICT]], state=state, learn=True)
    beta = calibration.stage_beta(state, credit.Prior(beta=0.0, groups=0.0))
    np.testing.assert_allclose(beta, 1.0, atol=1e-5)


def test_a_value_baseline_subtracts_what_was_forecast_before_the_stage(
    make_events, serve
):
    verdict = np.tile([1.0, 0.0, 0.0, 1.0], (3, 1))
    forecast = np.zeros((3, 4, 4))
    forecast[:, :, 0] = [0.5, 0.5, 0.1, 0.9]
    events = make_events(verdict=verdict, forecast=forecast)
    total, _, _ = serve(credit.value_baseline(KINDS), events, [[VERDICT]])
    np.testing.assert_array_equal(total[0], 0.0)  # nothing early
    # Stage 0: nothing was forecast before it: (1 - 1/2) / 0.5.
    np.testing.assert_allclose(total[1, 0, :, 0], [1.0, -1.0, -1.0, 1.0], atol=1e-6)
    # Stage 1: 1 - .5, 0 - .5, 0 - .1, 1 - .9 = .5, -.5, -.1, .1; mean 0; over 0.5.
    np.testing.assert_allclose(total[1, 0, :, 1], [1.0, -1.0, -0.2, 0.2], atol=1e-6)


def test_a_value_baseline_without_a_critic_is_outcome_credit(make_events, serve):
    events = make_events(forecast_mask=np.zeros((3, 4, 4), bool))
    first, _, _ = serve(credit.value_baseline(KINDS), events, [[VERDICT]])
    second, _, _ = serve(credit.outcome(KINDS), events, [[VERDICT]])
    np.testing.assert_allclose(first, second, atol=1e-6)


def test_trusted_fully_and_not_corrected_is_the_forecast_itself(make_events, serve):
    events = make_events(3)
    rule = credit.immediate(
        KINDS, comparison=credit.Comparison(divisor="none"), signal="forecast"
    )
    total, _, _ = serve(rule, events, [[0], [1], [2], [3], [VERDICT]])
    forecast = np.asarray(events.forecast)
    np.testing.assert_allclose(
        total[0], forecast - forecast.mean(axis=1, keepdims=True), atol=1e-6
    )
    np.testing.assert_array_equal(total[1], 0.0)
