"""What became of the ratios: effective sample size, chi-square, dropped credit."""

import jax
import jax.numpy as jnp

from agentic_grpo.ops.doors import Array, expects
from agentic_grpo.ops.reductions import (
    Mean,
    WeightMoments,
    at_least_float32,
    masked,
    masked_mean,
)
from agentic_grpo.records import TokenCredit


@expects(weights="float [...]", mask="bool [...]")
def weight_moments(weights: Array, mask: Array) -> WeightMoments:
    """``WeightMoments`` of the weights [...] where ``mask``."""
    weights = masked(weights, mask)
    mean = masked_mean(weights, mask)
    square = masked_mean(weights**2, mask)
    return WeightMoments(mean.total, square.total, mean.count)


@expects(weights="float [...]", mask="bool [...]")
def effective_sample_share(
    weights: Array, mask: Array, *, axis_name: str | None = None
) -> jax.Array:
    """(Σw)² / (n Σw²) in [0, 1]: 1 if all n weights are equal, 1/n if one rules; []."""
    return weight_moments(weights, mask).over(axis_name)


@expects(weights="float [...]", mask="bool [...]")
def chi_square(
    weights: Array, mask: Array, *, axis_name: str | None = None
) -> jax.Array:
    """E[w²] - 1 []: the divergence of the policies if the weights have mean 1."""
    square = masked_mean(masked(weights, mask) ** 2, mask)
    if axis_name is not None:
        square = Mean(*jax.lax.psum(square, axis_name))
    return jnp.where(square.count > 0, square.over() - 1.0, 0.0)


@expects(dropped="bool [..., T]", credit="TokenCredit")
def dropped_credit(dropped: Array, credit: TokenCredit) -> dict[str, Mean]:
    """How much credit was dropped, by sign.

    Args:
      dropped: bool [..., T]; tokens whose gradient was taken away.
      credit: [..., T].

    Returns:
      ``dropped_tokens_<sign>`` (share of the tokens with credit of this sign) and
      ``dropped_credit_<sign>`` (share of Σ|A|), each a ``Mean`` over all axes.
    """
    report = {}
    for name, sign in (("positive", 1.0), ("negative", -1.0)):
        size = masked(sign * credit.advantage, credit.mask)
        ours = size > 0.0
        size = masked(size, ours)
        lost = ours & dropped
        report[f"dropped_tokens_{name}"] = masked_mean(at_least_float32(lost), ours)
        report[f"dropped_credit_{name}"] = Mean(
            jnp.sum(masked(size, lost)), jnp.sum(size)
        )
    return report
