"""The leaves of a state by name: into plain arrays and back, with type and checksum.

A leaf is an array of JAX or NumPy, an array of typed keys, or a Python bool, int or
float. Its name is its path within the tree: "state/params/embedding".
"""

import os
import pathlib
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from agentic_grpo.training import whole_files

Leaf = Any
Tree = Any


def named(tree: Tree, part: str = "") -> dict[str, Leaf]:
    """Every leaf by its name, in the order of ``jax.tree.leaves``.

    Args:
      tree: the state, or a part of it.
      part: path of that part within the state.

    Raises:
      ValueError: two leaves share a name, or a leaf is nothing that can be saved.
    """
    root, leaves = f"state/{part}" if part else "state", {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        inner = jax.tree_util.keystr(path, simple=True, separator="/")
        name = f"{root}/{inner}" if path else root
        if name in leaves:
            raise ValueError(f"{name}: two leaves of the state have this name.")
        if not (isinstance(leaf, bool | int | float) or hasattr(leaf, "dtype")):
            raise ValueError(
                f"{name}: {leaf!r}; a leaf must be an array, a bool, an int or a float."
            )
        leaves[name] = leaf
    return leaves


def to_array(leaf: Leaf) -> jax.Array | np.ndarray:
    """The leaf as an array of numbers; typed keys become their data."""
    if _is_key(leaf):
        return jax.random.key_data(leaf)
    return leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)


def describe(leaf: Leaf) -> dict[str, Any]:
    """Type, shape and checksum, as JSON values; the kind of generator for keys."""
    return {
        "type": type_name(leaf),
        "shape": list(np.shape(leaf)),
        "crc32": checksum(to_array(leaf)),
        "key_impl": str(jax.random.key_impl(leaf)) if _is_key(leaf) else None,
    }


def type_name(leaf: Leaf) -> str:
    """ "float32", "key<fry>", "python int" and the like."""
    return (
        str(leaf.dtype) if hasattr(leaf, "dtype") else f"python {type(leaf).__name__}"
    )


def checksum(array: jax.Array | np.ndarray) -> int:
    """CRC-32 of the bytes. Orbax itself does not notice a changed byte of an array.

    Of an array that lies in several processes, all must ask.
    """
    contiguous = np.ascontiguousarray(to_host(array))
    return zlib.crc32(contiguous.reshape(-1).view(np.uint8).data)


def to_host(array: jax.Array | np.ndarray) -> np.ndarray:
    """The whole array; all processes must ask for one that lies in several."""
    if isinstance(array, jax.Array) and not array.is_fully_addressable:
        return multihost_utils.process_allgather(array, tiled=True)
    return jax.device_get(array)


def blank(leaf: Leaf) -> np.ndarray:
    """An array like ``to_array(leaf)``, of any content; the leaf may be abstract."""
    data = jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf
    if not hasattr(data, "dtype"):
        data = np.asarray(data)
    return np.empty(data.shape, data.dtype)


def like(leaf: Leaf, array: np.ndarray, *, key_impl: str | None = None) -> Leaf:
    """The inverse of ``to_array``: the array as a leaf of the kind of ``leaf``.

    The place is kept where the leaf is committed to devices or is abstract with a
    sharding; elsewhere JAX decides, as for any new array.
    """
    if isinstance(leaf, bool | int | float) and not isinstance(leaf, np.generic):
        return type(leaf)(array.item())
    if isinstance(leaf, np.generic):
        return array[()]
    if isinstance(leaf, np.ndarray):
        return array
    free = isinstance(leaf, jax.Array) and not leaf.committed
    return _place(array, None if free else leaf.sharding, key_impl)


def place(leaf: Leaf, sharding) -> jax.Array:
    """The leaf, which every process holds whole, as one array on all their devices."""
    key_impl = str(jax.random.key_impl(leaf)) if _is_key(leaf) else None
    return _place(np.asarray(to_array(leaf)), sharding, key_impl)


def _place(array, sharding, key_impl):
    # Arrays of numbers only: JAX sends no keys to devices of another process.
    placed = jax.device_put(array, sharding)
    return jax.random.wrap_key_data(placed, impl=key_impl) if key_impl else placed


def dump(tree: Tree, path: str | os.PathLike) -> None:
    """Writes the leaves of any tree to one .npz file, to be inspected with ``np.load``.

    Types that NumPy does not know (bfloat16) become float32; there is no pickle. The
    file appears under its name when it is complete.
    """
    arrays: dict[str, Any] = {}  # NumPy's stub has them as its own arguments too
    for name, leaf in named(tree).items():
        array = np.asarray(to_host(to_array(leaf)))
        arrays[name] = array.astype(np.float32) if array.dtype.kind == "V" else array
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_files.replacing(path, "wb") as file:
        np.savez_compressed(file, **arrays)


def _is_key(leaf: Leaf) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
