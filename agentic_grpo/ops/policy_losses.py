"""Policy objectives per token, and the loss of both phases.

Every objective maps (log_probs [..., T], anchor_log_probs [..., T], credit) to losses
[..., T]: 0 and without gradient outside the credit's mask, not aggregated, to be
minimised. The clip range comes with the credit, token by token, so one forward pass
serves any mixture of stages and phases. Gradients flow to ``log_probs`` alone.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.errors import require
from agentic_grpo.ops.doors import Array, expects
from agentic_grpo.ops.importance_ratios import (
    bounded_exp,
    geometric_mean_ratios,
    log_ratios,
    token_ratios,
)
from agentic_grpo.ops.reductions import masked
from agentic_grpo.records import TokenCredit

Objective = Callable[..., jax.Array]


@expects(mask="bool [..., T]")
def token_credit(
    advantage: Array | float,
    mask: Array,
    *,
    clip_low: Array | float,
    clip_high: Array | float,
) -> TokenCredit:
    """A ``TokenCredit`` for another loop; the arguments broadcast to [..., T]."""
    advantage = masked(advantage, mask)

    def full(values):
        values = jnp.asarray(values, advantage.dtype)
        return jnp.broadcast_to(values, advantage.shape)

    return TokenCredit(
        advantage=advantage,
        clip_low=full(clip_low),
        clip_high=full(clip_high),
        mask=jnp.broadcast_to(mask, advantage.shape),
    )


@expects(ratios="float [..., T]", credit="TokenCredit")
def is_clipped(ratios: Array, credit: TokenCredit) -> jax.Array:
    """Tokens [..., T] whose ratio has left the range on the side the credit pushes to.

    There, and only there, PPO's clip takes the gradient away; a push back passes.
    """
    above = (credit.advantage > 0.0) & (ratios > 1.0 + credit.clip_high)
    below = (credit.advantage < 0.0) & (ratios < 1.0 - credit.clip_low)
    return (above | below) & credit.mask


@expects(
    log_probs="float [..., T]", anchor_log_probs="float [..., T]", credit="TokenCredit"
)
def ppo_clip_loss(
    log_probs: Array, anchor_log_probs: Array, credit: TokenCredit
) -> jax.Array:
    """-min(rho A, clip(rho, 1 - low, 1 + high) A) per token.

    PPO (arXiv 1707.06347) with separate bounds (DAPO, 2503.14476).
    """
    ratios = token_ratios(log_probs, _detached(anchor_log_probs), credit.mask)
    return _clipped_surrogate(ratios, credit)


@expects(
    log_probs="float [..., T]", anchor_log_probs="float [..., T]", credit="TokenCredit"
)
def dual_clip_loss(
    log_probs: Array,
    anchor_log_probs: Array,
    credit: TokenCredit,
    *,
    max_ratio: float = 3.0,
) -> jax.Array:
    """PPO's clip, and for A < 0 a loss of at most -max_ratio A (arXiv 1912.09729).

    Bounds what one stale token with a huge ratio may do. ``max_ratio`` > 1.
    """
    require(max_ratio > 1.0, "max_ratio", max_ratio, "greater than 1")
    ratios = token_ratios(log_probs, _detached(anchor_log_probs), credit.mask)
    too_far = (credit.advantage < 0.0) & (ratios > max_ratio)
    return _clipped_surrogate(jnp.where(too_far, max_ratio, ratios), credit)


@expects(
    log_probs="float [..., T]",
    anchor_log_probs="float [..., T]",
    credit="TokenCredit",
    segment_of_column="int [T]",
)
def gspo_loss(
    log_probs: Array,
    anchor_log_probs: Array,
    credit: TokenCredit,
    *,
    segment_of_column: np.ndarray | None = None,
) -> jax.Array:
    """PPO's clip on the geometric mean ratio of an episode, or of each stage.

    GSPO in its token form (arXiv 2507.18071): the value is the sequence's ratio s, the
    gradient s ∇log pi of each token. The paper aggregates with sequence means.

    Args:
      log_probs: float [..., T].
      anchor_log_probs: float [..., T].
      credit: [..., T].
      segment_of_column: int [T], static; with it the ratio is per stage.
    """
    shared = geometric_mean_ratios(
        log_probs,
        _detached(anchor_log_probs),
        credit.mask,
        segment_of_column=segment_of_column,
    )
    unit = bounded_exp(log_ratios(log_probs, _detached(log_probs), credit.mask))
    return _clipped_surrogate(_detached(shared) * unit, credit)


@expects(
    log_probs="float [..., T]", anchor_log_probs="float [..., T]", credit="TokenCredit"
)
def cispo_loss(
    log_probs: Array, anchor_log_probs: Array, credit: TokenCredit
) -> jax.Array:
    """-sg(clip(rho, 1 - low, 1 + high)) A log pi (arXiv 2506.13585).

    The weight is clipped, not the update: no token loses its gradient.
    """
    ratios = token_ratios(log_probs, anchor_log_probs, credit.mask)
    weights = jnp.clip(ratios, 1.0 - credit.clip_low, 1.0 + credit.clip_high)
    return _weighted_log_probs(log_probs, weights, credit)


@expects(
    log_probs="float [..., T]", anchor_log_probs="float [..., T]", credit="TokenCredit"
)
def reinforce_loss(
    log_probs: Array, anchor_log_probs: Array, credit: TokenCredit
) -> jax.Array:
    """-sg(rho) A log pi: the exact gradient at today's policy, of unbounded variance.

    The clip range is not used. With today's log-probs as the anchor rho is 1, which
    leaves the weighting to the ``weights`` of ``two_phase_loss``.
    """
    ratios = token_ratios(log_probs, anchor_log_probs, credit.mask)
    return _weighted_log_probs(log_probs, ratios, credit)


@expects(
    log_probs="float [..., T]",
    anchor_log_probs="float [..., T]",
    credit="TokenCredit [2]",
    weights="float [..., T]",
)
def two_phase_losses(
    log_probs: Array,
    anchor_log_probs: Array,
    credit: TokenCredit,
    *,
    objective: Objective,
    weights: Array | None = None,
) -> jax.Array:
    """Losses of both phases from one forward pass.

    Args:
      log_probs: float [..., T]; carries the gradient.
      anchor_log_probs: float [..., T].
      credit: [2, ..., T].
      objective: one of this module's, its options bound with ``functools.partial``.
      weights: float [..., T]; multiply the losses, detached; none means 1.

    Returns:
      float [2, ..., T].
    """
    losses = jax.vmap(objective, (None, None, 0))(log_probs, anchor_log_probs, credit)
    if weights is None:
        return losses
    return losses * masked(_detached(weights)[None], credit.mask)


def _clipped_surrogate(ratios: jax.Array, credit: TokenCredit) -> jax.Array:
    advantage = _detached(masked(credit.advantage, credit.mask))
    bound = jnp.where(advantage > 0.0, 1.0 + credit.clip_high, 1.0 - credit.clip_low)
    return -advantage * jnp.where(is_clipped(ratios, credit), bound, ratios)


def _weighted_log_probs(
    log_probs: Array, weights: jax.Array, credit: TokenCredit
) -> jax.Array:
    scores = masked(credit.advantage * weights, credit.mask)
    return -_detached(scores) * masked(log_probs, credit.mask)


_detached = jax.lax.stop_gradient
