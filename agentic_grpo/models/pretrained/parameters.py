"""Published tensors to a parameter tree and back; every one has exactly one place."""

import dataclasses
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.models.pretrained.architectures import (
    Format,
    is_matrix,
    parts_of_leaf,
)
from agentic_grpo.models.transformer import Transformer


@dataclasses.dataclass(frozen=True)
class Stored:
    """A tensor in a file, not read yet.

    Attributes:
      shape: as published.
      read: () -> numpy array of that shape and a floating type.
    """

    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]


def check(config, stored: Mapping[str, Stored], form: Format) -> None:
    """Whether every place has its tensor, and every tensor its place.

    Raises:
      ValueError: a tensor is missing, has no place, or another shape than its place.
    """
    wanted = {
        part.name: part.shape
        for path, leaf in jax.tree_util.tree_leaves_with_path(_shapes(config))
        for part in parts_of_leaf(config, _name(path), leaf.shape, form)
    }
    missing = [name for name in wanted if name not in stored]
    if missing:
        raise ValueError(f"it lacks the tensors {_list(missing)}")
    homeless = [name for name in stored if name not in wanted]
    if homeless:
        raise ValueError(
            f"the tensors {_list(homeless)} have no place in a decoder of this config"
        )
    for name, shape in wanted.items():
        if stored[name].shape != shape:
            raise ValueError(
                f"the shape of {name}, {stored[name].shape}, must be {shape} by the "
                "config"
            )


def fill(config, stored: Mapping[str, Stored], form: Format):
    """The parameter tree, of ``config.param_dtype``, of what passed ``check``."""

    def read(path, leaf):
        name = _name(path)
        arrays = [
            stored[part.name].read()
            for part in parts_of_leaf(config, name, leaf.shape, form)
        ]
        arrays = [array.T if is_matrix(name) else array for array in arrays]
        arrays = [array.astype(leaf.dtype) for array in arrays]
        return jnp.asarray(np.concatenate(arrays, axis=-1))

    return jax.tree_util.tree_map_with_path(read, _shapes(config))


def take_apart(config, params) -> dict[str, np.ndarray]:
    """The reverse of ``fill``, under the names of Hugging Face.

    Raises:
      ValueError: the tree is not one of ``config``.
    """
    _check_tree(config, params)
    arrays = {}

    def write(path, leaf):
        name, leaf = _name(path), np.asarray(leaf)
        parts = parts_of_leaf(config, name, leaf.shape, Format.HUGGING_FACE)
        axis = 0 if is_matrix(name) else -1
        ends = np.cumsum([part.shape[axis] for part in parts])[:-1]
        for part, array in zip(parts, np.split(leaf, ends, axis=-1), strict=True):
            # A view with other strides would be written as it lies in memory.
            arrays[part.name] = np.ascontiguousarray(
                array.T if is_matrix(name) else array
            )

    jax.tree_util.tree_map_with_path(write, params)
    return arrays


def _shapes(config):
    return jax.eval_shape(lambda: Transformer(config).init(jax.random.key(0)))


def _name(path):
    return "/".join(key.key for key in path)


def _check_tree(config, params):
    wanted, given = (
        {
            _name(path): leaf.shape
            for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
        }
        for tree in (_shapes(config), params)
    )
    for name in wanted | given:
        if wanted.get(name) != given.get(name):
            raise ValueError(
                f"params: the shape of {name}, {given.get(name)}, must be "
                f"{wanted.get(name)} by the config (None: absent)"
            )


def _list(names, most=4):
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
