"""Baselines where the policy decides when to stop, by exact enumeration.

Each of G members goes on to stage 1 with probability 0.4. The estimate of the gradient
with respect to that probability is the mean over members of advantage times score, the
score being 1 / p for going on and -1 / (1 - p) for stopping; its expectation is a sum
over the 2^G outcomes, here grouped by how many go on.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo import ops
from agentic_grpo.ops import credit

GO_ON = 0.4
GROUP_SIZES = (2, 4, 8)


@functools.cache
def advantages_at_stage_1(fill, baseline):
    """Compiled once for groups of up to 8: a member that never acted does not exist."""

    def of_group(reward, acted):
        values, population = ops.fill_stopped(
            reward, acted, acted, fill=fill, rewarded=np.array([True, True])
        )
        return ops.group_advantages(
            values[:, 1], population[:, 1], baseline=baseline, divisor="none"
        )[0]

    return jax.jit(jax.vmap(of_group))


def expected_gradient(members, rewards, *, fill, baseline):
    """E[gradient estimate] if stage 0 pays rewards[0] and stage 1 pays rewards[1]."""
    counts = np.arange(9)
    exists = np.broadcast_to(np.arange(8) < members, (9, 8))
    goes_on = exists & (np.arange(8) < counts[:, None])
    acted = jnp.asarray(np.stack([exists, goes_on], axis=-1))
    reward = jnp.broadcast_to(jnp.asarray(rewards, jnp.float32), acted.shape)
    advantages = advantages_at_stage_1(fill, baseline)(reward, acted)
    scores = np.where(goes_on, 1 / GO_ON, -1 / (1 - GO_ON))
    estimates = (np.asarray(advantages, np.float64) * scores).sum(axis=1) / members
    probabilities = [
        math.comb(members, k) * GO_ON**k * (1 - GO_ON) ** max(members - k, 0)
        for k in counts
    ]
    return float(probabilities @ estimates)


@pytest.mark.parametrize("members", GROUP_SIZES)
@pytest.mark.parametrize(
    ("fill", "baseline", "expected"),
    [
        ("zero", "leave_one_out", lambda g: 1.0),
        ("zero", "mean", lambda g: 1.0 - 1.0 / g),
        ("reached", "mean", lambda g: 0.0),  # wrong: the gradient vanishes
        ("reached", "leave_one_out", lambda g: 0.0),  # wrong
        ("carry_forward", "mean", lambda g: 0.0),  # wrong for additive rewards
    ],
)
def test_additive_rewards_need_a_zero_fill(members, fill, baseline, expected):
    """verl#7244: reward 1 every turn; the true gradient is 1.0."""
    gradient = expected_gradient(members, [1.0, 1.0], fill=fill, baseline=baseline)
    assert gradient == pytest.approx(expected(members), abs=1e-6)


@pytest.mark.parametrize("members", GROUP_SIZES)
def test_levels_need_to_be_carried_forward(members):
    """Submitting 0.9 and revising into 0.9 are worth the same: exactly 0.

    Zero-filled, the policy is paid for never submitting.
    """
    right = expected_gradient(members, [0.9] * 2, fill="carry_forward", baseline="mean")
    assert right == 0.0
    wrong = expected_gradient(members, [0.9] * 2, fill="zero", baseline="mean")
    assert wrong == pytest.approx(0.9 * (1 - 1 / members), abs=1e-6)


@pytest.mark.parametrize("members", GROUP_SIZES)
def test_a_revision_that_helps_is_paid_by_what_it_adds(members):
    """From 0.5 to 0.9: the true gradient of going on is 0.4."""
    gradient = expected_gradient(
        members, [0.5, 0.9], fill="carry_forward", baseline="leave_one_out"
    )
    assert gradient == pytest.approx(0.4, abs=1e-6)


@pytest.mark.parametrize(
    ("fill", "paid"), [("carry_forward", 0.0), ("zero", 0.9), ("reached", 0.0)]
)
def test_rules_fill_by_the_kind_of_the_reward(fill, paid, make_events, serve):
    """Members 0 and 1 submit 0.9 in stage 0; the others still hold 0.9 in stage 3."""
    acted = np.ones((3, 4, 4), bool)
    acted[:, :2, 1:] = False
    events = make_events(acted=acted, reward=np.full((3, 4, 4), 0.9))
    kinds = ("estimate", "none", "none", "estimate")
    rule = credit.agentic(
        kinds,
        comparison=credit.Comparison(divisor="none"),
        fill=credit.Fill(estimates=fill),
    )
    total, _, _ = serve(rule, events, [[0], [3]])
    np.testing.assert_allclose(total[0, :, 2:, 3], paid / 2, atol=1e-6)
    np.testing.assert_array_equal(total[0, :, :2, 3], 0.0)  # they wrote nothing there


@pytest.mark.parametrize("fill", ["carry_forward", "zero"])
def test_a_member_that_the_environment_failed_counts_as_nothing_afterwards(
    fill, make_events, serve
):
    """Member 0 holds 1.0 and is lost in stage 2, which has no reward of its own; the
    others have 0 and 0.5 in stage 3. Filled in, its level would make [0, -0.5, 0].
    """
    acted = np.ones((3, 4, 4), bool)
    acted[:, 0, 3] = False
    acted[:, 3] = False  # a group of three
    reward = np.zeros((3, 4, 4))
    reward[:, 0], reward[:, 2] = 1.0, 0.5
    lost = np.zeros((3, 4), bool)
    lost[:, 0] = True
    events = make_events(acted=acted, reward=reward, lost=lost)
    kinds = ("estimate", "none", "none", "estimate")
    rule = credit.agentic(
        kinds,
        comparison=credit.Comparison(divisor="none"),
        fill=credit.Fill(estimates=fill),
    )
    total, _, _ = serve(rule, events, [[0], [3]])
    np.testing.assert_allclose(total[0, :, :, 0], [[0.5, -0.5, 0.0, 0.0]] * 3)
    np.testing.assert_allclose(total[0, :, :, 3], [[0.0, -0.25, 0.25, 0.0]] * 3)
