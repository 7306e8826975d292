"""Importance ratios between the policy of today and the policy that sampled.

A ratio may be taken per token, per stage or per episode; over several tokens it is
either the *product* of the token ratios (exact, of huge variance) or their *geometric
mean* (length-normalised, biased): two functions, two names. 100 tokens with a log-ratio
of -0.01 have the product 0.368 and the geometric mean 0.990.

Shapes are [..., T] with the tokens of one episode on the last axis. Everything is
masked *before* the exponential, so NaN or inf on padding reaches neither values nor
gradients.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.errors import require, require_choice
from agentic_grpo.ops.doors import Array, expects
from agentic_grpo.ops.reductions import at_least_float32, masked
from agentic_grpo.ops.stage_returns import on_token_columns

#: Exponents are held within these bounds: e^20 is 5e8, far beyond any use.
MAX_LOG_RATIO = 20.0

GRANULARITIES = ("token", "stage", "episode")
TREATMENTS = ("none", "truncate", "mask", "keep")
ANCHORS = ("behaviour", "post_immediate", "proximal")


@jax.custom_jvp
def bounded_exp(exponent: Array) -> jax.Array:
    """exp of the exponent held within ±20, with the slope of the exp it returns.

    Finite in value and gradient for any finite exponent, and never of zero slope: a
    plain clip would let the most extreme token go uncorrected, and an overflow times a
    zero cotangent is NaN.
    """
    return jnp.exp(jnp.clip(exponent, -MAX_LOG_RATIO, MAX_LOG_RATIO))


@bounded_exp.defjvp
def _bounded_exp_jvp(primals, tangents):
    value = bounded_exp(*primals)
    return value, value * tangents[0]


@expects(log_probs="float [...]", anchor_log_probs="float [...]", mask="bool [...]")
def log_ratios(log_probs: Array, anchor_log_probs: Array, mask: Array) -> jax.Array:
    """log pi - log mu where ``mask``, else exactly 0; [..., T]."""
    log_probs = at_least_float32(log_probs)
    return masked(log_probs - at_least_float32(anchor_log_probs), mask)


@expects(log_probs="float [...]", anchor_log_probs="float [...]", mask="bool [...]")
def token_ratios(log_probs: Array, anchor_log_probs: Array, mask: Array) -> jax.Array:
    """pi / mu of each token, exactly 1 outside the mask; [..., T]."""
    return bounded_exp(log_ratios(log_probs, anchor_log_probs, mask))


@expects(
    log_probs="float [..., T]",
    anchor_log_probs="float [..., T]",
    mask="bool [..., T]",
    segment_of_column="int [T]",
)
def product_ratios(
    log_probs: Array,
    anchor_log_probs: Array,
    mask: Array,
    *,
    segment_of_column: np.ndarray | None = None,
) -> jax.Array:
    """Π_k pi_k / mu_k over the tokens of an episode, or of each stage, on its tokens.

    Args:
      log_probs: float [..., T].
      anchor_log_probs: float [..., T].
      mask: bool [..., T].
      segment_of_column: int [T], static; columns of equal number share a ratio.

    Returns:
      float [..., T]; the tokens of a segment share one value; 1 outside the mask.
    """
    logs = log_ratios(log_probs, anchor_log_probs, mask)
    totals, _ = _segment_sums(logs, mask, segment_of_column)
    return bounded_exp(masked(totals, mask))


@expects(
    log_probs="float [..., T]",
    anchor_log_probs="float [..., T]",
    mask="bool [..., T]",
    segment_of_column="int [T]",
)
def geometric_mean_ratios(
    log_probs: Array,
    anchor_log_probs: Array,
    mask: Array,
    *,
    segment_of_column: np.ndarray | None = None,
) -> jax.Array:
    """(Π_k pi_k / mu_k)^(1 / n) over the n tokens of an episode, or of each stage.

    The sequence ratio of GSPO (arXiv 2507.18071). Shapes as in ``product_ratios``.
    """
    logs = log_ratios(log_probs, anchor_log_probs, mask)
    totals, counts = _segment_sums(logs, mask, segment_of_column)
    return bounded_exp(masked(totals / jnp.maximum(counts, 1.0), mask))


def _segment_sums(
    values: jax.Array, mask: Array, segment_of_column: np.ndarray | None
) -> tuple[jax.Array, jax.Array]:
    """Sums of values, and of the mask, over each token's segment; both [..., T]."""
    mask = jnp.broadcast_to(mask, values.shape)
    counts = mask.astype(values.dtype)
    if segment_of_column is None:
        total, count = (
            jnp.broadcast_to(jnp.sum(x, axis=-1, keepdims=True), x.shape)
            for x in (values, counts)
        )
        return total, count
    segments = np.asarray(segment_of_column)
    columns = [np.flatnonzero(segments == s) for s in range(int(segments.max()) + 1)]

    def over_stages(x):
        sums = [jnp.sum(x[..., here], axis=-1) for here in columns]
        return on_token_columns(jnp.stack(sums, axis=-1), segments + 1)

    return over_stages(values), over_stages(counts)


