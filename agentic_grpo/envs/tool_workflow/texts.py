"""What the agent wrote, read token by token; any ids whatever are readable."""

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo import records
from agentic_grpo.envs.tool_workflow import tools, vocabulary
from agentic_grpo.envs.tool_workflow.requests import CALLS_PER_PART

PART_WIDTH = CALLS_PER_PART * tools.CALL_WIDTH

NO_ROUTE = -1


@records.record
class Text:
    """The text of one stage, END and what follows it cut off.

    Attributes:
      tokens: int32 [N, G, A].
      length: int32 [N, G]; real tokens.
    """

    tokens: jax.Array
    length: jax.Array


def read(tokens: jax.Array, mask: jax.Array, width: jax.Array) -> Text:
    """Cuts a text at END, at the first column outside the mask, and at the width.

    Args:
      tokens: int32 [N, G, A].
      mask: bool [N, G, A].
      width: int32 [N]; action columns of each lane's stage.
    """
    column = jnp.arange(tokens.shape[-1], dtype=jnp.int32)[None, None]
    stops = ~mask | (tokens == vocabulary.END) | (column >= width[:, None, None])
    length = jnp.sum(jnp.cumsum(stops, axis=-1) == 0, axis=-1, dtype=jnp.int32)
    return Text(tokens=tokens, length=length)


def is_submission(text: Text) -> jax.Array:
    """bool [N, G]: the one token ``submit`` and nothing else."""
    return (text.length == 1) & (text.tokens[..., 0] == vocabulary.SUBMIT)


def as_route(text: Text) -> jax.Array:
    """int32 [N, G]: the route that a text names by its one token, or NO_ROUTE."""
    route = text.tokens[..., 0] - vocabulary.FIRST_ROUTE
    names_one = (text.length == 1) & (route >= 0) & (route < len(vocabulary.ROUTES))
    return jnp.where(names_one, route, NO_ROUTE)


def as_part(text: Text) -> jax.Array:
    """int32 [N, G]: the part that a text of several tokens names first, from 0.

    MAX_PARTS, one more than there can be, if it names none.
    """
    part = text.tokens[..., 0] - vocabulary.FIRST_PART
    names_one = (text.length > 1) & (part >= 0) & (part < vocabulary.MAX_PARTS)
    return jnp.where(names_one, part, vocabulary.MAX_PARTS)


def as_digits(text: Text, count: int) -> tuple[jax.Array, jax.Array]:
    """The first tokens as digits int32 [N, G, count]; and bool [N, G], are they that?

    True if the text is so many digits and nothing else.
    """
    digits = text.tokens[..., :count] - vocabulary.FIRST_NUMBER
    known = jnp.all((digits >= 0) & (digits < tools.NUM_DIGITS), axis=-1)
    return digits, known & (text.length == count)


def as_calls(text: Text, first: int) -> jax.Array:
    """int32 [N, G, 2, 3]: the calls from column ``first`` on.

    A call that is incomplete or breaks its types is REFUSED, one that is not there is
    ABSENT; their other numbers are 0.
    """
    missing = max(0, first + PART_WIDTH - text.tokens.shape[-1])
    tokens = jnp.pad(text.tokens, [(0, 0), (0, 0), (0, missing)])
    tokens = tokens[..., first : first + PART_WIDTH]
    tokens = tokens.reshape(*tokens.shape[:2], CALLS_PER_PART, tools.CALL_WIDTH)
    start = first + tools.CALL_WIDTH * np.arange(CALLS_PER_PART, dtype=np.int32)
    present = text.length[..., None] - start[None, None]

    tool = tokens[..., 0] - vocabulary.FIRST_TOOL
    is_tool = (tool >= 0) & (tool < len(tools.Tool))
    tool = jnp.where(is_tool, tool, 0)
    x = tokens[..., 1] - vocabulary.FIRST_SLOT
    slot = tokens[..., 2] - vocabulary.FIRST_SLOT
    digit = tokens[..., 2] - vocabulary.FIRST_NUMBER
    takes_slot = jnp.asarray(tools.TAKES_SLOT)[tool]
    argument = jnp.where(takes_slot, slot, digit)
    limit = jnp.where(takes_slot, tools.NUM_SLOTS, tools.NUM_DIGITS)
    valid = is_tool & (x >= 0) & (x < tools.NUM_SLOTS)
    valid &= (argument >= 0) & (argument < limit) & (present >= tools.CALL_WIDTH)

    not_a_tool = jnp.where(present > 0, tools.REFUSED, tools.ABSENT)
    numbers = jnp.stack(
        [
            jnp.where(valid, tool, not_a_tool),
            *(jnp.where(valid, v, 0) for v in (x, argument)),
        ],
        axis=-1,
    )
    return numbers
