"""KL estimators: exact expectations of values and gradients on a small softmax."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo import ops
from agentic_grpo.ops import kl_estimators

RNG = np.random.default_rng(0)
LOGITS, REFERENCE, BEHAVIOUR = RNG.normal(size=(3, 5)).astype(np.float32)
ALL = np.ones(5, bool)
log_softmax = jax.nn.log_softmax


def reverse_kl(logits):
    logs = log_softmax(logits)
    return jnp.sum(jnp.exp(logs) * (logs - log_softmax(REFERENCE)))


def forward_kl(logits):
    reference = log_softmax(REFERENCE)
    return jnp.sum(jnp.exp(reference) * (reference - log_softmax(logits)))


RIGHT = jax.grad(reverse_kl)(LOGITS)


def expected_gradient(loss, sampler):
    """Σ_a sampler(a) ∇ loss(a): samples come from the sampler, which is not moved."""

    def expectation(logits):
        return jnp.sum(jnp.exp(log_softmax(sampler)) * loss(log_softmax(logits)))

    return jax.grad(expectation)(LOGITS)


def loss(estimator, behaviour=None):
    reference = log_softmax(REFERENCE)

    def per_action(logs):
        sampled_by = None if behaviour is None else log_softmax(behaviour)
        return ops.kl_loss(
            logs, reference, ALL, estimator=estimator, behaviour_log_probs=sampled_by
        )

    return per_action


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_values_estimate_the_kl(estimator):
    """k2 to second order only; k1 and k3 exactly, and k3 is never negative."""
    logs = log_softmax(LOGITS)
    values = ops.kl_estimates(logs, log_softmax(REFERENCE), ALL, estimator=estimator)
    mean = float(jnp.sum(jnp.exp(logs) * values))
    if estimator == "k2":
        assert mean > 0
    else:
        assert mean == pytest.approx(float(reverse_kl(LOGITS)), rel=1e-5)
    if estimator == "k3":
        assert np.all(values >= 0)


def test_gradients_of_the_bare_losses():
    """open-instruct#534, NeMo-RL#2506, trl#4638: k1 pulls nowhere, k3 pulls elsewhere.

    k2 is right. k3's gradient is the forward KL's; its bias is the difference.
    """
    np.testing.assert_allclose(expected_gradient(loss("k1"), LOGITS), 0.0, atol=1e-6)
    np.testing.assert_allclose(expected_gradient(loss("k2"), LOGITS), RIGHT, atol=1e-6)
    of_k3 = expected_gradient(loss("k3"), LOGITS)
    np.testing.assert_allclose(of_k3, jax.grad(forward_kl)(LOGITS), atol=1e-6)
    assert np.abs(of_k3 - RIGHT).max() > 0.01


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
@pytest.mark.parametrize(
    "sampler", [LOGITS, BEHAVIOUR], ids=["on-policy", "off-policy"]
)
def test_gradients_with_the_sampler_are_right_for_all(estimator, sampler):
    gradient = expected_gradient(loss(estimator, sampler), sampler)
    np.testing.assert_allclose(gradient, RIGHT, atol=1e-6)


def test_a_differentiable_ratio_on_k2_would_be_wrong():
    """research 6.15: rho k2 is wrong, sg(rho) k2 is right."""

    def wrong(logs):
        ratio = jnp.exp(logs - log_softmax(BEHAVIOUR))
        return ratio * kl_estimators.k2(logs, log_softmax(REFERENCE))

    assert np.abs(expected_gradient(wrong, BEHAVIOUR) - RIGHT).max() > 0.01


def test_k1_as_a_reward_has_the_gradient_of_the_kl():
    def surrogate(logs):
        return -ops.kl_reward(logs, log_softmax(REFERENCE), ALL) * logs

    np.testing.assert_allclose(expected_gradient(surrogate, LOGITS), RIGHT, atol=1e-6)
    direct = jax.grad(
        lambda x: ops.kl_reward(log_softmax(x), log_softmax(REFERENCE), ALL).sum()
    )
    np.testing.assert_array_equal(direct(LOGITS), 0.0)


def test_rewards_to_go_have_the_gradient_of_the_kl_of_sequences():
    """Two tokens, the second's distribution depends on the first: 25 sequences.

    Without ``to_go`` the first token is not told what its choice costs the second.
    """
    tables = np.random.default_rng(1).normal(size=(3, 5, 5)).astype(np.float32)
    first, then, reference_then = tables[0, 0], tables[1], tables[2]
    pairs = [(a, b) for a in range(5) for b in range(5)]

    def log_probs(first, then):
        return jnp.stack(
            [
                jnp.stack([log_softmax(first)[a], log_softmax(then[a])[b]])
                for a, b in pairs
            ]
        )

    reference = log_probs(REFERENCE, reference_then)

    def exact(first):
        logs = log_probs(first, then)
        return jnp.sum(jnp.exp(logs.sum(1)) * (logs - reference).sum(1))

    def estimated(first, *, to_go):
        logs = log_probs(first, then)
        weights = jax.lax.stop_gradient(jnp.exp(logs.sum(1)))
        mask = np.ones(logs.shape, bool)
        reward = ops.kl_reward(logs, reference, mask, to_go=to_go)
        return -jnp.sum(weights[:, None] * reward * logs)

    right = jax.jit(jax.grad(exact))(first)
    whole = jax.jit(jax.grad(lambda x: estimated(x, to_go=True)))(first)
    local = jax.jit(jax.grad(lambda x: estimated(x, to_go=False)))(first)
    np.testing.assert_allclose(whole, right, atol=1e-6)
    assert np.abs(local - right).max() > 0.01


@pytest.mark.parametrize("estimator", ["k2", "k3"])
@pytest.mark.parametrize("log_prob", [-1e4, -200.0, -1e-6])
@pytest.mark.parametrize("reference", [-1e4, -200.0, -2.0])
def test_gradients_are_finite_and_never_vanish(estimator, log_prob, reference):
    """A clamp on the value would free the most extreme tokens from the leash."""
    if log_prob == reference:
        return
    value, slope = jax.value_and_grad(getattr(kl_estimators, estimator))(
        jnp.float32(log_prob), jnp.float32(reference)
    )
    assert np.isfinite(value) and np.isfinite(slope)
    assert np.sign(slope) == np.sign(log_prob - reference)


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_padding_reaches_neither_values_nor_gradients(estimator, poison):
    """Search-R1#21: the KL is over what the policy wrote, not over padding."""
    mask = np.array([True, False, True, False, True])

    def total(logs, reference, behaviour):
        return ops.kl_loss(
            logs, reference, mask, estimator=estimator, behaviour_log_probs=behaviour
        ).sum()

    clean = jax.value_and_grad(total)(LOGITS, REFERENCE, BEHAVIOUR)
    dirty = jax.value_and_grad(total)(
        *(np.where(mask, x, poison) for x in (LOGITS, REFERENCE, BEHAVIOUR))
    )
    jax.tree.map(np.testing.assert_array_equal, clean, dirty)


def test_no_gradient_flows_into_reference_or_sampler():
    def total(reference, behaviour):
        return ops.kl_loss(
            LOGITS, reference, ALL, estimator="k3", behaviour_log_probs=behaviour
        ).sum()

    for slope in jax.grad(total, argnums=(0, 1))(REFERENCE, BEHAVIOUR):
        np.testing.assert_array_equal(slope, 0.0)


def test_the_kl_of_a_policy_to_itself_is_exactly_zero():
    """trl#3194: a reference that is not quite the start shows at step 0."""
    for estimator in ("k1", "k2", "k3"):
        value = ops.kl_estimates(LOGITS, LOGITS, ALL, estimator=estimator)
        np.testing.assert_array_equal(value, 0.0)


def test_a_bad_option_is_refused_by_name():
    with pytest.raises(ValueError, match="estimator='k4'"):
        ops.kl_estimates(LOGITS, REFERENCE, ALL, estimator="k4")
