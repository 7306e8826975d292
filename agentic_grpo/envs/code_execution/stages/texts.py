"""What the agent wrote, read token by token; any ids whatever are readable."""

import jax
import jax.numpy as jnp

from agentic_grpo import records
from agentic_grpo.envs.code_execution import lookup
from agentic_grpo.envs.code_execution.problems import vocabulary
from agentic_grpo.envs.code_execution.vm.instructions import NUM_OPS, Op

#: Stands for a token that is no instruction; executing it is a fault.
NOT_AN_OPCODE = NUM_OPS


@records.record
class Text:
    """The text of one stage, END and what follows it cut off.

    Attributes:
      tokens: int32 [N, G, A].
      length: int32 [N, G]; real tokens.
      written: int32 [N, G]; columns that the agent filled, END included.
    """

    tokens: jax.Array
    length: jax.Array
    written: jax.Array


def read(tokens: jax.Array, mask: jax.Array, width: jax.Array) -> Text:
    """Cuts a text at END, at the first column outside the mask, and at the width.

    Args:
      tokens: int32 [N, G, A].
      mask: bool [N, G, A].
      width: int32 [N]; action columns of each lane's stage.
    """
    outside = ~mask | (lookup.numbers(tokens.shape[-1]) >= width[:, None, None])
    stops = outside | (tokens == vocabulary.END)
    return Text(
        tokens=tokens, length=lookup.before(stops), written=lookup.before(outside)
    )


def as_program(text: Text, length: int) -> jax.Array:
    """int32 [N, G, length]: one opcode per token, HALT behind the text."""
    opcodes = text.tokens[..., :length] - vocabulary.FIRST_OPCODE
    known = (opcodes >= 0) & (opcodes < NUM_OPS)
    inside = lookup.numbers(length) < text.length[..., None]
    return jnp.where(inside, jnp.where(known, opcodes, NOT_AN_OPCODE), int(Op.HALT))


def is_submission(text: Text) -> jax.Array:
    """bool [N, G]: the one token ``submit`` and nothing else."""
    return (text.length == 1) & (text.tokens[..., 0] == vocabulary.SUBMIT)


def as_digits(text: Text, count: int) -> tuple[jax.Array, jax.Array]:
    """The first tokens as digits int32 [N, G, count], and which of them are digits."""
    digits = text.tokens[..., :count] - vocabulary.FIRST_DIGIT
    inside = lookup.numbers(count) < text.length[..., None]
    return digits, inside & (digits >= 0) & (digits <= 9)
