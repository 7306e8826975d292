"""Returns and increments of the stages of one episode, and values on token columns."""

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.ops.doors import Array, expects
from agentic_grpo.ops.reductions import masked


@expects(rewards="float [S]", mask="bool [S]", discount="float []")
def stage_returns(
    rewards: Array, mask: Array, discount: jax.Array | float
) -> jax.Array:
    """Discounted reward-to-go per stage of ONE episode: G_s = r_s + discount G_{s+1}.

    A stage without a reward earns 0 but still takes a step of time.

    Args:
      rewards: float [S]; additive rewards.
      mask: bool [S]; where there is one.
      discount: float [], in [0, 1].

    Returns:
      float [S]; the last entry equals the last reward.
    """
    rewards = masked(rewards, mask)

    def backward(to_go, reward):
        to_go = reward + discount * to_go
        return to_go, to_go

    start = jnp.zeros_like(rewards[0])
    return jax.lax.scan(backward, start, rewards, reverse=True)[1]


@expects(levels="float [S]", mask="bool [S]")
def stage_increments(levels: Array, mask: Array) -> jax.Array:
    """What each stage added to a level, ONE episode: r_s - r_(last observed before s).

    The first level is measured from 0. A stage that nothing was observed of adds 0, and
    the next observed one gets the whole difference, so that Σ_s = last observed level.

    Args:
      levels: float [S]; for example the score of the program after each stage.
      mask: bool [S]; where it was observed.

    Returns:
      float [S]; 0 where not observed.
    """
    levels = masked(levels, mask)

    def forward(last, observation):
        level, observed = observation
        return jnp.where(observed, level, last), last

    start = jnp.zeros_like(levels[0])
    before = jax.lax.scan(forward, start, (levels, mask))[1]
    return masked(levels - before, mask)


@expects(values="any [..., S]", segment_of_column="int [T]")
def on_token_columns(values: Array, segment_of_column: np.ndarray) -> jax.Array:
    """Writes one value per stage on the stage's token columns; 0 on the prompt.

    A chain of selects: no gather, and what other stages hold (NaN, inf) stays there.

    Args:
      values: [..., S]; any dtype.
      segment_of_column: int [T]; 0 is the prompt, s + 1 is stage s.

    Returns:
      [..., T] of the same dtype.
    """
    segments = np.asarray(segment_of_column)
    leading = values.shape[:-1]
    columns = jnp.zeros((*leading, segments.size), values.dtype)
    for stage in range(values.shape[-1]):
        here = jnp.asarray(segments == stage + 1)
        here = here.reshape((1,) * len(leading) + here.shape)
        columns = jnp.where(here, values[..., stage, None], columns)
    return columns
