"""Low-rank adapters: a trained change of matrices that themselves stay as they are.

    y = x W + (alpha / rank) (x A) B        (Hu et al. 2022, arXiv 2106.09685)

W [in, out] is frozen, A [in, rank] and B [rank, out] are trained. B starts at 0, so the
first policy is the frozen one; read without its adapter, that is the reference of a KL
term for nothing.

Ranks stand side by side in A and B: several adapters on one trunk are one of the sum of
their ranks, of which each token uses its own columns.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp

from agentic_grpo.errors import require

#: The matrices of a block; queries, keys and values are one, and gate and up.
TARGETS = ("qkv", "out", "gate_up", "down")
IN, OUT = "adapter_in", "adapter_out"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adapter:
    """Static choices of an adapter.

    Attributes:
      rank: of the change.
      alpha: its size; the change is divided by the rank, so that it keeps its size.
      targets: of ``TARGETS``.
    """

    rank: int
    alpha: float
    targets: tuple[str, ...] = TARGETS

    def __post_init__(self):
        require(self.rank >= 1, "adapter_rank", self.rank, "at least 1")
        finite = 0.0 < self.alpha < math.inf
        require(finite, "adapter_alpha", self.alpha, "positive and finite")
        once = len(set(self.targets)) == len(self.targets) > 0
        require(
            once and set(self.targets) <= set(TARGETS),
            "adapter_targets",
            self.targets,
            f"some of {', '.join(TARGETS)}, each once",
        )

    @property
    def scale(self) -> float:
        return self.alpha / self.rank


def join(trunk: dict, adapter: dict) -> dict:
    """One tree of the leaves of two."""
    joined = dict(trunk)
    for name, value in adapter.items():
        inner = trunk.get(name, {})
        joined[name] = join(inner, value) if isinstance(value, dict) else value
    return joined


def only_adapter(tree: dict) -> dict:
    """The leaves of a joined tree that are the adapter's."""
    kept = {
        name: only_adapter(value) if isinstance(value, dict) else value
        for name, value in tree.items()
        if isinstance(value, dict) or name in (IN, OUT)
    }
    return {name: value for name, value in kept.items() if not _is_empty(value)}


def merge(adapter: Adapter, trunk: dict, params: dict) -> dict:
    """The trunk with the change in its matrices: a decoder without an adapter.

    Args:
      adapter: static choices.
      trunk: parameters of a ``Transformer``.
      params: of its adapter.
    """
    if IN in params:
        change = adapter.scale * (params[IN] @ params[OUT])
        return {
            **trunk,
            "kernel": trunk["kernel"] + change.astype(trunk["kernel"].dtype),
        }
    return {
        name: merge(adapter, value, params[name]) if name in params else value
        for name, value in trunk.items()
    }


def draw(shapes: dict, key) -> dict:
    """Parameters of an adapter: A normal with variance 1 / in, B zero.

    Args:
      shapes: of ``only_adapter``.
      key: typed.
    """
    leaves = jax.tree_util.tree_leaves_with_path(shapes)
    drawn = []
    for number, (path, leaf) in enumerate(leaves):
        if path[-1].key == OUT:
            drawn.append(jnp.zeros(leaf.shape, leaf.dtype))
            continue
        values = jax.random.normal(jax.random.fold_in(key, number), leaf.shape)
        drawn.append((leaf.shape[0] ** -0.5 * values).astype(leaf.dtype))
    return jax.tree.unflatten(jax.tree.structure(shapes), drawn)


def _is_empty(value):
    return isinstance(value, dict) and not value
