"""The parts of a Llama-style decoder: rotary attention, gated MLP, block.

Axis letters: **N** rows, **T** columns of queries, **C** columns of keys, **H** hidden
size, **D** size of a head. Every head of keys and values serves ``num_heads //
num_kv_heads`` consecutive heads of queries (grouped-query attention, Ainslie et al. 2023).
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
      keys: float [N, C, K, D], K heads, K divides Q.
      values: float [N, C, K, D].
      mask: bool [N or 1, T, C]; which keys a query sees. A query that sees none gets
        finite numbers without meaning, and finite gradients.

    Returns:
      float [N, T, Q * D] of the type of ``values``.
    """
    rows, columns, num_heads, head_size = queries.shape
    num_kv_heads = keys.shape[2]
    grouped = (rows, columns, num_kv_heads, num_heads // num_kv_heads, head_size)
    queries = (queries * head_size**-0.5).reshape(grouped)
    scores = jnp.einsum(
        "ntkgd,nckd->nkgtc", queries, keys, preferred_element_type=jnp.float32
    )
    scores = jnp.where(mask[:, None, None], scores, _HIDDEN_SCORE)
    weights = jax.nn.softmax(scores, axis=-1).astype(values.dtype)
    mixed = jnp.einsum("nkgtc,nckd->ntkgd", weights, values)
    return mixed.reshape(rows, columns, num_heads * head_size)


class Projection(nnx.Linear):
    """A matrix without bias whose entries start with the variance ``scale / fan_in``."""

    def __init__(self, fan_in, fan_out, *, scale, config, rngs):
        super().__init__(
            fan_in,
            fan_out,
            use_bias=False,
            dtype=config.dtype,
            param_dtype=config.param_dtype,
            kernel_init=nnx.initializers.variance_scaling(scale, "fan_in", "normal"),
            rngs=rngs,
        )

    def __call__(self, inputs):
        # One matrix product with all leading axes as one: the gradient then contracts
        # one axis, and XLA need not transpose its operands (a quarter of the time).
        flat = super().__call__(inputs.reshape(-1, inputs.shape[-1]))
        return flat.reshape(*inputs.shape[:-1], -1)


def _norm(config, rngs):
    return nnx.RMSNorm(
        config.hidden_size,
        epsilon=config.norm_epsilon,
        dtype=config.dtype,
        param_dtype=config.param_dtype,
        rngs=rngs,
    )


class Attention(nnx.Module):
    """Causal self-attention with one fused matrix for queries, keys and values.

    The columns of that matrix are ``[all query heads | all key heads | all value heads]``.
    """

    def __init__(self, config, *, rngs):
        self.config = config
        query_size = config.num_heads * config.head_size
        fused_size = query_size + 2 * config.num_kv_heads * config.head_size
        hidden_size, residual_scale = config.hidden_size, 0.5 / config.num_layers
        self.qkv = Projection(
            hidden_size, fused_size, scale=1.0, config=config, rngs=rngs
        )
        self.out = Projection(
            query_size, hidden_size, scale=residual_scale, config=config, rngs=rngs
        )

    def project(self, inputs, angles):
        """[N, T, H] -> queries [N, T, Q, D], keys and values [N, T, K, D]."""
        config = self.config
        heads = self.qkv(inputs).reshape(*inputs.shape[:-1], -1, config.head_size)
        turned = config.num_heads + config.num_kv_heads
        queries_keys = rotate(heads[..., :turned, :], angles)
        queries = queries_keys[..., : config.num_heads, :]
        keys = queries_keys[..., config.num_heads :, :]
        return queries, keys, heads[..., turned:, :]

    def __call__(self, inputs, angles, mask):
        """Attends among the columns of ``inputs`` [N, T, H]; also the keys and values."""
        queries, keys, values = self.project(inputs, angles)
        return self.out(attend(queries, keys, values, mask)), (keys, values)

    def extend(self, inputs, angles, mask, cache, column):
        """One new column [N, 1, H], written at ``column`` of the cache [N, C, K, D]."""
        queries, *new = self.project(inputs, angles)
        keys, values = (
            jax.lax.dynamic_update_slice_in_dim(old, entry, column, axis=1)
            for old, entry in zip(cache, new, strict=True)
        )
        return self.out(attend(queries, keys, values, mask)), (keys, values)


class GatedMLP(nnx.Module):
    """``down(silu(gate(x)) * up(x))`` (Shazeer 2020), gate and up in one matrix."""

    def __init__(self, config, *, rngs):
        hidden_size, mlp_size = config.hidden_size, config.mlp_size
        self.gate_up = Projection(
            hidden_size, 2 * mlp_size, scale=1.0, config=config, rngs=rngs
        )
        residual_scale = 0.5 / config.num_layers
        self.down = Projection(
            mlp_size, hidden_size, scale=residual_scale, config=config, rngs=rngs
        )

    def __call__(self, inputs):
        gate, up = jnp.split(self.gate_up(inputs), 2, axis=-1)
        return self.down(jax.nn.silu(gate) * up)


class Block(nnx.Module):
    """Pre-norm residual block: attention, then gated MLP."""

    def __init__(self, config, *, rngs):
        self.attention_norm = _norm(config, rngs)
        self.attention = Attention(config, rngs=rngs)
        self.mlp_norm = _norm(config, rngs)
        self.mlp = GatedMLP(config, rngs=rngs)

    def __call__(self, inputs, angles, mask):
        mixed, cache = self.attention(self.attention_norm(inputs), angles, mask)
        inputs = inputs + mixed
        return inputs + self.mlp(self.mlp_norm(inputs)), cache

    def extend(self, inputs, angles, mask, cache, column):
        normed = self.attention_norm(inputs)
        mixed, cache = self.attention.extend(normed, angles, mask, cache, column)
        inputs = inputs + mixed
        return inputs + self.mlp(self.mlp_norm(inputs)), cache


class Decoder(nnx.Module):
    """Embedding, blocks, final norm; and the matrix that reads out tokens."""

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

    def _start(self, tokens, positions):
        config = self.config
        inputs = jnp.take(self.embedding[...], tokens, axis=0, mode="clip")
        angles = rotary_angles(
            positions, head_size=config.head_size, theta=config.rope_theta
        )
        return inputs.astype(config.dtype), angles

    def __call__(self, tokens, positions, mask):
        """[N, T] each, mask [N or 1, T, T] -> hidden [N, T, H], caches per layer."""
        hidden, angles = self._start(tokens, positions)
        caches = []
        for i in range(self.config.num_layers):
            hidden, cache = self.blocks[str(i)](hidden, angles, mask)
            caches.append(cache)
        return self.final_norm(hidden), tuple(caches)

    def extend(self, tokens, positions, mask, caches, column):
        """One new column [N, 1]; mask [N, 1, C] -> hidden [N, 1, H], caches."""
        hidden, angles = self._start(tokens, positions)
        extended = []
        for i, cache in enumerate(caches):
            hidden, cache = self.blocks[str(i)].extend(
                hidden, angles, mask, cache, column
            )
            extended.append(cache)
        return self.final_norm(hidden), tuple(extended)
