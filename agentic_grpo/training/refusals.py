"""The last batch that the learner refused, kept for whoever looks into it."""

import jax
import jax.numpy as jnp

from agentic_grpo import learner, records


@records.record
class Refused:
    """The last batch of some ticks whose loss or gradient was not finite.

    Attributes:
      batch: as the learner saw it; zeros where there was none.
      learner_step: int32 []; version of the parameters that scored it.
      tick: int32 []; -1 where there was none.
    """

    batch: learner.Batch
    learner_step: jax.Array
    tick: jax.Array


def nothing(batch) -> Refused:
    """What is kept before any was refused; a batch, or its shapes."""
    return Refused(
        batch=jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), batch),
        learner_step=jnp.zeros((), jnp.int32),
        tick=jnp.full((), -1, jnp.int32),
    )


def newest(kept: Refused, state, metrics, batch) -> Refused:
    """What is kept after a tick: its batch if it was refused, else what was.

    Args:
      kept: before it.
      state: a ``tick.TrainState``, before it.
      metrics, batch: of ``tick.learn``.
    """
    latest = Refused(batch=batch, learner_step=state.learner.step, tick=state.tick)
    refused = metrics["not_finite"].total > 0
    return jax.tree.map(lambda x, y: jnp.where(refused, x, y), latest, kept)
