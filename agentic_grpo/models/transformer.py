"""A causal decoder of the Llama family as pure functions of a parameter tree.

RoPE, RMSNorm, gated SiLU MLP, grouped-query attention, tied or separate embeddings; as
options what Llama 3.1, Qwen 2 and Qwen 3 add. Flax NNX builds the modules; outside are
only nested dicts of arrays and pure functions of them, so that any optimizer,
checkpoint or transformation applies.

Axis letters: **N** rows, **T** token columns, **C** columns of a cache, **H** hidden
size, **V** vocabulary, **K** heads of keys and values, **D** their size.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from flax import nnx

from agentic_grpo.errors import require, require_choice
from agentic_grpo.models import adapters, layers
from agentic_grpo.models.attention import RopeScaling

LAYERS = ("unrolled", "scanned")

#: Nested, string keys, arrays as leaves; or (trunk, adapter), two of these.
Params = dict | tuple[dict, dict]
Cache = tuple  # per layer: (keys [N, K, D, C], values [N, K, C, D])


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Sizes and types of a decoder. Static; hashable.

    Attributes:
      vocabulary_size: V.
      num_layers: blocks.
      hidden_size: H.
      num_heads: heads of queries.
      num_kv_heads: heads of keys and values; divides ``num_heads``.
      head_size: size of a head, even. ``num_heads * head_size`` need not equal H.
      mlp_size: width of the gated MLP.
      tied_embeddings: read tokens out with the matrix that reads them in.
      attention_bias: add a bias to queries, keys and values (Qwen 2).
      qk_norm: RMSNorm of each head of queries and of keys, before RoPE (Qwen 3).
      rope_theta: base of the rotary wavelengths.
      rope_scaling: slower rotations for long texts (Llama 3.1); None: none.
      norm_epsilon: added to the mean square in RMSNorm.
      dtype: type of the activations; attention's softmax is float32 always.
      param_dtype: type of the parameters.
      layers: how ``hidden`` goes through the blocks, one of ``LAYERS``. ``unrolled``:
        one after the other, fastest. ``scanned``: one compiled block in a loop, its
        activations computed again in the backward pass: a deep model compiles as fast
        as a shallow one and keeps one block's activations, not all, for a third more
        work and a copy of the blocks' parameters. The parameters are the same.
    """

    vocabulary_size: int
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    mlp_size: int
    tied_embeddings: bool = True
    attention_bias: bool = False
    qk_norm: bool = False
    rope_theta: float = 10000.0
    rope_scaling: RopeScaling | None = None
    norm_epsilon: float = 1e-6
    dtype: jax.typing.DTypeLike = jnp.float32
    param_dtype: jax.typing.DTypeLike = jnp.float32
    layers: str = "unrolled"

    def __post_init__(self):
        for name in (
            "vocabulary_size",
            "num_layers",
            "hidden_size",
            "num_heads",
            "num_kv_heads",
            "head_size",
            "mlp_size",
        ):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            require(whole and value >= 1, name, value, "an integer of at least 1")
        require(
            self.num_heads % self.num_kv_heads == 0,
            "num_kv_heads",
            self.num_kv_heads,
            f"a divisor of num_heads={self.num_heads}",
        )
        require_choice("layers", self.layers, LAYERS)
        require(self.head_size % 2 == 0, "head_size", self.head_size, "even for RoPE")
        require(
            isinstance(self.rope_scaling, RopeScaling | None),
            "rope_scaling",
            self.rope_scaling,
            "a RopeScaling or None",
        )
        for name in ("rope_theta", "norm_epsilon"):
            value = getattr(self, name)
            require(0.0 < value < float("inf"), name, value, "positive and finite")
        for name in ("dtype", "param_dtype"):
            # Strings and scalar types become one canonical, hashable numpy dtype.
            value = getattr(self, name)
            try:
                canonical = jnp.dtype(value)
            except TypeError:
                canonical = None
            floating = canonical is not None and jnp.issubdtype(canonical, jnp.floating)
            require(floating, name, value, "a floating type")
            object.__setattr__(self, name, canonical)


def _abstract(config, adapter):
    """The modules without any array; the same for every parameter tree."""

    def build():
        rngs = nnx.Rngs(params=jax.random.key(0))
        return layers.Decoder(config, rngs=rngs, adapter=adapter)

    return nnx.eval_shape(build)


