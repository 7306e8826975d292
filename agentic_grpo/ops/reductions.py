"""Reductions that stay a sum and a count until the last moment.

Only so do uneven masks, microbatches and devices agree: averaging per-part averages
weights a part with one token like a part with a thousand.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from agentic_grpo.ops.doors import Array, check_mask


class Mean(NamedTuple):
    """A mean that is not divided yet.

    Attributes:
      total: float; sum of the values.
      count: float; how many there were (or the constant to divide by).
    """

    total: jax.Array
    count: jax.Array  # type: ignore[assignment]  # hides tuple.count

    def over(self, axis_name: str | None = None) -> jax.Array:
        """total / count over the devices of ``axis_name``; 0 where nothing was counted.

        For values and statistics only. Never differentiate through it under an axis
        name: differentiate the local total, then ``psum`` gradients and counts.
        """
        total, number = sum_over_devices(self, axis_name)
        some = number > 0
        return jnp.where(some, total / jnp.where(some, number, 1.0), 0.0)

    def plus(self, other: "Mean") -> "Mean":
        """The mean over both parts (a tuple's ``+`` would concatenate)."""
        return Mean(self.total + other.total, self.count + other.count)


class WeightMoments(NamedTuple):
    """What the effective sample size of weights is made of; adds up over parts.

    Attributes:
      total: float; Σw.
      square: float; Σw².
      count: float; how many weights there were.
    """

    total: jax.Array
    square: jax.Array
    count: jax.Array  # type: ignore[assignment]  # hides tuple.count

    def over(self, axis_name: str | None = None) -> jax.Array:
        """(Σw)² / (n Σw²) in [0, 1], over the devices of ``axis_name``; 0 for none."""
        total, square, number = sum_over_devices(self, axis_name)
        some = (number > 0) & (square > 0.0)
        return jnp.where(some, total**2 / jnp.where(some, number * square, 1.0), 0.0)


#: A sum that is divided at the end.
Reduction = Mean | WeightMoments


def is_reduction(value: Any) -> bool:
    """Is this a ``Mean`` or ``WeightMoments``?"""
    return isinstance(value, Reduction)


def sum_over_devices(tree: Any, axis_name: str | None) -> Any:
    """Sums every leaf over the devices of ``axis_name``; None: there is one."""
    return tree if axis_name is None else jax.lax.psum(tree, axis_name)


def count(mask: Array) -> jax.Array:
    """How many of bool [...] are True: int32 []."""
    return jnp.sum(mask, dtype=jnp.int32)


def at_least_float32(values: Array | float) -> jax.Array:
    """float32, or wider if it came wider: what sums and exponentials are taken in."""
    values = jnp.asarray(values)
    is_wide = values.dtype == jnp.float64
    return values if is_wide else values.astype(jnp.float32)


def masked(values: Array | float, mask: Array | bool) -> jax.Array:
    """``values`` where ``mask``, else 0. Never ``values * mask``: inf * 0 is NaN.

    Axes of size 1 broadcast, and so do scalars; the result is float32 or wider.
    """
    values = at_least_float32(values)
    check_mask(values, mask)
    return jnp.where(mask, values, 0.0)


def square_root(values: Array) -> jax.Array:
    """√x, with slope 0 where x is 0: the infinite one times a cotangent of 0 is NaN."""
    positive = values > 0.0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, values, 1.0)), 0.0)


def masked_sum(
    values: Array, mask: Array, axis: int | tuple[int, ...] | None = None
) -> jax.Array:
    """Sum over ``axis`` (all of them by default) of the values [...] where ``mask``."""
    return jnp.sum(masked(values, mask), axis=axis)


def masked_mean(
    values: Array, mask: Array, axis: int | tuple[int, ...] | None = None
) -> Mean:
    """``Mean`` over ``axis`` (all by default) of the values [...] where ``mask``."""
    values = masked(values, mask)
    mask = jnp.broadcast_to(mask, values.shape)
    return Mean(
        jnp.sum(values, axis=axis), jnp.sum(mask, axis=axis, dtype=values.dtype)
    )
