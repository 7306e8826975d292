"""Returns, increments, and values on token columns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import references

from agentic_grpo import ops

RETURNS = jax.jit(ops.stage_returns)
INCREMENTS = jax.jit(ops.stage_increments)


def test_returns_are_discounted_backwards():
    """.9 * 1.4, .5 + .9 * 1, 1; a forward scan would give 0, .5, 1.45."""
    got = RETURNS(np.array([0.0, 0.5, 1.0], np.float32), np.ones(3, bool), 0.9)
    np.testing.assert_allclose(got, [1.26, 1.4, 1.0], rtol=1e-6)


def test_a_stage_without_a_reward_still_takes_time():
    rewards = np.array([np.nan, np.inf, 1.0], np.float32)
    got = RETURNS(rewards, np.array([False, False, True]), 0.5)
    np.testing.assert_allclose(got, [0.25, 0.5, 1.0])


def test_increments_bridge_what_was_not_observed():
    """0.5, nothing, 0.4, 0.9 rise by 0.5, 0, -0.1, 0.5 and telescope to the last."""
    levels = np.array([0.5, np.nan, 0.4, 0.9], np.float32)
    got = INCREMENTS(levels, np.array([True, False, True, True]))
    np.testing.assert_allclose(got, [0.5, 0.0, -0.1, 0.5], rtol=1e-5)
    assert float(got.sum()) == pytest.approx(0.9)


def test_both_match_a_slow_loop():
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = rng.normal(size=5).astype(np.float32)
        mask = rng.random(5) < 0.6
        np.testing.assert_allclose(
            RETURNS(values, mask, 0.7),
            references.reward_to_go(values, mask, 0.7),
            atol=1e-5,
        )
        np.testing.assert_allclose(
            INCREMENTS(values, mask), references.increments(values, mask), atol=1e-5
        )


def test_undiscounted_returns_of_increments_are_what_is_left_to_the_last_level():
    levels = np.array([0.2, 0.9, 0.4, 0.7], np.float32)
    mask = np.ones(4, bool)
    got = RETURNS(INCREMENTS(levels, mask), mask, 1.0)
    np.testing.assert_allclose(got, 0.7 - np.array([0.0, 0.2, 0.9, 0.4]), atol=1e-6)


def test_values_reach_their_own_columns_only():
    segments = np.array([0, 1, 1, 2, 3, 3, 3])
    values = jnp.array([[1.0, jnp.nan, 3.0]])
    got = ops.on_token_columns(values, segments)
    np.testing.assert_array_equal(got, [[0, 1, 1, np.nan, 3, 3, 3]])
    slope = jax.grad(lambda v: ops.on_token_columns(v, segments)[:, 4:].sum())(values)
    np.testing.assert_array_equal(slope, [[0.0, 0.0, 3.0]])
