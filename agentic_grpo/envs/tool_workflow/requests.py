"""Requests: what a record needs, and the two calls that do it.

A request names two slots x and y and a digit k. The calls are the same for every
record; only ``fix`` asks for a constant.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.envs.tool_workflow.tools import NUM_SLOTS, Tool

#: Calls of a part, the answer to one request.
CALLS_PER_PART = 2

#: The multiplier of ``triple``; prime to 10, so that it loses nothing.
MULTIPLIER = 3


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of request.

    Attributes:
      tool: of the first call, on x; its argument is y, k, or the multiplier.
      adds_to_x: the second call adds k to x; otherwise to y.
      links: it moves something from one slot to another.
    """

    tool: Tool
    adds_to_x: bool = False
    links: bool = True


KINDS: dict[str, Kind] = {
    "raise": Kind(Tool.ADD, links=False),  # x + k, y + k
    "fix": Kind(Tool.SET, links=False),  # k, y + k
    "triple": Kind(Tool.SCALE, links=False),  # 3 x, y + k
    "exchange": Kind(Tool.SWAP, adds_to_x=True),  # y + k, x
    "derive": Kind(Tool.COPY),  # y, y + k
    "order": Kind(Tool.SORT),  # min, max + k
    "fold": Kind(Tool.MIX),  # x + y, y + k
}

#: Ordered pairs of two different slots.
PAIRS = np.array(
    [(x, y) for x in range(NUM_SLOTS) for y in range(NUM_SLOTS) if x != y], np.int32
)

LINKS = np.array([kind.links for kind in KINDS.values()])


def calls_for(kind: jax.Array, x: jax.Array, y: jax.Array, k: jax.Array) -> jax.Array:
    """int32 [..., 2, 3]: the calls that answer requests; all arguments int32 [...]."""
    kinds = KINDS.values()
    tool = jnp.asarray([each.tool for each in kinds], jnp.int32)[kind]
    adds_to_x = jnp.asarray([each.adds_to_x for each in kinds])[kind]
    argument = jnp.where((tool == Tool.SET) | (tool == Tool.ADD), k, y)
    argument = jnp.where(tool == Tool.SCALE, MULTIPLIER, argument)
    first = jnp.stack([tool, x, argument], axis=-1)
    add = jnp.full_like(tool, Tool.ADD)
    second = jnp.stack([add, jnp.where(adds_to_x, x, y), k], axis=-1)
    return jnp.stack([first, second], axis=-2)
