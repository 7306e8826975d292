"""Drawing tokens by inverting the cumulative distribution at given uniforms.

One uniform per token, drawn by the caller, keeps randomness out of the model and costs
nothing; Gumbel noise would need one number per entry of the vocabulary.
Axis letters: **N** rows, **V** vocabulary, **H** hidden size.
"""

import jax.numpy as jnp

from agentic_grpo.ops.token_log_probs import read_out

_BLOCK = 64  # entries that are summed before they are searched


def draw_tokens(hidden, unembedding, uniforms, temperature):
    """Draws from softmax(hidden @ unembeddingᵀ / temperature), or takes its mode.

    Args:
      hidden: float [N, H].
      unembedding: float [V, H].
      uniforms: float32 [N], in [0, 1).
      temperature: static float; at 0 the most probable token is taken, and log-prob and
        entropy are those at temperature 1.

    Returns:
      (token int32 [N], log_prob float32 [N], entropy float32 [N]).
    """
    logits = read_out(hidden, unembedding, temperature=temperature or 1.0)
    logits = logits - jnp.max(logits, axis=1, keepdims=True)
    weights = jnp.exp(logits)
    total = jnp.sum(weights, axis=1)
    if temperature:
        token = inverse_cdf(weights, uniforms)
    else:
        token = jnp.argmax(logits, axis=1).astype(jnp.int32)
    log_total = jnp.log(total)
    log_prob = _at(logits, token) - log_total
    entropy = log_total - jnp.sum(weights * logits, axis=1) / total
    return token, log_prob, entropy


def inverse_cdf(weights, uniforms):
    """The first entry whose cumulative weight exceeds ``uniform * total``.

    Float rounding neither selects an entry of weight zero nor falls off the end.

    Args:
      weights: float32 [N, V], not negative, of any positive sum per row.
      uniforms: float32 [N], in [0, 1).

    Returns:
      int32 [N].
    """
    rows, size = weights.shape
    blocks = -(-size // _BLOCK)
    padding = ((0, 0), (0, blocks * _BLOCK - size))
    table = jnp.pad(weights, padding).reshape(rows, blocks, _BLOCK)
    block_weights = jnp.sum(table, axis=2)
    target = uniforms * jnp.sum(block_weights, axis=1)
    block, rest = _search(block_weights, target)
    within = jnp.take_along_axis(table, block[:, None, None], axis=1)[:, 0]
    return block * _BLOCK + _search(within, rest)[0]


def _search(weights, target):
    """First entry with weight and ``cumsum > target``; and the target less its start.

    A target that rounding pushed to the end yields the last entry with weight.
    """
    cumulative = jnp.cumsum(weights, axis=1)
    real = weights > 0
    last = jnp.max(jnp.where(real, cumulative, 0.0), axis=1)
    target = jnp.minimum(target, jnp.nextafter(last, jnp.zeros_like(last)))
    found = jnp.argmax(real & (cumulative > target[:, None]), axis=1).astype(jnp.int32)
    return found, target - _at(cumulative - weights, found)


def _at(values, index):
    return jnp.take_along_axis(values, index[:, None], axis=1)[:, 0]