@functools.lru_cache
def _graph(config, adapter):
    return nnx.graphdef(_abstract(config, adapter))


@dataclasses.dataclass(frozen=True)
class Transformer:
    """A decoder. Static and hashable; parameters travel as an argument.

    Attributes:
      config: sizes and types.
      adapter: what a pair of parameters, (trunk, adapter), has besides; None: nothing.
        A trunk alone is read as it is: the adapter is off.
    """

    config: TransformerConfig
    adapter: adapters.Adapter | None = None

    def init(self, key: jax.Array) -> Params:
        """Draws parameters from a typed key; in deep models blocks start smaller."""
        module = layers.Decoder(self.config, rngs=nnx.Rngs(params=key))
        return nnx.to_pure_dict(nnx.state(module))

    def init_adapter(self, key: jax.Array) -> dict:
        """Draws an adapter from a typed key; it changes nothing yet."""
        state = nnx.state(_abstract(self.config, self.adapter))
        shapes = adapters.only_adapter(nnx.to_pure_dict(state))
        return adapters.draw(shapes, key)

    def merge(self, params) -> dict:
        """The parameters of a decoder without an adapter that does the same.

        Raises:
          ValueError: ``params`` is a pair, and the policy has no adapter.
        """
        if not isinstance(params, tuple):
            return params
        if self.adapter is None:
            raise ValueError(
                "params is a pair, (trunk, adapter); this policy has no adapter: give "
                "the trunk alone"
            )
        return adapters.merge(self.adapter, *params)

    def hidden(self, params, tokens, positions, attention_mask, *, columns=None):
        """Final-normed hidden states; column t has read column t and what t may see.

        Args:
          params: as from ``init``.
          tokens: int32 [N, T].
          positions: int32 [N, T]; they need not be columns (padding may lie between).
          attention_mask: bool [N, T, T] or [1, T, T]; ``[n, q, k]``: q may attend to k.
            A row without any True yields finite numbers that mean nothing.
          columns: int [K], static; the columns that are wanted. None: all.

        Returns:
          float [N, T, H] of ``config.dtype``, or [N, K, H] with ``columns``.
        """
        decoder = self._bind(params)
        return decoder.read(tokens, positions, attention_mask, columns)

    def unembedding(self, params) -> jax.Array:
        """The matrix [V, H] whose product with a hidden state gives the logits."""
        trunk = params[0] if isinstance(params, tuple) else params
        return trunk["embedding" if self.config.tied_embeddings else "unembedding"]

    def prefill(
        self,
        params,
        tokens,
        positions,
        attention_mask,
        *,
        read_column=None,
        before=None,
        room=0,
    ):
        """As ``hidden``, and a cache of keys and values for ``extend``.

        Args:
          params, tokens, positions: as in ``hidden``.
          attention_mask: bool [N, T, B + T] or [1, T, B + T].
          read_column: int32 [N], or None; the only column whose hidden state is wanted.
            It spares the others most of the last block.
          before: a cache of B columns that were read already; None: B = 0.
          room: static; empty columns to append to the cache.

        Returns:
          (hidden float [N, T, H], or [N, H] with ``read_column``; the cache, of
          C = B + T + room columns).
        """
        hidden, cache = self._bind(params)(
            tokens, positions, attention_mask, read_column, before
        )
        whole = ((0, 0), (0, 0))
        return hidden, tuple(
            (
                jnp.pad(keys, (*whole, (0, 0), (0, room))),
                jnp.pad(values, (*whole, (0, room), (0, 0))),
            )
            for keys, values in cache
        )

    def extend(self, params, cache, tokens, positions, column, attention_mask):
        """Reads one more token per row and writes its keys and values into the cache.

        Args:
          params: as from ``init``.
          cache: per layer (keys [N, K, D, C], values [N, K, C, D]).
          tokens: int32 [N].
          positions: int32 [N].
          column: int32 []; the column of the cache to write, one for all rows.
          attention_mask: bool [N, C]; the columns to attend to, ``column`` included.

        Returns:
          (hidden float [N, H], the cache with ``column`` written).
        """
        return self._bind(params).extend(
            tokens[:, None], positions[:, None], attention_mask[:, None], cache, column
        )

    def _bind(self, params) -> layers.Decoder:
        if isinstance(params, tuple):
            graph = _graph(self.config, self.adapter)
            return nnx.merge(graph, adapters.join(*params))
        return nnx.merge(_graph(self.config, None), params)