@expects(
    log_probs="float [..., T]",
    behaviour_log_probs="float [..., T]",
    mask="bool [..., T]",
    segment_of_column="int [T]",
)
def importance_weights(
    log_probs: Array,
    behaviour_log_probs: Array,
    mask: Array,
    *,
    granularity: str = "token",
    treatment: str = "truncate",
    low: float = 0.0,
    high: float = 2.0,
    length_normalised: bool = False,
    segment_of_column: np.ndarray | None = None,
) -> jax.Array:
    """Detached weights pi / mu, for a loss that is not itself a function of the ratio.

    Do not put them on top of a ratio to the same behaviour policy: the sample would be
    weighted twice (``keep`` may be put there, it only drops). Truncation (V-trace, TIS)
    is biased towards the behaviour policy; the two-sided mask (IcePop) drops what lies
    outside the band altogether.

    Args:
      log_probs: float [..., T]; of today's policy.
      behaviour_log_probs: float [..., T]; recorded at sampling.
      mask: bool [..., T].
      granularity: "token", "stage" or "episode".
      treatment: "none", "truncate" (min(w, high)), "mask" (w if low <= w <= high, else
        0) or "keep" (1 if low <= w <= high, else 0).
      low: of the band.
      high: cap, or top of the band.
      length_normalised: geometric mean instead of product, for stage and episode.
      segment_of_column: int [T], static; needed for "stage".

    Returns:
      float [..., T]; no gradient flows through; 0 outside the mask.
    """
    require_choice("granularity", granularity, GRANULARITIES)
    require_choice("treatment", treatment, TREATMENTS)
    require(0.0 <= low <= high, "low", low, f"in [0, high], high={high}")
    require(
        (granularity == "stage") == (segment_of_column is not None),
        "segment_of_column",
        segment_of_column,
        f"given with granularity='stage' and only there; granularity={granularity!r}",
    )
    arguments = log_probs, behaviour_log_probs, mask
    if granularity == "token":
        weights = token_ratios(*arguments)
    else:
        over_tokens = geometric_mean_ratios if length_normalised else product_ratios
        weights = over_tokens(*arguments, segment_of_column=segment_of_column)
    if treatment == "truncate":
        weights = jnp.minimum(weights, high)
    elif treatment in ("mask", "keep"):
        inside = (weights >= low) & (weights <= high)
        kept = weights if treatment == "mask" else jnp.ones_like(weights)
        weights = masked(kept, inside)
    return jax.lax.stop_gradient(masked(weights, mask))


@expects(
    log_probs="float [..., T]",
    behaviour_log_probs="float [..., T]",
    mask="bool [..., T]",
    segment_of_column="int [T]",
)
def sequence_rejection(
    log_probs: Array,
    behaviour_log_probs: Array,
    mask: Array,
    *,
    low: float,
    high: float,
    segment_of_column: np.ndarray | None = None,
) -> jax.Array:
    """Which tokens stay if whole sequences are rejected by their geometric mean ratio.

    A sequence (an episode, or each stage with ``segment_of_column``) stays where low <=
    exp(mean log-ratio) <= high. Use it as a mask for credit and weights, and, where it
    is known before the advantages are, for the members of a group that are compared
    (``any(kept, axis=-1)``): who is rejected should not move the others' baseline.

    Returns:
      bool [..., T], inside ``mask``.
    """
    ratio = geometric_mean_ratios(
        log_probs, behaviour_log_probs, mask, segment_of_column=segment_of_column
    )
    return (ratio >= low) & (ratio <= high) & mask


class Anchored(NamedTuple):
    """What the ratio of a loss is taken against, and what it is weighted with.

    Attributes:
      log_probs: float [..., T]; the anchor's, detached.
      weights: float [..., T]; detached; multiply the loss.
    """

    log_probs: jax.Array
    weights: jax.Array


@expects(
    log_probs="float [..., T]",
    behaviour_log_probs="float [..., T]",
    mask="bool [..., T]",
    post_immediate="float [..., T]",
)
def anchored(
    log_probs: Array,
    behaviour_log_probs: Array,
    mask: Array,
    *,
    anchor: str = "behaviour",
    post_immediate: Array | None = None,
    weigh: Callable[..., jax.Array] | None = None,
) -> Anchored:
    """The three anchors of the ratio, with the weight that makes each one importance.

    * ``behaviour``: log-probs at sampling, weight 1. The clip refuses further moves
      outward and admits moves back at full size.
    * ``post_immediate``: log-probs right after the immediate update, weight
      pi_post / mu.
    * ``proximal``: today's log-probs, detached, weight pi / mu (decoupled PPO, arXiv
      2110.00641). The ratio is exactly 1, so with one step per tick the clip is idle.

    Untruncated, weight times ratio is pi / mu for all three.

    Args:
      log_probs: float [..., T]; today's.
      behaviour_log_probs: float [..., T].
      mask: bool [..., T].
      anchor: one of the three.
      post_immediate: float [..., T]; for that anchor, and only for it.
      weigh: (anchor log-probs, behaviour log-probs, mask) -> weights; by default
        ``importance_weights`` truncated at 2 per token. With the behaviour anchor it
        gets today's log-probs instead, and none means 1.
    """
    require_choice("anchor", anchor, ANCHORS)
    require(
        (anchor == "post_immediate") == (post_immediate is not None),
        "post_immediate",
        post_immediate,
        f"given with the anchor of that name and only there; anchor={anchor!r}",
    )
    log_probs = jax.lax.stop_gradient(at_least_float32(log_probs))
    behaviour_log_probs = jax.lax.stop_gradient(at_least_float32(behaviour_log_probs))
    if anchor == "behaviour":
        if weigh is None:
            weights = masked(jnp.ones_like(log_probs), mask)
        else:
            weights = weigh(log_probs, behaviour_log_probs, mask)
        return Anchored(behaviour_log_probs, weights)
    reference = log_probs if post_immediate is None else post_immediate
    reference = jax.lax.stop_gradient(at_least_float32(reference))
    weigh = importance_weights if weigh is None else weigh
    return Anchored(reference, weigh(reference, behaviour_log_probs, mask))
