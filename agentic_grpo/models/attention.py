"""Rotary positions and softmax attention over a few masked keys.

Axis letters: **N** rows, **T** columns of queries, **C** columns of keys, **Q** heads
of queries, **K** heads of keys and values, **D** size of a head.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.errors import require

#: Stands for minus infinity among attention scores. It is finite on purpose: a row
#: that sees nothing (padding) then gets uniform weights instead of 0 / 0.
_HIDDEN_SCORE = -1e30


@dataclasses.dataclass(frozen=True, kw_only=True)
class RopeScaling:
    """Slower rotations, for texts longer than those first trained on (Llama 3.1).

    A pair that turns less than ``low_turns`` times within ``original_length`` tokens
    turns ``factor`` times slower; one that turns more than ``high_turns`` times stays;
    between them the frequency is interpolated, linearly in the number of turns.

    Attributes:
      factor: at least 1.
      low_turns: published as ``low_freq_factor``.
      high_turns: published as ``high_freq_factor``; above ``low_turns``.
      original_length: tokens; ``original_max_position_embeddings``.
    """

    factor: float
    low_turns: float
    high_turns: float
    original_length: int

    def __post_init__(self):
        finite = 1.0 <= self.factor < float("inf")
        require(finite, "factor", self.factor, "at least 1 and finite")
        require(
            0.0 < self.low_turns < self.high_turns < float("inf"),
            "high_turns",
            self.high_turns,
            f"finite and above low_turns={self.low_turns!r}, which must be positive",
        )
        require(
            0 < self.original_length < float("inf"),
            "original_length",
            self.original_length,
            "positive and finite",
        )


def rope_divisors(scaling, *, head_size, theta):
    """By how much ``scaling`` divides the frequency of each pair: float64 [D / 2]."""
    turns_per_token = theta ** -(np.arange(0, head_size, 2) / head_size) / (2 * np.pi)
    turns = scaling.original_length * turns_per_token
    span = scaling.high_turns - scaling.low_turns
    kept = np.clip((turns - scaling.low_turns) / span, 0.0, 1.0)
    return 1.0 / (kept + (1.0 - kept) / scaling.factor)


def rotary_angles(positions, *, head_size, theta, scaling=None):
    """Cosines and signed sines by which a position turns the halves of a head.

    Pair (d, d + D / 2) turns by ``position * theta ** (-2 d / D)`` (Su et al. 2021).

    Args:
      positions: int [..., T].
      head_size: D, even.
      theta: base of the wavelengths.
      scaling: a ``RopeScaling``; None: none.

    Returns:
      Two float32 [..., T, 1, D], to be broadcast over heads: cosines; and sines,
      negative on the first half.
    """
    exponents = jnp.arange(0, head_size, 2, dtype=jnp.float32) / head_size
    frequencies = theta**-exponents
    if scaling is not None:
        divisors = rope_divisors(scaling, head_size=head_size, theta=theta)
        frequencies = frequencies / jnp.asarray(divisors, jnp.float32)
    positions = positions.astype(jnp.float32)
    angles = jnp.einsum("...t,d->...td", positions, frequencies)
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
