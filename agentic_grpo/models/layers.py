"""The parts of a Llama-style decoder: rotary attention, gated MLP, block.

Axis letters: **N** rows, **T** columns of queries, **C** columns of keys, **H** hidden
size, **Q** heads of queries, **K** heads of keys and values, **D** size of a head.
Every head of keys and values serves Q // K consecutive heads of queries (grouped-query
attention, Ainslie et al. 2023).
"""

import jax
import jax.numpy as jnp
from flax import nnx

#: Stands for minus infinity among attention scores. It is finite on purpose: a row
#: that sees nothing (padding) then gets uniform weights instead of 0 / 0.
_HIDDEN_SCORE = -1e30


def rotary_angles(positions, *, head_size, theta):
    """Cosines and signed sines by which a position turns the halves of a head.

    Pair (d, d + D / 2) turns by ``position * theta ** (-2 d / D)`` (Su et al. 2021).

    Args:
      positions: int [..., T].
      head_size: D, even.
      theta: base of the wavelengths.

    Returns:
      Two float32 [..., T, 1, D], to be broadcast over heads: cosines; and sines,
      negative on the first half.
    """
    exponents = jnp.arange(0, head_size, 2, dtype=jnp.float32) / head_size
    positions = positions.astype(jnp.float32)
    angles = jnp.einsum("...t,d->...td", positions, theta**-exponents)
    cosines, sines = jnp.cos(angles), jnp.sin(angles)
    factors = (
        jnp.concatenate([cosines, cosines], axis=-1)[..., None, :],
        jnp.concatenate([-sines, sines], axis=-1)[..., None, :],
    )
    # Else XLA recomputes them for every head of every layer.
    return jax.lax.optimization_barrier(factors)


