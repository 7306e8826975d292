"""The parts of a Llama-style decoder: rotary attention, gated MLP, block.

Axis letters: **N** rows, **T** columns of queries, **C** columns of keys, **H** hidden
size, **Q** heads of queries, **K** heads of keys and values, **D** size of a head.
Every head of keys and values serves Q // K consecutive heads of queries (grouped-query
attention, Ainslie et al. 2023).
"""

import jax
import jax.numpy as jnp
from flax import nnx

from agentic_grpo.models import adapters
from agentic_grpo.models.attention import attend, rotary_angles, rotate


def _projection(name, fan_in, fan_out, scale, config, rngs, adapter, *, use_bias=False):
    """A matrix whose entries start with variance ``scale / fan_in``."""
    options = {
        "use_bias": use_bias,
        "dtype": config.dtype,
        "param_dtype": config.param_dtype,
        "kernel_init": nnx.initializers.variance_scaling(scale, "fan_in", "normal"),
        "rngs": rngs,
    }
    if adapter is None or name not in adapter.targets:
        return nnx.Linear(fan_in, fan_out, **options)
    return AdaptedLinear(fan_in, fan_out, adapter=adapter, **options)


class AdaptedLinear(nnx.Linear):
    """A matrix with a low-rank change beside it; see ``adapters``."""

    def __init__(self, fan_in, fan_out, *, adapter, **options):
        super().__init__(fan_in, fan_out, **options)
        shapes = {adapters.IN: (fan_in, adapter.rank)}
        shapes[adapters.OUT] = (adapter.rank, fan_out)
        for name, shape in shapes.items():
            setattr(self, name, nnx.Param(jnp.zeros(shape, options["param_dtype"])))
        self.adapter = adapter

    def __call__(self, stream):
        reduced = stream @ self.adapter_in[...].astype(stream.dtype)
        change = reduced @ self.adapter_out[...].astype(stream.dtype)
        return super().__call__(stream) + self.adapter.scale * change


