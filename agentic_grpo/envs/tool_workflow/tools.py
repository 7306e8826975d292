"""The tools: what a call does to a record, and what it costs.

A record has four slots that hold digits; all arithmetic is modulo 10. A call is three
numbers: tool, slot, argument. The argument's type, a digit or a slot, is the tool's.
"""

import enum

import jax
import jax.numpy as jnp
import numpy as np

SLOTS = ("a", "b", "c", "d")
NUM_SLOTS = len(SLOTS)
NUM_DIGITS = 10

#: Tokens of a call: tool, slot, argument.
CALL_WIDTH = 3


class Tool(enum.IntEnum):
    """Tools of the agent; x is the slot, k a digit, y another slot."""

    SET = 0  # x := k
    ADD = 1  # x := x + k
    SCALE = 2  # x := x * k
    SWAP = 3  # x, y := y, x
    COPY = 4  # x := y
    MIX = 5  # x := x + y
    SORT = 6  # x, y := min(x, y), max(x, y)


#: Not tools: a call that breaks its types does nothing, and one that is not there.
REFUSED, ABSENT = len(Tool), len(Tool) + 1

TAKES_SLOT = np.array([tool >= Tool.SWAP for tool in Tool])

#: What a call takes from the budget; writing a constant is free.
COSTS = np.array([*(int(tool != Tool.SET) for tool in Tool), 1, 0], np.int32)


def run(calls: jax.Array, records: jax.Array) -> jax.Array:
    """The records after all calls, in order.

    Args:
      calls: int32 [..., J, 3].
      records: int32 [..., R, 4]; each call acts on every record.

    Returns:
      int32 [..., R, 4].
    """

    def step(records, call):
        return apply(call, records), None

    in_order = jnp.moveaxis(calls, -2, 0)
    return jax.lax.scan(step, records, in_order)[0]


def apply(call: jax.Array, records: jax.Array) -> jax.Array:
    """Records int32 [..., R, 4] after one call int32 [..., 3]."""
    tool, x, argument = (call[..., i, None, None] for i in range(CALL_WIDTH))
    slots = jnp.arange(NUM_SLOTS, dtype=jnp.int32)
    slots = slots.reshape((1,) * (records.ndim - 1) + (-1,))
    old = jnp.sum(jnp.where(slots == x, records, 0), axis=-1, keepdims=True)
    other = jnp.sum(jnp.where(slots == argument, records, 0), axis=-1, keepdims=True)
    new_x, new_y = old, other
    for this, value in {
        Tool.SET: argument + jnp.zeros_like(old),
        Tool.ADD: (old + argument) % NUM_DIGITS,
        Tool.SCALE: (old * argument) % NUM_DIGITS,
        Tool.SWAP: other,
        Tool.COPY: other,
        Tool.MIX: (old + other) % NUM_DIGITS,
        Tool.SORT: jnp.minimum(old, other),
    }.items():
        new_x = jnp.where(tool == this, value, new_x)
    new_y = jnp.where(tool == Tool.SWAP, old, new_y)
    new_y = jnp.where(tool == Tool.SORT, jnp.maximum(old, other), new_y)
    writes_y = (tool == Tool.SWAP) | (tool == Tool.SORT)
    after = jnp.where(writes_y & (slots == argument), new_y, records)
    return jnp.where((tool < REFUSED) & (slots == x), new_x, after)


def cost(calls: jax.Array) -> jax.Array:
    """int32 [...]: what calls [..., J, 3] take from the budget."""
    return jnp.sum(jnp.asarray(COSTS)[calls[..., 0]], axis=-1, dtype=jnp.int32)
