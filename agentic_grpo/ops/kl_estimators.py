"""Estimators of the KL divergence to a reference policy, as losses and as rewards.

With x = log pi - log ref on sampled tokens: k1 = x, k2 = x² / 2, k3 = e^-x - 1 + x
(Schulman). All estimate KL(pi | ref); as *losses* their gradients differ, because the
samples come from pi itself:

| form | gradient per sample | in expectation |
|---|---|---|
| bare k1 | ∇log pi | 0: useless as a loss |
| bare k2 | x ∇log pi | ∇KL(pi, ref): right |
| bare k3 | (1 - e^-x) ∇log pi | ∇KL(ref, pi): the *forward* KL |
| rho k1 | rho (1 + x) ∇log pi | ∇KL(pi, ref), of more variance |
| sg(rho) k2 = rho k3 | rho x ∇log pi | ∇KL(pi, ref), also off-policy |
| k1 as reward | -x ∇log pi in the policy loss | -∇KL(pi, ref) |

rho = pi / mu is the ratio to the policy that sampled; on-policy it is 1 in value, but
its gradient still counts (research: arXiv 2506.09477, 2512.21852).
"""

import jax
import jax.numpy as jnp

from agentic_grpo.errors import require_choice
from agentic_grpo.ops.doors import Array, expects
from agentic_grpo.ops.importance_ratios import bounded_exp, log_ratios, token_ratios
from agentic_grpo.ops.reductions import masked


@expects(
    log_probs="float [...]",
    reference_log_probs="float [...]",
    mask="bool [...]",
)
def k1(
    log_probs: Array, reference_log_probs: Array, mask: Array | None = None
) -> jax.Array:
    """log pi - log ref per token [..., T]; 0 outside the mask, if one is given."""
    reference_log_probs = jax.lax.stop_gradient(reference_log_probs)
    mask = jnp.ones(log_probs.shape, bool) if mask is None else mask
    return log_ratios(log_probs, reference_log_probs, mask)


@expects(
    log_probs="float [...]",
    reference_log_probs="float [...]",
    mask="bool [...]",
)
def k2(
    log_probs: Array, reference_log_probs: Array, mask: Array | None = None
) -> jax.Array:
    """(log pi - log ref)² / 2 per token [..., T]; as a loss the gradient of the KL."""
    return k1(log_probs, reference_log_probs, mask) ** 2 / 2.0


@expects(
    log_probs="float [...]",
    reference_log_probs="float [...]",
    mask="bool [...]",
)
def k3(
    log_probs: Array, reference_log_probs: Array, mask: Array | None = None
) -> jax.Array:
    """e^-x - 1 + x per token [..., T], x = log pi - log ref; never negative.

    The exponent is held within ±20, so that value and gradient stay finite, and the
    gradient never vanishes, however far the policies are apart.
    """
    x = k1(log_probs, reference_log_probs, mask)
    return bounded_exp(-x) - 1.0 + x


_ESTIMATORS = {"k1": k1, "k2": k2, "k3": k3}


@expects(
    log_probs="float [...]",
    reference_log_probs="float [...]",
    mask="bool [...]",
)
def kl_estimates(
    log_probs: Array, reference_log_probs: Array, mask: Array, *, estimator: str
) -> jax.Array:
    """The named estimator's value per token [..., T], 0 outside the mask."""
    require_choice("estimator", estimator, _ESTIMATORS)
    return _ESTIMATORS[estimator](log_probs, reference_log_probs, mask)


@expects(
    log_probs="float [...]",
    reference_log_probs="float [...]",
    mask="bool [...]",
    behaviour_log_probs="float [...]",
)
def kl_loss(
    log_probs: Array,
    reference_log_probs: Array,
    mask: Array,
    *,
    estimator: str,
    behaviour_log_probs: Array | None = None,
) -> jax.Array:
    """A KL term of the loss, per token.

    Without ``behaviour_log_probs`` the bare form, as in GRPO (k3; its gradient is that
    of the forward KL). With it the unbiased form for samples of that policy: rho k1,
    sg(rho) k2 or rho k3; for on-policy samples give today's log-probs.

    Args:
      log_probs: float [..., T]; carries the gradient.
      reference_log_probs: float [..., T]; detached.
      mask: bool [..., T].
      estimator: "k1", "k2" or "k3".
      behaviour_log_probs: float [..., T]; detached; of the policy that sampled.

    Returns:
      float [..., T]; 0 outside the mask.
    """
    values = kl_estimates(log_probs, reference_log_probs, mask, estimator=estimator)
    if behaviour_log_probs is None:
        return values
    behaviour_log_probs = jax.lax.stop_gradient(behaviour_log_probs)
    ratios = token_ratios(log_probs, behaviour_log_probs, mask)
    if estimator == "k2":
        ratios = jax.lax.stop_gradient(ratios)
    return ratios * values


@expects(
    log_probs="float [..., T]",
    reference_log_probs="float [..., T]",
    mask="bool [..., T]",
)
def kl_reward(
    log_probs: Array,
    reference_log_probs: Array,
    mask: Array,
    *,
    estimator: str = "k1",
    to_go: bool = False,
) -> jax.Array:
    """Minus the KL estimate as a detached reward per token, to add to the advantage.

    Only k1 is unbiased here. A token also decides what follows: with ``to_go`` each one
    gets the sum over itself and all later tokens, and the gradient is that of the KL of
    whole sequences.

    Args:
      log_probs: float [..., T].
      reference_log_probs: float [..., T].
      mask: bool [..., T].
      estimator: "k1", "k2" or "k3".
      to_go: sum over later tokens too.

    Returns:
      float [..., T]; no gradient; 0 outside the mask.
    """
    reward = -kl_estimates(log_probs, reference_log_probs, mask, estimator=estimator)
    if to_go:
        reward = jnp.flip(jnp.cumsum(jnp.flip(reward, axis=-1), axis=-1), axis=-1)
    return jax.lax.stop_gradient(masked(reward, mask))
