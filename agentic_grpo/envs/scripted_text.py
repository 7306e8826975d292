"""What a scripted agent meant, as the stage that it writes."""

import jax.numpy as jnp


def finish(tokens, length, *, noise, fails, limit, end, pad):
    """The text of a stage, or noise in its place, ended and padded.

    Args:
      tokens: int32 [N, G, A]; what was meant, without its end.
      length: int32 [N, G]; how many of them count.
      noise: int32 [N, G, A]; what stands there where the agent fails.
      fails: bool [N, G].
      limit: int32 [N]; width of the stage: a text that fills it has no end token.
      end, pad: tokens.

    Returns:
      (tokens int32 [N, G, A], mask bool [N, G, A]: the text and its end).
    """
    tokens = jnp.where(fails[..., None], noise, tokens)
    column = jnp.arange(tokens.shape[-1], dtype=jnp.int32)[None, None]
    length = length[..., None]
    tokens = jnp.where(column < length, tokens, end)
    mask = column < jnp.minimum(length + 1, limit[:, None, None])
    return jnp.where(mask, tokens, pad), mask
