"""Objectives: values, gradients, borders of the gradient."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import references
from jax.test_util import check_grads

from agentic_grpo import ops

B, T = 4, 6
RNG = np.random.default_rng(0)
LOGS = RNG.normal(-1.5, 0.5, size=(B, T)).astype(np.float32)
ANCHOR = LOGS + RNG.normal(0.0, 0.4, size=(B, T)).astype(np.float32)
ADVANTAGE = RNG.normal(size=(B, T)).astype(np.float32)
MASK = RNG.random((B, T)) < 0.7
MASK[2] = False
LOW = RNG.uniform(0.05, 0.3, size=(B, T)).astype(np.float32)
HIGH = RNG.uniform(0.05, 0.3, size=(B, T)).astype(np.float32)
CREDIT = ops.token_credit(ADVANTAGE, MASK, clip_low=LOW, clip_high=HIGH)
SEGMENTS = np.array([0, 1, 1, 2, 2, 2])

OBJECTIVES = {
    "clip": ops.ppo_clip_loss,
    "dual_clip": functools.partial(ops.dual_clip_loss, max_ratio=1.3),
    "gspo": ops.gspo_loss,
    "gspo per stage": functools.partial(ops.gspo_loss, segment_of_column=SEGMENTS),
    "cispo": ops.cispo_loss,
    "reinforce": ops.reinforce_loss,
}


def per_token(objective, ratio_of):
    """(losses, gradients) [B, T] of each real token by hand."""
    loss, slope = np.zeros((B, T)), np.zeros((B, T))
    for b, t in itertools.product(range(B), range(T)):
        if MASK[b, t]:
            loss[b, t], slope[b, t] = objective(
                float(ADVANTAGE[b, t]),
                ratio_of(b, t),
                float(LOGS[b, t]),
                1 - float(LOW[b, t]),
                1 + float(HIGH[b, t]),
            )
    return loss, slope


def clip_by_hand(advantage, ratio, log_prob, low, high):
    inside = min(max(ratio, low), high)
    if ratio * advantage <= inside * advantage:
        return -ratio * advantage, -ratio * advantage
    return -inside * advantage, 0.0


def dual_by_hand(advantage, ratio, log_prob, low, high):
    if advantage < 0 and ratio > 1.3:
        return -1.3 * advantage, 0.0
    return clip_by_hand(advantage, ratio, log_prob, low, high)


def cispo_by_hand(advantage, ratio, log_prob, low, high):
    weight = min(max(ratio, low), high)
    return -weight * advantage * log_prob, -weight * advantage


def reinforce_by_hand(advantage, ratio, log_prob, low, high):
    return -ratio * advantage * log_prob, -ratio * advantage


def token_ratio(b, t):
    return float(np.exp(np.float64(LOGS[b, t]) - ANCHOR[b, t]))


def sequence_ratio(segments, b, t):
    return references.segment_ratio(
        LOGS[b], ANCHOR[b], MASK[b], segments, t, normalised=True
    )


BY_HAND = {
    "clip": (clip_by_hand, token_ratio),
    "dual_clip": (dual_by_hand, token_ratio),
    "gspo": (clip_by_hand, functools.partial(sequence_ratio, np.zeros(T))),
    "gspo per stage": (clip_by_hand, functools.partial(sequence_ratio, SEGMENTS)),
    "cispo": (cispo_by_hand, token_ratio),
    "reinforce": (reinforce_by_hand, token_ratio),
}


def value_and_slope(objective, logs, anchor, credit):
    def total(logs, anchor):
        losses = objective(logs, anchor, credit)
        return losses.sum(), losses

    return jax.value_and_grad(total, argnums=(0, 1), has_aux=True)(logs, anchor)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_losses_and_gradients_match_a_loop_by_hand(name):
    """Also proves every stop_gradient: no other slope than the written one."""
    (_, losses), (slope, of_anchor) = value_and_slope(
        OBJECTIVES[name], LOGS, ANCHOR, CREDIT
    )
    loss, expected = per_token(*BY_HAND[name])
    np.testing.assert_allclose(losses, loss, atol=1e-5)
    np.testing.assert_allclose(slope, expected, atol=1e-5)
    np.testing.assert_array_equal(of_anchor, 0.0)


def test_ppo_matches_the_reference_formula():
    for b, t in zip(*np.nonzero(MASK), strict=True):
        expected = references.clipped_loss(
            *(LOGS[b, t], ANCHOR[b, t], ADVANTAGE[b, t], LOW[b, t], HIGH[b, t])
        )
        assert per_token(*BY_HAND["clip"])[0][b, t] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["clip", "gspo", "dual_clip"])
def test_gradients_agree_with_finite_differences(name):
    """Away from the corners: GSPO's value is smooth in the mean log-ratio only."""
    wide = ops.token_credit(ADVANTAGE, MASK, clip_low=0.9, clip_high=9.0)
    objective = {**OBJECTIVES, "dual_clip": ops.dual_clip_loss}[name]
    if name == "gspo":  # value s_i on n tokens; the gradient of their sum is the same
        shared = ops.token_credit(ADVANTAGE[:, :1], MASK, clip_low=0.9, clip_high=9.0)
        wide = ops.token_credit(
            np.broadcast_to(shared.advantage[:, :1], (B, T)),
            MASK,
            clip_low=0.9,
            clip_high=9.0,
        )
    check_grads(
        lambda logs: objective(logs, ANCHOR, wide).sum(),
        (LOGS,),
        order=1,
        modes=["rev"],
        atol=2e-2,
        rtol=2e-2,
        eps=1e-2,
    )


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_padding_reaches_neither_values_nor_gradients(name, poison):
    """Tunix and TRL: a NaN log-prob in a padded slot makes the loss NaN."""
    dirty = ops.token_credit(
        np.where(MASK, ADVANTAGE, poison), MASK, clip_low=LOW, clip_high=HIGH
    )
    clean = value_and_slope(OBJECTIVES[name], LOGS, ANCHOR, CREDIT)
    padded = value_and_slope(
        OBJECTIVES[name],
        np.where(MASK, LOGS, poison),
        np.where(MASK, ANCHOR, poison),
        dirty,
    )
    jax.tree.map(np.testing.assert_array_equal, clean, padded)


