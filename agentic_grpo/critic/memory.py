"""Settled episodes that a critic learns from: a ring of M episodes in every block."""

from typing import Any

import jax
import jax.numpy as jnp

from agentic_grpo import records
from agentic_grpo.errors import require


@records.record
class Memory:
    """The newest M settled episodes of ONE block; the caller vmaps over blocks.

    Attributes:
      examples: what the critic reads of them, leading axis M.
      verdict: float32 [M], in [0, 1].
      known: bool [M, S]; the member acted in the stage, and its verdict came.
      total: int32 []; how many were ever put in.
    """

    examples: Any
    verdict: jax.Array
    known: jax.Array
    total: jax.Array


def init(examples, *, capacity: int, num_stages: int) -> Memory:
    """An empty memory for examples of these shapes, whose leading axis is dropped."""
    empty = jax.tree.map(
        lambda x: jnp.zeros((capacity, *x.shape[1:]), x.dtype), examples
    )
    return Memory(
        examples=empty,
        verdict=jnp.zeros((capacity,), jnp.float32),
        known=jnp.zeros((capacity, num_stages), bool),
        total=jnp.zeros((), jnp.int32),
    )


def put(memory: Memory, examples, verdict, known) -> Memory:
    """Takes in the episodes [N] of which anything is known, over the oldest ones.

    Args:
      memory: of M episodes, M >= N.
      examples: leading axis N.
      verdict: float [N].
      known: bool [N, S]; an episode without any is left out.

    Raises:
      ValueError: the memory is smaller than what is put in at a time.
    """
    capacity, number = memory.verdict.shape[0], verdict.shape[0]
    rule = f"at least the {number} episodes that can settle in one tick"
    require(capacity >= number, "capacity", capacity, rule)
    taken = jnp.any(known, axis=1)
    rank = jnp.cumsum(taken, dtype=jnp.int32) - 1
    place = jnp.where(taken, (memory.total + rank) % capacity, capacity)

    def write(old, new):
        return old.at[place].set(new, mode="drop")

    return Memory(
        examples=jax.tree.map(write, memory.examples, examples),
        verdict=write(memory.verdict, verdict),
        known=write(memory.known, known),
        total=memory.total + jnp.sum(taken, dtype=jnp.int32),
    )


def draw(memory: Memory, key, number: int):
    """Some episodes, with replacement: (examples, verdict [K], known [K, S]).

    Nothing is known of any while the memory is empty.
    """
    held = jnp.minimum(memory.total, memory.verdict.shape[0])
    index = jax.random.randint(key, (number,), 0, jnp.maximum(held, 1))
    known = memory.known[index] & (held > 0)
    examples = jax.tree.map(lambda x: x[index], memory.examples)
    return examples, memory.verdict[index], known
