"""What public functions ask of their arrays, asserted where these come in.

A spec reads as in the docstrings: ``float [G, S]``, ``bool [..., T]``, ``any [U]``.
Within one call equal letters are equal sizes and "..." are the same leading axes; a
number is a size. A record is asked for its fields, behind the axes that are named:
``StageEvents [U]``. Without this a forgotten ``vmap`` is a baseline over the wrong
axis, [B, 1] beside [B] is [B, B], and a mask of ones and zeros is an index.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo import records
from agentic_grpo.errors import Refused, require

Array = jax.Array | np.ndarray

_KINDS = {"float": float, "int": int, "bool": bool}
_RECORDS: dict[str, type] = {
    cls.__name__: cls
    for cls in (records.StageEvents, records.StageCredit, records.TokenCredit)
}
_SMALLEST_UNIT = {
    "G": "one group: vmap over groups",
    "S": "one episode: vmap over them",
}

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def expects(
    **specs: str,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Decorates a function whose arguments of these names must be of these specs.

    Arguments that are None or left to their default are not looked at. With
    ``chex.disable_asserts()`` nothing is.
    """

    def decorate(function: Callable[Parameters, Result]):
        names = tuple(inspect.signature(function).parameters)
        assert set(specs) <= set(names), (specs, names)

        @functools.wraps(function)
        def checked(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            given = dict(zip(names, args, strict=False)) | kwargs
            check(specs, given)
            return function(*args, **kwargs)

        return checked

    return decorate


def check(specs: Mapping[str, str], arguments: Mapping[str, Any]) -> None:
    """Raises ``Refused`` for the first argument that is not of its spec."""
    sizes: dict[str, Any] = {}
    for name, spec in specs.items():
        if arguments.get(name) is not None:
            for field, value, of_field in _leaves(name, arguments[name], spec):
                _check(field, value, of_field, sizes)


def _leaves(name: str, value: Any, spec: str) -> Iterator[tuple[str, Any, str]]:
    """(name, array, spec) of an array, or of every field of a record."""
    kind, axes = _parse(spec)
    if kind not in _RECORDS:
        yield name, value, spec
        return
    if not isinstance(value, _RECORDS[kind]):
        raise Refused(name, value, f"a {kind}")
    for field, of_field in records.specs_of(_RECORDS[kind]).items():
        of_leaf, inner = _parse(of_field)
        whole = f"{of_leaf} [{', '.join((*axes, *inner))}]"
        yield f"{name}.{field}", getattr(value, field), whole


def check_mask(values: jax.Array, mask: Array | bool) -> None:
    """Raises ``Refused`` unless ``mask`` is bool and of the rank of ``values``, or [].

    Axes of size 1 may broadcast; ranks may not, or [B, 1] beside [B] is [B, B].
    """
    shown = _Words(f"{jnp.result_type(mask)} {[*jnp.shape(mask)]}")
    require(
        jnp.issubdtype(jnp.result_type(mask), jnp.bool_),
        "mask",
        shown,
        "bool (mask.astype(bool))",
    )
    require(
        jnp.ndim(mask) == 0 or not values.shape or jnp.ndim(mask) == values.ndim,
        "mask",
        shown,
        f"of as many axes as the values {[*values.shape]}, or []",
    )


def _check(name: str, value: Any, spec: str, sizes: dict[str, Any]) -> None:
    kind, axes = _parse(spec)
    known = [f"{axis} = {size}" for axis, size in sizes.items() if axis in axes]
    rule = f"{spec} with {', '.join(known)}" if known else spec
    if isinstance(value, bool | int | float):
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        value = np.asarray(float(value) if is_whole and kind == "float" else value)
    if not hasattr(value, "shape"):
        raise Refused(name, value, f"an array, {rule}")
    try:
        if kind in _KINDS:
            chex.assert_type(value, _KINDS[kind])
        chex.assert_shape(value, _expected(axes, value.shape, sizes))
    except AssertionError as error:
        one = _SMALLEST_UNIT.get(axes[0] if axes else "", "")
        if one and value.ndim > len(axes):
            rule = f"{rule}, of {one}"
        raise Refused(name, _Words(f"{value.dtype} {[*value.shape]}"), rule) from error


def _expected(axes: tuple[str, ...], shape: tuple[int, ...], sizes: dict[str, Any]):
    """The shape that the axes stand for; new sizes are taken from ``shape``."""
    if "..." in axes:
        before = axes.index("...")
        after = len(axes) - before - 1
        if len(shape) < before + after:
            return [None] * (before + after)
        free = sizes.setdefault("...", shape[before : len(shape) - after])
        axes = (*axes[:before], *map(str, free), *axes[before + 1 :])
    if len(shape) != len(axes):
        return [None] * len(axes)
    expected = []
    for axis, size in zip(axes, shape, strict=True):
        letter, _, more = axis.partition(" + ")
        if letter.isdigit():
            expected.append(int(letter))
        else:
            expected.append(sizes.setdefault(letter, size) + int(more or 0))
    return expected


@functools.cache
def _parse(spec: str) -> tuple[str, tuple[str, ...]]:
    """``float [..., T]`` -> ("float", ("...", "T"))."""
    kind, _, axes = spec.partition(" ")
    return kind, tuple(axis.strip() for axis in axes.strip("[]").split(",") if axis)


class _Words(str):
    """Text that is shown without quotation marks."""

    def __repr__(self) -> str:
        return str(self)
