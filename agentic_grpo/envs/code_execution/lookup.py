"""Looking things up: in the last axis of [N, G, columns], and in static tables."""

import jax
import jax.numpy as jnp
import numpy as np


def numbers(count: int) -> jax.Array:
    """int32 [1, 1, count]: 0 .. count - 1."""
    return jnp.arange(count, dtype=jnp.int32)[None, None]


def before(mask: jax.Array) -> jax.Array:
    """int32 [N, G]: columns before the first true one; all of them if there is none."""
    unreached = jnp.cumsum(mask.astype(jnp.int32), axis=-1) == 0
    return jnp.sum(unreached, axis=-1, dtype=jnp.int32)


def pick(values: jax.Array, index: jax.Array) -> jax.Array:
    """[N, G]: the entry ``index`` [N, G] of values [N, G, J] (or [N, 1, J])."""
    chosen = numbers(values.shape[-1]) == index[..., None]
    return jnp.sum(jnp.where(chosen, values, 0), axis=-1, dtype=values.dtype)


def rows(table: np.ndarray | jax.Array, index: jax.Array) -> jax.Array:
    """[..., *tail]: rows of a table [I, *tail], which the index lies in."""
    return jnp.asarray(table).at[index].get(mode="clip")
