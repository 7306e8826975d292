"""Packed rows score what unpacked rows do, values and gradients."""

import functools

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from packed_episodes import ROWS, WIDTH, draw_episodes, layout_of, policy_of

from agentic_grpo.models import packing


@functools.partial(jax.jit, static_argnums=0)
def all_parts(policy, params, tokens, mask, plan):
    """Sums over parts of (log_probs, entropy), and how often each episode was there."""

    def add(carry, part):
        scores = policy.packed.score(params, tokens, plan, part, temperature=1.0)
        here = policy.packed.is_here(plan, part).astype(jnp.float32)
        return jax.tree.map(jnp.add, carry, (*scores, here)), None

    nothing = jnp.zeros(tokens.shape)
    carry = nothing, nothing, jnp.zeros(len(tokens))
    return jax.lax.scan(add, carry, jnp.arange(len(tokens)))[0]


@pytest.mark.parametrize("blind", [False, True])
def test_packed_equals_unpacked_values_and_gradients(blind):
    # An episode that sees its neighbour, or whose positions go on from it, differs.
    policy, layout = policy_of(blind), layout_of(blind=blind)
    tokens, mask, action = draw_episodes(layout, np.random.default_rng(0))
    params = policy.init(jax.random.key(0))
    plan = policy.packed.plan(jnp.asarray(mask))
    weights = np.random.default_rng(1).normal(size=(2, *tokens.shape)) * action

    @jax.jit
    def unpacked(params):
        scores = policy.score(params, tokens, mask, temperature=1.0)
        return jnp.sum(weights[0] * scores[0] + weights[1] * scores[1]), scores

    @jax.jit
    def packed(params):
        *scores, _ = all_parts(policy, params, tokens, mask, plan)
        return jnp.sum(weights[0] * scores[0] + weights[1] * scores[1]), scores

    gradient = functools.partial(jax.value_and_grad, has_aux=True)
    (_, expected), expected_gradient = gradient(unpacked)(params)
    (_, got), got_gradient = gradient(packed)(params)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one * action, other * action, rtol=1e-6, atol=1e-6)
    # In norm: single entries are float32 sums in another order.
    got, _ = jax.flatten_util.ravel_pytree(got_gradient)
    expected, _ = jax.flatten_util.ravel_pytree(expected_gradient)
    assert np.linalg.norm(got - expected) <= 1e-6 * np.linalg.norm(expected)


def test_every_episode_is_in_one_part_and_the_last_part_is_used():
    policy = policy_of(False)
    tokens, mask, _ = draw_episodes(layout_of(blind=False), np.random.default_rng(2))
    plan = policy.packed.plan(jnp.asarray(mask))
    *_, here = all_parts(policy, policy.init(jax.random.key(0)), tokens, mask, plan)
    np.testing.assert_array_equal(here, mask.any(axis=1))
    parts = np.asarray(plan.start)[mask.any(axis=1)] // (ROWS * WIDTH)
    assert parts.max() + 1 == plan.num_parts


def test_an_episode_that_does_not_fit_begins_the_next_row():
    # Lengths 3, 4, 2, 5 into rows of 8: 3 + 4 fit; 2 does not, it would be split.
    wanted = jnp.arange(8)[None] < jnp.array([3, 4, 2, 5])[:, None]
    plan = packing.plan(wanted, packing.Packing(rows=1, width=8))
    np.testing.assert_array_equal(plan.start, [0, 3, 8, 10])
    assert plan.num_parts == 2


def test_nothing_wanted_is_no_part():
    plan = packing.plan(jnp.zeros((3, 8), bool), packing.Packing(rows=1, width=8))
    assert plan.num_parts == 0


@pytest.mark.parametrize("field", ["rows", "width"])
def test_sizes_below_one_are_refused(field):
    with pytest.raises(ValueError, match=f"{field}=0"):
        packing.Packing(**{"rows": 1, "width": 1, field: 0})


def test_a_row_narrower_than_an_episode_is_refused():
    with pytest.raises(ValueError, match="width=7 must be at least the 8 columns"):
        packing.plan(jnp.zeros((1, 8), bool), packing.Packing(rows=1, width=7))