def rotate(heads, angles):
    """Turns the pairs (d, d + D / 2) of each head, as in published Llama weights.

    Args:
      heads: float [..., T, K, D], K heads.
      angles: as from ``rotary_angles``.

    Returns:
      float [..., T, K, D] of the same type as ``heads``.
    """
    cosines, sines = angles
    swapped = jnp.roll(heads, heads.shape[-1] // 2, axis=-1)
    return (heads * cosines + swapped * sines).astype(heads.dtype)


def attend(queries, keys, values, mask):
    """Softmax attention, the softmax in float32.

    Args:
      queries: float [N, T, Q, D], Q heads.
      keys: float [N, K, D, C], K heads, K divides Q.
      values: float [N, K, C, D].
      mask: bool [N or 1, T, C]; which keys a query sees. A query that sees none gets
        finite numbers without meaning, and finite gradients.

    Returns:
      float [N, T, Q, D] of the type of ``values``.
    """
    rows, columns, num_heads, head_size = queries.shape
    grouped = (rows, keys.shape[1], -1)  # the heads of one group below each other
    queries = jnp.swapaxes(queries * head_size**-0.5, 1, 2)
    scores = jnp.matmul(
        queries.reshape(*grouped, head_size), keys, preferred_element_type=jnp.float32
    )
    scores = scores.reshape(rows, num_heads, columns, -1)
    weights = jax.nn.softmax(jnp.where(mask[:, None], scores, _HIDDEN_SCORE), axis=-1)
    weights = weights.astype(values.dtype).reshape(*grouped, values.shape[2])
    mixed = jnp.matmul(weights, values).reshape(rows, num_heads, columns, head_size)
    return jnp.swapaxes(mixed, 1, 2)


def _projection(fan_in, fan_out, scale, config, rngs):
    """A matrix without bias; its entries start with variance ``scale / fan_in``."""
    return nnx.Linear(
        fan_in,
        fan_out,
        use_bias=False,
        dtype=config.dtype,
        param_dtype=config.param_dtype,
        kernel_init=nnx.initializers.variance_scaling(scale, "fan_in", "normal"),
        rngs=rngs,
    )


def _norm(config, rngs):
    return nnx.RMSNorm(
        config.hidden_size,
        epsilon=config.norm_epsilon,
        dtype=config.dtype,
        param_dtype=config.param_dtype,
        rngs=rngs,
    )


class Attention(nnx.Module):
    """Self-attention with one fused matrix for queries, keys and values.

    The columns of that matrix are all query heads, then all key heads, then all value
    heads.
    """

    def __init__(self, config, *, rngs):
        self.config = config
        query_size = config.num_heads * config.head_size
        fused_size = query_size + 2 * config.num_kv_heads * config.head_size
        residual_scale = 0.5 / config.num_layers
        self.qkv = _projection(config.hidden_size, fused_size, 1.0, config, rngs)
        self.out = _projection(
            query_size, config.hidden_size, residual_scale, config, rngs
        )

    def project(self, stream, angles):
        """Queries, keys and values, the latter two as they go into a cache.

        Args:
          stream: float [N * T, H].
          angles: as from ``rotary_angles`` of positions [N, T].

        Returns:
          (queries [N, T, Q, D], keys [N, K, D, T], values [N, K, T, D]); the layout of
          the matrix products in ``attend``, so that a cache is never transposed.
        """
        config = self.config
        rows, columns = angles[0].shape[:2]
        heads = self.qkv(stream).reshape(rows, columns, -1, config.head_size)
        first_value = config.num_heads + config.num_kv_heads
        rotated, values = heads[:, :, :first_value], heads[:, :, first_value:]
        rotated = rotate(rotated, angles)
        queries = rotated[:, :, : config.num_heads]
        keys = rotated[:, :, config.num_heads :]
        return queries, jnp.moveaxis(keys, 1, 3), jnp.swapaxes(values, 1, 2)

    def __call__(self, queries, keys, values, mask):
        """[N, T, Q, D] and C keys and values, mask [N or 1, T, C] -> [N * T, H]."""
        mixed = attend(queries, keys, values, mask)
        return self.out(mixed.reshape(mixed.shape[0] * mixed.shape[1], -1))


class GatedMLP(nnx.Module):
    """``down(silu(gate(x)) * up(x))`` (Shazeer 2020), gate and up in one matrix."""

    def __init__(self, config, *, rngs):
        hidden_size, mlp_size = config.hidden_size, config.mlp_size
        self.gate_up = _projection(hidden_size, 2 * mlp_size, 1.0, config, rngs)
        residual_scale = 0.5 / config.num_layers
        self.down = _projection(mlp_size, hidden_size, residual_scale, config, rngs)

    def __call__(self, stream):
        gate, up = jnp.split(self.gate_up(stream), 2, axis=-1)
        return self.down(jax.nn.silu(gate) * up)


class Block(nnx.Module):
    """Pre-norm residual block: attention, then gated MLP."""

    def __init__(self, config, *, rngs):
        self.attention_norm = _norm(config, rngs)
        self.attention = Attention(config, rngs=rngs)
        self.mlp_norm = _norm(config, rngs)
        self.mlp = GatedMLP(config, rngs=rngs)

    def project(self, stream, angles):
        """The first half: queries, keys and values of the normed stream."""
        return self.attention.project(self.attention_norm(stream), angles)

    def finish(self, stream, queries, keys, values, mask):
        """The second half: attend to these keys and values, then the MLP."""
        stream = stream + self.attention(queries, keys, values, mask)
        return stream + self.mlp(self.mlp_norm(stream))


class Decoder(nnx.Module):
    """Embedding, blocks, final norm; and the matrix that reads out tokens.

    The residual stream is flat, [N * T, H]: the gradient of a projection then contracts
    one axis, and XLA need not transpose its operands (a third of the time on a CPU).
    """

    def __init__(self, config, *, rngs):
        self.config = config
        shape = (config.vocabulary_size, config.hidden_size)
        draw = nnx.initializers.normal(config.hidden_size**-0.5)
        self.embedding = nnx.Param(draw(rngs.params(), shape, config.param_dtype))
        self.blocks = nnx.Dict(
            {str(i): Block(config, rngs=rngs) for i in range(config.num_layers)}
        )
        self.final_norm = _norm(config, rngs)
        if not config.tied_embeddings:
            self.unembedding = nnx.Param(draw(rngs.params(), shape, config.param_dtype))

    def __call__(self, tokens, positions, mask, read_column=None):
        """Reads all columns at once.

        Args:
          tokens: int32 [N, T].
          positions: int32 [N, T].
          mask: bool [N or 1, T, T].
          read_column: int32 [N], or None; finish only this column of each row.

        Returns:
          (hidden [N, T, H], or [N, H] of ``read_column``; the cache, per layer
          (keys [N, K, D, T], values [N, K, T, D])).
        """
        stream, angles = self._start(tokens, positions)
        cache = []
        for layer in range(self.config.num_layers):
            block = self.blocks[str(layer)]
            queries, keys, values = block.project(stream, angles)
            cache.append((keys, values))
            if layer + 1 == self.config.num_layers and read_column is not None:
                stream = _pick(stream.reshape(*tokens.shape, -1), read_column)[:, 0]
                queries = _pick(queries, read_column)
                mask = _pick(
                    jnp.broadcast_to(mask, keys.shape[:1] + mask.shape[1:]), read_column
                )
            stream = block.finish(stream, queries, keys, values, mask)
        shape = tokens.shape if read_column is None else tokens.shape[:1]
        return self.final_norm(stream).reshape(*shape, -1), tuple(cache)

    def extend(self, tokens, positions, mask, cache, column):
        """Reads one token per row, [N, 1], after what is in the cache.

        Args:
          tokens: int32 [N, 1].
          positions: int32 [N, 1].
          mask: bool [N, 1, C].
          cache: per layer (keys [N, K, D, C], values [N, K, C, D]).
          column: int32 []; the column of the cache to write, one for all rows: that is
            a copy of a slice, where a column per row would be a scatter.

        Returns:
          (hidden [N, H], the cache).
        """
        stream, angles = self._start(tokens, positions)
        extended = []
        for layer, (keys, values) in enumerate(cache):
            block = self.blocks[str(layer)]
            queries, key, value = block.project(stream, angles)
            keys = jax.lax.dynamic_update_slice_in_dim(keys, key, column, axis=3)
            values = jax.lax.dynamic_update_slice_in_dim(values, value, column, axis=2)
            extended.append((keys, values))
            stream = block.finish(stream, queries, keys, values, mask)
        return self.final_norm(stream), tuple(extended)

    def _start(self, tokens, positions):
        """The stream [N * T, H] before the first block, and the rotary angles."""
        config = self.config
        stream = jnp.take(self.embedding[...], tokens.reshape(-1), axis=0, mode="clip")
        size, theta = config.head_size, config.rope_theta
        angles = rotary_angles(positions, head_size=size, theta=theta)
        return stream.astype(config.dtype), angles


def _pick(values, column):
    """[N, T, ...] and a column per row [N] -> [N, 1, ...]."""
    index = jnp.expand_dims(column, tuple(range(1, values.ndim)))
    return jnp.take_along_axis(values, index, axis=1)
