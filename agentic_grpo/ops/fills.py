"""What members that have stopped count as in the stages that they did not reach."""

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.errors import require_choice
from agentic_grpo.ops.doors import Array, expects
from agentic_grpo.ops.group_advantages import comparable
from agentic_grpo.ops.reductions import masked

FILLS = ("reached", "carry_forward", "zero")


@expects(
    rewards="float [G, S]",
    reward_mask="bool [G, S]",
    acted="bool [G, S]",
    rewarded="bool [S]",
    lost="bool [G]",
)
def fill_stopped(
    rewards: Array,
    reward_mask: Array,
    acted: Array,
    *,
    fill: str,
    rewarded: np.ndarray,
    lost: Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Values for the members that had already stopped, so that stopping is comparable.

    The policy decides when to stop. A baseline over those who *reached* a stage then
    depends on the decision: for additive rewards the gradient of the stopping
    probability vanishes (verl-project/verl#7244), and no later baseline mends it.

    * ``reached``: no fill; only members that acted are compared.
    * ``carry_forward``: a stopped member keeps its last reward. For *levels*, such as
      the score of the program that it submitted.
    * ``zero``: a stopped member earns 0 from then on. For *additive* rewards.

    With ``zero`` on levels the policy learns never to stop; with ``carry_forward`` on
    additive rewards stopping looks as good as going on. A stopped member whose last
    rewarded stage has no reward (it came too late, or is not in yet) is never filled
    in, nor is one that was lost: it did not choose to stop.

    Args:
      rewards: float [G, S].
      reward_mask: bool [G, S].
      acted: bool [G, S]; a member acts from stage 0 on, until it stops.
      fill: "reached", "carry_forward" or "zero".
      rewarded: bool [S], static; the stages whose rewards are of this kind. Others are
        left as they are and never carried.
      lost: bool [G]; members that the environment failed; None: nobody.

    Returns:
      (values float [G, S], population bool [G, S]).
    """
    require_choice("fill", fill, FILLS)
    present = comparable(rewards, acted & reward_mask)
    values = masked(rewards, present)
    if fill == "reached":
        return values, present
    last_value = jnp.zeros_like(values[:, 0])
    last_known = jnp.zeros_like(acted[:, 0])
    by_choice = jnp.ones_like(last_known) if lost is None else ~lost
    columns, populations = [], []
    for stage in range(acted.shape[1]):
        column, population = values[:, stage], present[:, stage]
        if rewarded[stage]:
            stopped = ~jnp.any(acted[:, stage:], axis=1) & last_known & by_choice
            if fill == "carry_forward":
                column = jnp.where(stopped, last_value, column)
            population = population | stopped
            last_value = jnp.where(acted[:, stage], values[:, stage], last_value)
            last_known = jnp.where(acted[:, stage], present[:, stage], last_known)
        columns.append(column)
        populations.append(population)
    return jnp.stack(columns, axis=1), jnp.stack(populations, axis=1)
