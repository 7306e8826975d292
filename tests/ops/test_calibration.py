"""The running moments: what settled groups teach, and when."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import references

from agentic_grpo.ops import calibration, credit

KINDS = ("estimate", "skill", "none", "estimate")
VERDICT = 4
PRIOR = credit.Prior(beta=0.5, groups=4.0)
RULE = credit.calibrated(KINDS, prior=PRIOR, decay=0.999)
UPDATE = jax.jit(RULE.update)


def taught(events, *, rule=RULE, calls=1):
    """(state, diagnostics) after the verdicts of these groups, ``calls`` times."""
    state, update = rule.init(), jax.jit(rule.update)
    for _ in range(calls):
        state, diagnostics = update(state, events)
    return state, diagnostics


def test_sigma_starts_at_a_half_and_has_a_floor(make_events):
    state = RULE.init()
    assert float(calibration.verdict_spread(state)) == pytest.approx(0.5)
    rule = credit.calibrated(KINDS, decay=0.5)
    silent = make_events(verdict=np.full((3, 4), 0.4))
    state, diagnostics = taught(silent, rule=rule, calls=12)
    assert float(state.verdict_variance) < 1e-6
    assert float(diagnostics["sigma"]) == pytest.approx(0.1)


def test_sigma_is_a_moving_average_of_the_variance_within_groups(make_events):
    """Population variance, per group: groups of different difficulty add nothing."""
    verdict = np.array([[0, 1, 0, 1], [0.5, 0.5, 0.5, 0.5], [0.9, 1, 0.9, 1]])
    rule = credit.calibrated(KINDS, decay=0.9)
    state, diagnostics = taught(make_events(verdict=verdict), rule=rule)
    kept = 0.9**3
    expected = kept * 0.25 + (1 - kept) * (0.25 + 0.0 + 0.0025) / 3
    assert float(state.verdict_variance) == pytest.approx(expected, rel=1e-5)
    assert float(diagnostics["settled_groups"]) == 3


def test_beta_is_the_slope_shrunk_to_the_prior(make_events):
    """beta = (C + kappa v0 beta0) / (V + kappa v0), with kappa v0 = 4 * 0.05."""
    events = make_events(1)
    state, diagnostics = taught(events)
    for s in (0, 1, 3):
        rewards = np.asarray(events.reward[..., s], np.float64)
        centred = rewards - rewards.mean(1, keepdims=True)
        square = (centred**2).mean(1).sum()
        product = (centred * np.asarray(events.verdict)).mean(1).sum()
        expected = np.clip((product + 0.2 * 0.5) / (square + 0.2), 0, 1)
        assert float(diagnostics["beta"][s, 0]) == pytest.approx(expected, abs=1e-5)
    assert float(diagnostics["beta"][2, 0]) == 0.5  # no reward: nothing but the prior
    np.testing.assert_array_equal(state.groups[:, 0], [3, 3, 0, 3])


@pytest.mark.parametrize(("honesty", "limit"), [(1.0, 1.0), (-1.0, 0.0)])
def test_beta_goes_to_its_limits(honesty, limit, make_events):
    """Truthful rewards: 1, like agentic. Deceptive ones: 0, like outcome, not below."""
    verdict = np.random.default_rng(2).uniform(size=(3, 4))
    reward = np.repeat((honesty * verdict)[..., None], 4, axis=2)
    events = make_events(reward=reward, verdict=verdict)
    _, early = taught(events)
    _, late = taught(events, calls=60)
    if limit == 1.0:  # three groups against four pseudo-groups: not there yet
        assert np.all(np.asarray(early["beta"])[[0, 1, 3], 0] < 0.9)
    np.testing.assert_allclose(np.asarray(late["beta"])[[0, 1, 3], 0], limit, atol=0.03)


def test_a_known_slope_is_recovered_from_samples(make_events):
    """verdict = 0.4 reward + noise, with absent members and a shift per group."""
    rng = np.random.default_rng(3)
    groups = 1500
    reward = rng.uniform(size=(groups, 4, 4))
    verdict = 0.4 * reward[..., 0] + 0.1 * rng.normal(size=(groups, 4))
    verdict += rng.normal(size=(groups, 1))
    mask = rng.random((groups, 4)) < 0.8
    one = make_events()
    many = jax.tree.map(lambda x: jnp.broadcast_to(x[:1], (groups, *x.shape[1:])), one)
    many = dataclasses.replace(
        many,
        reward=jnp.asarray(reward, jnp.float32),
        verdict=jnp.asarray(verdict, jnp.float32),
        verdict_mask=jnp.asarray(mask),
    )
    _, diagnostics = taught(many)
    beta = float(diagnostics["beta"][0, 0])
    assert beta == pytest.approx(0.4, abs=0.02)
    assert beta == pytest.approx(
        references.slope(reward[..., 0], verdict, mask), abs=2e-3
    )
    assert float(diagnostics["beta"][3, 0]) == pytest.approx(0.0, abs=0.03)


def test_a_group_is_not_used_before_it_has_settled(make_events):
    """A verdict served now must not steer the credit that is applied now."""
    events = make_events(4)
    state = taught(make_events(5))[0]
    other = dataclasses.replace(events, verdict=1.0 - events.verdict)
    apply = jax.jit(RULE.apply)
    np.testing.assert_array_equal(
        apply(state, events).advantage[0], apply(state, other).advantage[0]
    )
    waiting = dataclasses.replace(events, ready=events.ready.at[:, VERDICT].set(False))
    after, diagnostics = UPDATE(state, waiting)
    jax.tree.map(np.testing.assert_array_equal, after, state)
    assert float(diagnostics["settled_groups"]) == 0


def test_immediate_credit_is_the_worth_of_the_stage_reward(make_events):
    state, diagnostics = taught(make_events(5))
    events = make_events(6)
    served = jax.jit(RULE.apply)(state, events)
    sigma = float(diagnostics["sigma"])
    for s in (0, 1, 3):
        beta = float(diagnostics["beta"][s, 0])
        for u in range(3):
            full, _ = references.compare(
                events.reward[u, :, s], [True] * 4, divisor=sigma
            )
            np.testing.assert_allclose(
                served.advantage[0, u, :, s], beta * full, atol=1e-6
            )


def test_levels_learn_apart(make_events):
    """An easy level's honest reward must not vouch for a hard level's."""
    rule = credit.calibrated(KINDS, prior=PRIOR, num_levels=3, decay=0.999)
    verdict = np.random.default_rng(7).uniform(size=(3, 4))
    honest = np.array([1.0, -1.0, 0.0])[:, None] * verdict
    events = make_events(reward=np.repeat(honest[..., None], 4, 2), verdict=verdict)
    state, diagnostics = taught(events, rule=rule, calls=60)
    expected = [1.0, 0.0, 0.5]  # level 2 has no spread: the prior stays
    np.testing.assert_allclose(diagnostics["beta"][0], expected, atol=0.03)
    served = jax.jit(rule.apply)(state, events)
    assert np.abs(served.advantage[0, 0, :, 0]).max() > 0.1
    np.testing.assert_allclose(served.advantage[0, 1, :, 0], 0.0, atol=0.03)


def test_old_groups_are_forgotten(make_events):
    """After the truth has turned, beta follows; without forgetting it cannot."""
    verdict = np.random.default_rng(8).uniform(size=(3, 4))

    def told(sign):
        reward = np.repeat((sign * verdict)[..., None], 4, axis=2)
        return make_events(reward=reward, verdict=verdict)

    for decay, low, high in ((0.9, 0.9, 1.0), (0.9999, 0.3, 0.6)):
        rule = credit.calibrated(KINDS, prior=credit.Prior(0.0, 0.1), decay=decay)
        state, update = rule.init(), jax.jit(rule.update)
        for sign in [-1.0] * 5 + [1.0] * 15:
            state, diagnostics = update(state, told(sign))
        assert low <= float(diagnostics["beta"][0, 0]) <= high


def test_the_lag_of_beta_is_what_this_call_adds(make_events):
    """Just settled groups have slope 1, beta in use was 0.5: it lags by 0.5."""
    verdict = np.random.default_rng(9).uniform(size=(3, 4))
    events = make_events(reward=np.repeat(verdict[..., None], 4, 2), verdict=verdict)
    _, diagnostics = taught(events)
    np.testing.assert_allclose(
        diagnostics["beta_lag"][:, 0], [0.5, 0.5, 0.0, 0.5], atol=1e-5
    )


def test_a_reward_that_is_not_in_yet_teaches_nothing(make_events):
    """Stage 3 is slower than the verdict. Its reward is there already, but not *in*:
    learnt from today, beta would know the future.
    """
    early = np.ones((3, 4, 4), bool) & (np.arange(4) != 2) & (np.arange(4) != 3)
    events = make_events(1, reward_mask=early)
    state, diagnostics = taught(events)
    np.testing.assert_array_equal(state.groups[:, 0], [3, 3, 0, 0])
    assert float(diagnostics["beta"][3, 0]) == PRIOR.beta
    future = dataclasses.replace(events, reward=events.reward.at[..., 3].set(0.5))
    other, _ = taught(future)
    jax.tree.map(np.testing.assert_array_equal, other, state)
