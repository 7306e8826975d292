"""Simulated latencies: how many ticks pass until an answer comes."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.envs.code_execution import columns
from agentic_grpo.envs.code_execution.config import Latency


def draw(
    uniform: jax.Array, latencies: Sequence[Latency], index: jax.Array
) -> jax.Array:
    """int32 [N, G]: ticks drawn from ``latencies[index]``.

    Args:
      uniform: float [N, 2, G] in [0, 1); for the tail, and for the place in it.
      latencies: the distributions.
      index: int32 [N].
    """

    def column(values, dtype):
        return columns.rows(np.array(values, dtype), index)[:, None]

    minimum = column([latency.minimum for latency in latencies], np.int32)
    span = column(
        [latency.maximum - latency.minimum for latency in latencies], np.int32
    )
    share = column([latency.tail_probability for latency in latencies], np.float32)
    late = jnp.floor(uniform[:, 1] * span).astype(jnp.int32)
    extra = jnp.minimum(1 + late, span)
    return minimum + jnp.where(uniform[:, 0] < share, extra, 0)
