"""Log-probs and entropy straight from hidden states, without the logits [T, V].

For 2,048 tokens and a vocabulary of 49,152 the float32 logits alone are 400 MB, and
automatic differentiation keeps several such arrays. Here the vocabulary is walked in
chunks: a running log-sum-exp forward, and backward the logits of one chunk at a time
are computed again. Memory does not grow with the vocabulary.
"""

import functools

import jax
import jax.numpy as jnp

from agentic_grpo.errors import require
from agentic_grpo.ops.doors import Array, expects
from agentic_grpo.ops.reductions import masked

#: Logits held at a time, in numbers, when no chunk size is given: 16 MiB in float32.
CHUNK_BUDGET = 2**22
#: Below this a chunk's matrix product is too thin to be fast.
MIN_CHUNK = 256
#: The peak before any logit was seen; finite, since 0 * inf is NaN.
LOWEST = -1e38


@expects(
    hidden="float [..., H]",
    unembedding="float [V, H]",
    targets="int [...]",
    mask="bool [...]",
    temperature="float []",
)
def token_log_probs(
    hidden: Array,
    unembedding: Array,
    targets: Array,
    *,
    temperature: jax.Array | float = 1.0,
    mask: Array | None = None,
    chunk_size: int | None = None,
    with_entropy: bool = True,
) -> tuple[jax.Array, jax.Array | None]:
    """log softmax(hidden @ unembeddingᵀ / temperature) of the targets, and its entropy.

    With the logits z of ``read_out``: log pi_t = z_t[y_t] - log Σ_v exp z_t[v] and
    H_t = log Σ_v exp z_t[v] - Σ_v pi_t[v] z_t[v]. The same temperature belongs into
    sampling, the snapshot, the reference and here. Gradients reach ``hidden`` and
    ``unembedding`` (which may be the embedding itself, tied) and are exact;
    ``temperature`` gets none. Logits of any size lose no more than their own float32
    rounding, |z| 2^-23: all is measured from the largest of them.

    Args:
      hidden: float [..., T, H]; the state that predicts each target.
      unembedding: float [V, H].
      targets: int [..., T]; an id outside [0, V) reads as a logit of 0.
      temperature: float > 0.
      mask: bool [..., T]; hidden states outside it are read as 0, so that NaN on
        padding reaches no value and no gradient. None: all are real.
      chunk_size: vocabulary entries per chunk. None: as many as keep the logits at hand
        under ``CHUNK_BUDGET``. At V or more there is one chunk, and differentiation
        keeps its logits: fastest for a small vocabulary.
      with_entropy: also compute the entropy; else None is returned in its place.

    Returns:
      (log_probs float32 [..., T], entropy float32 [..., T] or None).
    """
    hidden, unembedding, targets = map(jnp.asarray, (hidden, unembedding, targets))
    if isinstance(temperature, (int, float)):
        require(temperature > 0, "temperature", temperature, "positive")
    if chunk_size is not None:
        require(chunk_size >= 1, "chunk_size", chunk_size, "at least 1")
    shape = targets.shape
    if mask is not None:
        hidden = jnp.where(mask[..., None], hidden, jnp.zeros((), hidden.dtype))
    hidden = hidden.reshape(-1, hidden.shape[-1])
    temperature = jax.lax.stop_gradient(jnp.asarray(temperature, jnp.float32))
    vocabulary = unembedding.shape[0]
    if chunk_size is None:
        chunk_size = max(MIN_CHUNK, CHUNK_BUDGET // max(hidden.shape[0], 1))
    arguments = hidden, unembedding, targets.reshape(-1), temperature
    if chunk_size >= vocabulary:
        log_probs, entropy = _of_one_chunk(with_entropy, *arguments)
    else:
        log_probs, entropy = _of_chunks((chunk_size, with_entropy), *arguments)
    return (
        log_probs.reshape(shape),
        entropy.reshape(shape) if with_entropy else None,
    )


@expects(hidden="float [..., H]", unembedding="float [V, H]", temperature="float []")
def read_out(
    hidden: Array, unembedding: Array, *, temperature: jax.Array | float = 1.0
) -> jax.Array:
    """The logits z = hidden @ unembeddingᵀ / temperature, as they are read everywhere.

    The unembedding is rounded to the type of ``hidden``, so that bfloat16 activations
    keep fast products with float32 parameters; sums are float32. Who samples and who
    scores must read alike: a rounding on one side only is a ratio that is not 1.

    Args:
      hidden: float [T, H].
      unembedding: float [V, H].
      temperature: float [], positive.

    Returns:
      float32 [T, V].
    """
    matrix = unembedding.T.astype(hidden.dtype)
    dot = jnp.matmul(hidden, matrix, preferred_element_type=jnp.float32)
    return dot / temperature


def _picked(logits, targets, start):
    """The target's logit [T] where the chunk from ``start`` on holds it, else 0."""
    return jnp.sum(masked(logits, _is_target(logits, targets, start)), axis=-1)


def _is_target(logits, targets, start):
    columns = jax.lax.broadcasted_iota(targets.dtype, logits.shape, 1)
    return columns == (targets - start)[:, None]


def _of_one_chunk(with_entropy, hidden, unembedding, targets, temperature):
    logits = read_out(hidden, unembedding, temperature=temperature)
    peak = jax.lax.stop_gradient(jnp.max(logits, axis=-1))
    below_peak = logits - peak[:, None]
    terms = jnp.exp(below_peak)
    total = jnp.sum(terms, axis=-1)
    log_total = jnp.log(total)
    log_probs = (_picked(logits, targets, 0) - peak) - log_total
    if not with_entropy:
        return log_probs, None
    return log_probs, log_total - jnp.sum(terms * below_peak, axis=-1) / total


def _over_chunks(step, carry, vocabulary, chunk_size):
    """Runs step(carry, start, size) over all chunks; the last one may be smaller."""
    whole, rest = divmod(vocabulary, chunk_size)
    carry = jax.lax.fori_loop(
        0, whole, lambda i, carry: step(carry, i * chunk_size, chunk_size), carry
    )
    return step(carry, whole * chunk_size, rest) if rest else carry


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _of_chunks(static, hidden, unembedding, targets, temperature):
    return _forward(static, hidden, unembedding, targets, temperature)[0]


def _forward(static, hidden, unembedding, targets, temperature):
    chunk_size, with_entropy = static

    def step(carry, start, size):
        peak, total, weighted, picked = carry
        rows = jax.lax.dynamic_slice_in_dim(unembedding, start, size)
        logits = read_out(hidden, rows, temperature=temperature)
        new_peak = jnp.maximum(peak, jnp.max(logits, axis=-1))
        shrink = jnp.exp(peak - new_peak)
        below_peak = logits - new_peak[:, None]
        terms = jnp.exp(below_peak)
        if with_entropy:
            moved = weighted + total * (peak - new_peak)
            weighted = moved * shrink + jnp.sum(terms * below_peak, axis=-1)
        total = total * shrink + jnp.sum(terms, axis=-1)
        return new_peak, total, weighted, picked + _picked(logits, targets, start)

    zeros = jnp.zeros(targets.shape, jnp.float32)
    nothing = jnp.full_like(zeros, LOWEST), zeros, zeros, zeros
    peak, total, weighted, picked = _over_chunks(
        step, nothing, unembedding.shape[0], chunk_size
    )
    log_total = jnp.log(total)
    expected = weighted / total if with_entropy else None
    entropy = log_total - expected if with_entropy else None
    saved = hidden, unembedding, targets, temperature, peak, log_total, expected
    return ((picked - peak) - log_total, entropy), saved


def _backward(static, saved, cotangents):
    chunk_size, with_entropy = static
    hidden, unembedding, targets, temperature, peak, log_total, expected = saved
    of_log_prob, of_entropy = cotangents

    def step(carry, start, size):
        d_hidden, d_unembedding = carry
        rows = jax.lax.dynamic_slice_in_dim(unembedding, start, size)
        below_peak = read_out(hidden, rows, temperature=temperature) - peak[:, None]
        # d log pi / dz = onehot - pi,  dH / dz = -pi (z - E z)
        slope = of_log_prob[:, None]
        if with_entropy:
            slope = slope + of_entropy[:, None] * (below_peak - expected[:, None])
        d_logits = masked(of_log_prob[:, None], _is_target(below_peak, targets, start))
        d_logits -= jnp.exp(below_peak - log_total[:, None]) * slope
        d_logits = (d_logits / temperature).astype(hidden.dtype)
        read = rows.astype(hidden.dtype)
        d_hidden += jnp.matmul(d_logits, read, preferred_element_type=jnp.float32)
        d_rows = jnp.matmul(d_logits.T, hidden, preferred_element_type=jnp.float32)
        return d_hidden, jax.lax.dynamic_update_slice_in_dim(
            d_unembedding, d_rows.astype(unembedding.dtype), start, axis=0
        )

    d_hidden, d_unembedding = _over_chunks(
        step,
        (jnp.zeros(hidden.shape, jnp.float32), jnp.zeros_like(unembedding)),
        unembedding.shape[0],
        chunk_size,
    )
    return (
        d_hidden.astype(hidden.dtype),
        d_unembedding,
        None,
        jnp.zeros_like(temperature),
    )


_of_chunks.defvjp(_forward, _backward)
