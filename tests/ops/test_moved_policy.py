"""The delayed correction, by exact enumeration of a softmax that has moved.

The numbers are those of the field notes: a 6-way softmax, action 2, advantage 0.7, one
ascent step at learning rate 0.5 between sampling and correction.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo import ops
from agentic_grpo.ops import credit
from agentic_grpo.ops.aggregation import constant_divisor

ACTIONS, ACTION, ADVANTAGE, RATE = 6, 2, 0.7, 0.5
log_softmax = jax.nn.log_softmax


@pytest.fixture(scope="module")
def moved():
    """(logits at sampling, logits after one ascent step on the sampled action)."""
    logits = jnp.asarray(np.random.default_rng(0).normal(size=ACTIONS), jnp.float32)
    score = jax.grad(lambda x: log_softmax(x)[ACTION])(logits)
    return logits, logits + RATE * ADVANTAGE * score


def loss_of(objective, logits, snapshot, advantages):
    """Losses of all actions [A] under today's logits, recorded under the snapshot's."""
    mask = np.ones(ACTIONS, bool)
    record = ops.token_credit(advantages, mask, clip_low=1.0, clip_high=1e9)
    return objective(log_softmax(logits), log_softmax(snapshot), record)


def test_the_snapshot_and_the_weight_are_the_documented_ones(moved):
    before, after = (float(log_softmax(x)[ACTION]) for x in moved)
    assert before == pytest.approx(-1.311044, abs=1e-6)
    assert after == pytest.approx(-1.094092, abs=1e-6)
    ratio = ops.token_ratios(jnp.float32(after), jnp.float32(before), True)
    assert float(ratio) == pytest.approx(1.242284, abs=1e-5)


@pytest.mark.parametrize("objective", [ops.reinforce_loss, ops.ppo_clip_loss])
def test_the_weighted_delayed_gradient_is_exact_at_the_moved_policy(moved, objective):
    """E_snapshot[w A ∇log pi] = ∇ E_pi[A] at today's pi; without w it errs by 0.028."""
    snapshot, today = moved
    rng = np.random.default_rng(0)
    advantages = rng.normal(size=(2, ACTIONS))[1].astype(np.float32)

    def true_objective(logits):
        return jnp.sum(jnp.exp(log_softmax(logits)) * advantages)

    def surrogate(logits, objective):
        sampled = jnp.exp(log_softmax(snapshot))
        return -jnp.sum(sampled * loss_of(objective, logits, snapshot, advantages))

    def unweighted(log_probs, anchor, record):
        return ops.reinforce_loss(log_probs, log_probs, record)

    exact = jax.grad(true_objective)(today)
    weighted = jax.grad(surrogate)(today, objective)
    naive = jax.grad(surrogate)(today, unweighted)
    np.testing.assert_allclose(weighted, exact, atol=1e-6)
    assert float(jnp.abs(naive - exact).max()) == pytest.approx(0.028, abs=5e-4)


def test_unmoved_the_gradients_of_both_phases_add_up_to_outcome(make_events, serve):
    """Unclipped, at the sampling policy, with a constant divisor: one GRPO update."""
    kinds = ("estimate", "none", "none", "estimate")
    events = make_events(11)
    segments = np.array([0, 1, 1, 2, 3, 4, 4])
    actions = np.random.default_rng(2).random((3, 4, 7)) < 0.8
    logs = jnp.asarray(np.random.default_rng(3).normal(-1, 0.3, (3, 4, 7)), jnp.float32)

    def gradient(served, objective):
        tokens = credit.write_on_tokens(served, segments, jnp.asarray(actions))

        def loss(today):
            losses = ops.two_phase_losses(today, logs, tokens, objective=objective)
            phases = zip(losses, tokens.mask, strict=True)
            return sum(constant_divisor(7)(*phase).over() for phase in phases)

        return jax.grad(loss)(logs)

    gradient = jax.jit(gradient, static_argnums=1)
    for objective in (ops.ppo_clip_loss, ops.reinforce_loss):
        _, ours, _ = serve(credit.agentic(kinds), events, [[0], [3], [4]])
        _, theirs, _ = serve(credit.outcome(kinds), events, [[4]])
        np.testing.assert_allclose(
            sum(gradient(served, objective) for served in ours),
            gradient(theirs[0], objective),
            atol=1e-8,
        )