@pytest.mark.parametrize("extreme", [-1e4, -88.0, 88.0, 1e4])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_extreme_ratios_stay_finite(name, extreme):
    anchor = np.where(np.arange(T) == 1, LOGS - extreme, ANCHOR)
    result = value_and_slope(OBJECTIVES[name], LOGS, anchor.astype(np.float32), CREDIT)
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(result))


def test_both_phases_share_one_forward_pass_and_keep_their_own_clips():
    """Ratio 1.15, A = 1: within the immediate 0.2, beyond the correction's 0.1."""
    anchor = LOGS - np.float32(np.log(1.15))
    credit = jax.tree.map(
        lambda *phases: jnp.stack(phases),
        *(
            ops.token_credit(np.ones((B, T)), MASK, clip_low=clip, clip_high=clip)
            for clip in (0.2, 0.1)
        ),
    )
    losses = functools.partial(ops.two_phase_losses, objective=ops.ppo_clip_loss)
    np.testing.assert_allclose(losses(LOGS, anchor, credit)[0], -1.15 * MASK, rtol=1e-5)
    np.testing.assert_allclose(losses(LOGS, anchor, credit)[1], -1.1 * MASK, rtol=1e-5)
    slopes = jax.jacobian(lambda logs: losses(logs, anchor, credit).sum((1, 2)))(LOGS)
    np.testing.assert_allclose(slopes[0], -1.15 * MASK, rtol=1e-5)
    np.testing.assert_array_equal(slopes[1], 0.0)
    halves = losses(LOGS, anchor, credit, weights=np.full((B, T), 0.5))
    np.testing.assert_allclose(halves, losses(LOGS, anchor, credit) / 2, rtol=1e-6)


def test_no_gradient_flows_through_the_weights():
    def total(logs):
        weights = jnp.exp(logs)
        credit = jax.tree.map(lambda x: jnp.stack([x, x]), CREDIT)
        losses = ops.two_phase_losses(
            logs, ANCHOR, credit, objective=ops.reinforce_loss, weights=weights
        )
        return losses.sum() / 2

    _, slope = per_token(*BY_HAND["reinforce"])
    np.testing.assert_allclose(jax.grad(total)(LOGS), slope * np.exp(LOGS), atol=1e-5)


def test_the_clip_refuses_moves_outward_and_admits_moves_back():
    """Over-praise can be undone at full size, double praise is refused."""
    ratios = jnp.array([1.3, 1.3, 0.7, 0.7])
    credit = ops.token_credit(
        jnp.array([1.0, -1.0, 1.0, -1.0]),
        np.ones(4, bool),
        clip_low=0.1,
        clip_high=0.1,
    )
    np.testing.assert_array_equal(ops.is_clipped(ratios, credit), [1, 0, 0, 1])
    slope = jax.grad(lambda x: ops.ppo_clip_loss(x, jnp.zeros(4), credit).sum())(
        jnp.log(ratios)
    )
    np.testing.assert_allclose(slope, [0.0, 1.3, -0.7, 0.0], rtol=1e-5)


def test_at_the_sampling_policy_the_loss_is_zero_but_not_its_gradient():
    """minimind#775: "loss is 0, is it broken?" No: A sums to 0 and the ratio is 1."""
    advantage = np.repeat(np.array([[1.0], [-1.0], [2.0], [-2.0]]), T, axis=1)
    credit = ops.token_credit(
        advantage, np.ones((B, T), bool), clip_low=0.2, clip_high=0.2
    )
    (total, _), (slope, _) = value_and_slope(ops.ppo_clip_loss, LOGS, LOGS, credit)
    assert abs(float(total)) < 1e-6
    np.testing.assert_allclose(slope, -advantage, rtol=1e-6)


def test_a_bad_option_is_refused_by_name():
    with pytest.raises(ValueError, match=r"max_ratio=1\.0"):
        ops.dual_clip_loss(LOGS, ANCHOR, CREDIT, max_ratio=1.0)
