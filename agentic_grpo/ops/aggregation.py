"""What a loss is divided by: four ways from token losses to a ``Mean``.

Each maps (losses [..., T], mask [..., T]) to a total and a count that add up over
microbatches and devices; add first, divide last. The count depends on the mask and the
shapes alone, never on the losses, and (but for the constant) not on the padded width.
Leading axes are sequences.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from agentic_grpo.errors import require
from agentic_grpo.ops.doors import Array, expects
from agentic_grpo.ops.reductions import Mean, at_least_float32, masked, masked_mean

Aggregation = Callable[..., Mean]


def constant_divisor(tokens_per_sequence: float) -> Aggregation:
    """Σ loss / (sequences · constant): Dr. GRPO (arXiv 2503.20783), TRL ``dr_grpo``.

    What happens to arrive together does not change the weight of a token, so phases add
    up. Every row of the batch counts, whether it has credit or not.

    Args:
      tokens_per_sequence: the constant, for example the trained tokens that a row is
        configured to have.

    Returns:
      (losses [..., T], mask [..., T]) -> ``Mean``.
    """
    require(
        tokens_per_sequence > 0, "tokens_per_sequence", tokens_per_sequence, "positive"
    )

    @expects(losses="float [..., T]", mask="bool [..., T]")
    def aggregate(losses: Array, mask: Array) -> Mean:
        losses = masked(losses, mask)
        sequences = losses.size // losses.shape[-1]
        count = jnp.asarray(sequences * tokens_per_sequence, losses.dtype)
        return Mean(jnp.sum(losses), count)

    return aggregate


@expects(losses="float [..., T]", mask="bool [..., T]")
def token_mean(losses: Array, mask: Array) -> Mean:
    """Σ loss / Σ tokens, so long rows weigh more: DAPO (arXiv 2503.14476)."""
    return masked_mean(losses, mask)


@expects(losses="float [..., T]", mask="bool [..., T]")
def sequence_mean_token_mean(losses: Array, mask: Array) -> Mean:
    """Mean over sequences of the mean over their tokens: GRPO (arXiv 2402.03300).

    A sequence without a token does not count (as in Tunix and verl; TRL counts it).
    """
    per_sequence = masked_mean(losses, mask, axis=-1)
    return Mean(jnp.sum(per_sequence.over()), _sequences(per_sequence))


@expects(losses="float [..., T]", mask="bool [..., T]")
def sequence_mean_token_sum(losses: Array, mask: Array) -> Mean:
    """Mean over sequences of the sum over their tokens; empty ones do not count."""
    per_sequence = masked_mean(losses, mask, axis=-1)
    return Mean(jnp.sum(per_sequence.total), _sequences(per_sequence))


def _sequences(per_sequence: Mean) -> jax.Array:
    return jnp.sum(at_least_float32(per_sequence.count > 0))