def _norm(size, config, rngs):
    return nnx.RMSNorm(
        size,
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

    def __init__(self, config, *, rngs, adapter=None):
        self.config = config
        query_size = config.num_heads * config.head_size
        fused_size = query_size + 2 * config.num_kv_heads * config.head_size
        residual_scale = 0.5 / config.num_layers
        self.qkv = _projection(
            "qkv",
            config.hidden_size,
            fused_size,
            1.0,
            config,
            rngs,
            adapter,
            use_bias=config.attention_bias,
        )
        self.out = _projection(
            "out", query_size, config.hidden_size, residual_scale, config, rngs, adapter
        )
        if config.qk_norm:
            self.query_norm = _norm(config.head_size, config, rngs)
            self.key_norm = _norm(config.head_size, config, rngs)

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
        if config.qk_norm:
            queries, keys = jnp.split(rotated, [config.num_heads], axis=2)
            rotated = [self.query_norm(queries), self.key_norm(keys)]
            rotated = jnp.concatenate(rotated, axis=2)
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

    def __init__(self, config, *, rngs, adapter=None):
        hidden_size, mlp_size = config.hidden_size, config.mlp_size
        rest = config, rngs, adapter
        self.gate_up = _projection("gate_up", hidden_size, 2 * mlp_size, 1.0, *rest)
        residual_scale = 0.5 / config.num_layers
        self.down = _projection("down", mlp_size, hidden_size, residual_scale, *rest)

    def __call__(self, stream):
        gate, up = jnp.split(self.gate_up(stream), 2, axis=-1)
        return self.down(jax.nn.silu(gate) * up)


class Block(nnx.Module):
    """Pre-norm residual block: attention, then gated MLP."""

    def __init__(self, config, *, rngs, adapter=None):
        self.attention_norm = _norm(config.hidden_size, config, rngs)
        self.attention = Attention(config, rngs=rngs, adapter=adapter)
        self.mlp_norm = _norm(config.hidden_size, config, rngs)
        self.mlp = GatedMLP(config, rngs=rngs, adapter=adapter)

    def project(self, stream, angles):
        """The first half: queries, keys and values of the normed stream."""
        return self.attention.project(self.attention_norm(stream), angles)

    def finish(self, stream, queries, keys, values, mask):
        """The second half: attend to these keys and values, then the MLP."""
        stream = stream + self.attention(queries, keys, values, mask)
        return stream + self.mlp(self.mlp_norm(stream))

    def __call__(self, stream, angles, mask):
        return self.finish(stream, *self.project(stream, angles), mask)


class Decoder(nnx.Module):
    """Embedding, blocks, final norm; and the matrix that reads out tokens.

    The residual stream is flat, [N * T, H]: the gradient of a projection then contracts
    one axis, and XLA need not transpose its operands (a third of the time on a CPU).
    """

    def __init__(self, config, *, rngs, adapter=None):
        self.config = config
        shape = (config.vocabulary_size, config.hidden_size)
        draw = nnx.initializers.normal(config.hidden_size**-0.5)
        self.embedding = nnx.Param(draw(rngs.params(), shape, config.param_dtype))
        self.blocks = nnx.Dict(
            {
                str(i): Block(config, rngs=rngs, adapter=adapter)
                for i in range(config.num_layers)
            }
        )
        self.final_norm = _norm(config.hidden_size, config, rngs)
        if not config.tied_embeddings:
            self.unembedding = nnx.Param(draw(rngs.params(), shape, config.param_dtype))

    def read(self, tokens, positions, mask, columns=None):
        """Reads all columns at once, and keeps no cache.

        Args:
          tokens: int32 [N, T].
          positions: int32 [N, T].
          mask: bool [N or 1, T, T].
          columns: int [K], static; finish only these columns of every row. None: all.

        Returns:
          float [N, T, H], or [N, K, H] with ``columns``.
        """
        stream, angles = self._start(tokens, positions)
        *body, last = (self.blocks[str(i)] for i in range(self.config.num_layers))
        through = _scan if self.config.layers == "scanned" else _unroll
        stream = through(body, stream, angles, mask)
        queries, keys, values = last.project(stream, angles)
        if columns is not None:
            stream = stream.reshape(*tokens.shape, -1)[:, columns]
            stream = stream.reshape(-1, stream.shape[-1])
            queries, mask = queries[:, columns], mask[:, columns]
        stream = last.finish(stream, queries, keys, values, mask)
        width = tokens.shape[1] if columns is None else len(columns)
        return self.final_norm(stream).reshape(tokens.shape[0], width, -1)

    def __call__(self, tokens, positions, mask, read_column=None, before=None):
        """Reads all columns at once.

        Args:
          tokens: int32 [N, T].
          positions: int32 [N, T].
          mask: bool [N or 1, T, C]; C = T and the columns of ``before``.
          read_column: int32 [N], or None; finish only this column of each row.
          before: a cache of what stands before these columns, or None.

        Returns:
          (hidden [N, T, H], or [N, H] of ``read_column``; the cache, per layer
          (keys [N, K, D, C], values [N, K, C, D])).
        """
        stream, angles = self._start(tokens, positions)
        cache = []
        for layer in range(self.config.num_layers):
            block = self.blocks[str(layer)]
            queries, keys, values = block.project(stream, angles)
            if before is not None:
                keys = jnp.concatenate([before[layer][0], keys], axis=3)
                values = jnp.concatenate([before[layer][1], values], axis=2)
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
        angles = rotary_angles(
            positions,
            head_size=config.head_size,
            theta=config.rope_theta,
            scaling=config.rope_scaling,
        )
        return stream.astype(config.dtype), angles


def _unroll(blocks, stream, angles, mask):
    for block in blocks:
        stream = block(stream, angles, mask)
    return stream


def _scan(blocks, stream, angles, mask):
    """As ``_unroll``, one compiled block in a loop that keeps no activations."""
    if not blocks:
        return stream
    graph = nnx.graphdef(blocks[0])
    states = [nnx.to_pure_dict(nnx.state(block)) for block in blocks]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)

    @jax.checkpoint
    def step(stream, state):
        return nnx.merge(graph, state)(stream, angles, mask), None

    return jax.lax.scan(step, stream, stacked)[0]


def _pick(values, column):
    """[N, T, ...] and a column per row [N] -> [N, 1, ...]."""
    index = jnp.expand_dims(column, tuple(range(1, values.ndim)))
    return jnp.take_along_axis(values, index, axis=1)
