"""What settled groups teach: the spread of verdicts, and beta of every stage.

Every learnt number is a discounted sum over settled groups, so that the order of groups
within a call, and the device that holds them, do not matter.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentic_grpo import records
from agentic_grpo.ops.doors import Array, expects
from agentic_grpo.ops.group_advantages import SIGMA_FLOOR, group_deviation
from agentic_grpo.ops.reductions import masked, masked_mean

#: Spread of verdicts assumed before any verdict came.
SIGMA_START = 0.5
#: Variance of a stage reward that one pseudo-group of the prior stands for.
PRIOR_VARIANCE = 0.05


@records.record
class CreditState:
    """What a credit rule has learnt; equal on all devices.

    Attributes:
      verdict_variance: float32 []; moving average of the variance within groups.
      product: float32 [S, L]; discounted sum over settled groups of mean(a_s a_N).
      square: float32 [S, L]; of mean(a_s²).
      groups: float32 [S, L]; of 1: how many groups stand behind the two sums.
        L is the number of difficulty levels told apart, 1 if they are not.
    """

    verdict_variance: jax.Array
    product: jax.Array
    square: jax.Array
    groups: jax.Array


class Prior(NamedTuple):
    """What is believed of beta before any group has settled.

    Attributes:
      beta: by how much a verdict rises with one unit of the stage reward; in [0, 1].
      groups: kappa; the belief weighs like so many settled groups of variance
        ``PRIOR_VARIANCE``.
    """

    beta: float = 0.0
    groups: float = 4.0


def init_state(num_stages: int, num_levels: int = 1) -> CreditState:
    """Nothing learnt yet: sigma_N is 0.5, the moments are empty."""
    empty = jnp.zeros((num_stages, num_levels), jnp.float32)
    return CreditState(
        verdict_variance=jnp.float32(SIGMA_START**2),
        product=empty,
        square=empty,
        groups=empty,
    )


def verdict_spread(state: CreditState) -> jax.Array:
    """sigma_N []: root of the moving variance of verdicts in a group, at least 0.1."""
    return jnp.maximum(jnp.sqrt(state.verdict_variance), SIGMA_FLOOR)


def stage_beta(state: CreditState, prior: Prior) -> jax.Array:
    """beta [S, L]: by how much a verdict rises with one unit of the stage reward.

    beta_s = clip((C_s + kappa v0 beta0) / (V_s + kappa v0), 0, 1), the regression slope
    of the centred verdict on the centred stage reward, shrunk to beta0. C_s and V_s are
    sums, so kappa counts groups.
    """
    weight = prior.groups * PRIOR_VARIANCE
    slope = (state.product + weight * prior.beta) / jnp.where(
        state.square + weight > 0.0, state.square + weight, 1.0
    )
    return jnp.clip(slope, 0.0, 1.0)


@expects(events="StageEvents")
def group_moments(
    events: records.StageEvents,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(mean(a_s a_N), mean(a_s²), known) of ONE group, [S] each.

    Both quantities are centred over the members that have both; a stage that fewer than
    two members have is not known.
    """
    has_verdict = events.verdict_mask[:, None]
    both = events.acted & events.reward_mask & has_verdict
    verdict = jnp.broadcast_to(events.verdict[:, None], both.shape)
    stage = _centred(events.reward, both)
    outcome = _centred(verdict, both)
    product = masked_mean(stage * outcome, both, axis=0).over()
    square = masked_mean(stage**2, both, axis=0).over()
    return product, square, jnp.sum(both, axis=0) >= 2


def _centred(values, mask):
    values = masked(values, mask)
    return masked(values - masked_mean(values, mask, axis=0).over()[None, :], mask)


@expects(events="StageEvents [U]", values="float [U, G]")
def learn(
    state: CreditState,
    events: records.StageEvents,
    *,
    decay: float,
    values: Array | None = None,
    axis_name: str | None = None,
) -> tuple[CreditState, dict[str, jax.Array], jax.Array, jax.Array]:
    """Takes in the groups whose verdict is served in this call.

    n settled groups with mean m turn a moving average v into decay^n v + (1 - decay^n)
    m, and a discounted sum c into decay^n c + n m.

    Args:
      state: what is known so far.
      events: ``StageEvents`` of U groups.
      decay: float in (0, 1); what is left of a group's weight after one more group.
      values: float [U, G]; what advantages are taken of at the verdict; the verdicts
        themselves by default.
      axis_name: of the devices that hold other groups.

    Returns:
      (state, diagnostics, sums [S, L] of mean(a_s a_N) and of mean(a_s²) in this call),
      all equal on all devices.
    """
    settled = events.ready[:, -1]
    values = events.verdict if values is None else values
    spread = jax.vmap(group_deviation)(values, events.verdict_mask)
    with_spread = settled & (jnp.sum(events.verdict_mask, axis=1) >= 2)
    product, square, known = jax.vmap(group_moments)(events)
    num_levels = state.groups.shape[1]
    level = jnp.clip(events.level, 0, num_levels - 1)
    of_level = level[:, None] == jnp.arange(num_levels, dtype=level.dtype)[None, :]
    cells = (settled[:, None] & known)[:, :, None] & of_level[:, None, :]  # [U, S, L]

    def per_cell(values):
        return jnp.sum(jnp.where(cells, values[:, :, None], 0.0), axis=0)

    sums = (
        masked_mean(spread**2, with_spread),
        (per_cell(product), per_cell(square), per_cell(jnp.ones_like(product))),
    )
    if axis_name is not None:
        sums = jax.lax.psum(sums, axis_name)
    variance, (product, square, groups) = sums
    kept = decay**variance.count
    kept_cells = decay**groups
    new_state = CreditState(
        verdict_variance=kept * state.verdict_variance + (1.0 - kept) * variance.over(),
        product=kept_cells * state.product + product,
        square=kept_cells * state.square + square,
        groups=kept_cells * state.groups + groups,
    )
    diagnostics = {
        "sigma": verdict_spread(new_state),
        "settled_groups": variance.count,
    }
    return new_state, diagnostics, product, square
