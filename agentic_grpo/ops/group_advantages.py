"""Advantages within a group: baselines, divisors, ranks, zero-variance groups.

Everything is written for ONE group of G members; the caller vmaps. Members outside the
*population* (a mask) neither count nor receive credit, whatever their values hold. So
do members inside it whose value cannot be compared (``comparable``): one infinite
reward would make NaN of a whole group.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentic_grpo.errors import require, require_choice
from agentic_grpo.ops.doors import Array, expects
from agentic_grpo.ops.reductions import (
    Mean,
    at_least_float32,
    masked,
    masked_mean,
    square_root,
)

#: A group whose values differ by less has zero variance. Eight rewards of 0.3 have a
#: float32 "standard deviation" of 3e-8; dividing by it makes advantages of rounding.
SPREAD_FLOOR = 1e-6

#: The least that a deviation is divided by; below it sigma_N takes its place.
SIGMA_FLOOR = 0.1

#: The largest value that is compared: its square, and sums of such, fit into float32.
LARGEST_VALUE = 1e15

BASELINES = ("mean", "leave_one_out")
DIVISORS = ("own", "stage", "running", "none")


@expects(values="float [...]", population="bool [...]")
def comparable(values: Array, population: Array) -> jax.Array:
    """Who can be compared, bool [...]: in the population, |value| <= 1e15, not NaN."""
    return (jnp.abs(values) <= LARGEST_VALUE) & population


@expects(values="float [G]", population="bool [G]")
def has_zero_variance(values: Array, population: Array) -> jax.Array:
    """Does nothing tell the members apart? max - min < 1e-6, or fewer than two.

    Args:
      values: float [G].
      population: bool [G].

    Returns:
      bool [].
    """
    population = comparable(values, population)
    values = at_least_float32(values)
    highest = jnp.max(values, where=population, initial=-jnp.inf)
    lowest = jnp.min(values, where=population, initial=jnp.inf)
    return (jnp.sum(population) < 2) | (highest - lowest < SPREAD_FLOOR)


@expects(values="float [G]", population="bool [G]")
def group_baseline(
    values: Array, population: Array, *, baseline: str = "mean"
) -> jax.Array:
    """What each member is compared with.

    ``mean``: b = (1/n) Σ_j r_j. ``leave_one_out``: b_i = (1/(n-1)) Σ_{j≠i} r_j, which
    does not depend on r_i, so that the policy gradient stays unbiased (RLOO,
    arXiv 2402.14740); r_i - b_i = n/(n-1) (r_i - mean).

    Args:
      values: float [G].
      population: bool [G].
      baseline: "mean" or "leave_one_out".

    Returns:
      float [G]; 0 where nobody is left to compare with.
    """
    require_choice("baseline", baseline, BASELINES)
    population = comparable(values, population)
    values = masked(values, population)
    total = jnp.sum(values)
    count = jnp.sum(population, dtype=values.dtype)
    if baseline == "mean":
        return jnp.broadcast_to(Mean(total, count).over(), values.shape)
    return Mean(total - values, count - population.astype(values.dtype)).over()


@expects(values="float [G]", population="bool [G]")
def group_deviation(values: Array, population: Array, *, ddof: int = 0) -> jax.Array:
    """Standard deviation [] of the values [G] in the population; 0 for n <= ddof."""
    population = comparable(values, population)
    values = masked(values, population)
    centred = masked(values - masked_mean(values, population).over(), population)
    squares = masked_mean(centred**2, population)
    return square_root(Mean(squares.total, squares.count - ddof).over())


@expects(values="float [G]", population="bool [G]")
def centred_ranks(values: Array, population: Array) -> jax.Array:
    """Mid-ranks of the population, centred and scaled into [-1/2, 1/2].

    rank_i = (1 / (2 (n - 1))) Σ_j sign(r_i - r_j): the highest gets 1/2, the lowest
    -1/2, equals share, the sum is 0. Any strictly increasing change of the values
    leaves it alone: comparison, not calibration.

    Args:
      values: float [G].
      population: bool [G].

    Returns:
      float [G]; 0 outside the population.
    """
    population = comparable(values, population)
    values = masked(values, population)
    difference = values[:, None] - values[None, :]
    told_apart = jnp.abs(difference) >= SPREAD_FLOOR
    both = population[:, None] & population[None, :]
    wins = jnp.sum(jnp.where(both & told_apart, jnp.sign(difference), 0.0), axis=1)
    others = jnp.sum(population, dtype=values.dtype) - 1.0
    return wins / (2.0 * jnp.maximum(others, 1.0))


class GroupAdvantages(NamedTuple):
    """What the comparison of one group gives.

    Attributes:
      advantage: float [G]; exactly 0.0 where the variance is zero, and outside the
        population.
      zero_variance: bool []; nothing tells the members apart.
      divisor: float []; what was divided by, 1 for the divisor "none".
    """

    advantage: jax.Array
    zero_variance: jax.Array
    divisor: jax.Array


@expects(rewards="float [G]", mask="bool [G]", sigma="float []")
def group_advantages(
    rewards: Array,
    mask: Array,
    *,
    divisor: str = "own",
    baseline: str = "mean",
    use_ranks: bool = False,
    ddof: int = 0,
    sigma: jax.Array | float | None = None,
) -> GroupAdvantages:
    """Centres, and optionally scales, the rewards of one group.

    A_i = (r_i - b_i) / divisor. GRPO (arXiv 2402.03300): mean and ``own``, with ddof 1
    as Tunix, TRL and verl do, or 0; Dr. GRPO (2503.20783): mean and ``none``; RLOO
    (2402.14740): leave_one_out and ``none``.

    Args:
      rewards: float [G].
      mask: bool [G]; members with a reward. No reward is not a reward of 0. A member
        that is rejected as a whole before its group is compared (for example by
        ``sequence_rejection``) is left out here too.
      divisor: "own" (deviation of the group), "stage" (the same, sigma where it is
        under 0.1), "running" (sigma) or "none".
      baseline: "mean" or "leave_one_out".
      use_ranks: compare centred ranks instead of values.
      ddof: of the deviation; 0: of the population, 1: of a sample.
      sigma: float [], positive; for the divisors "stage" and "running".
    """
    require_choice("divisor", divisor, DIVISORS)
    require(
        sigma is not None or divisor in ("own", "none"),
        "sigma",
        sigma,
        f"a number: divisor={divisor!r} needs one",
    )
    spread = jnp.float32(1.0) if sigma is None else at_least_float32(sigma)
    mask = comparable(rewards, mask)
    values = centred_ranks(rewards, mask) if use_ranks else rewards
    zero_variance = has_zero_variance(values, mask)
    if divisor == "none":
        scale = jnp.float32(1.0)
    elif divisor == "running":
        scale = spread
    else:
        scale = group_deviation(values, mask, ddof=ddof)
        if divisor == "stage":
            scale = jnp.where(scale < SIGMA_FLOOR, spread, scale)
    centred = centre(values, mask, baseline=baseline)
    return GroupAdvantages(divided(centred, scale, zero_variance), zero_variance, scale)


@expects(centred="float [G]", divisor="float []", zero_variance="bool []")
def divided(centred: Array, divisor: jax.Array, zero_variance: jax.Array) -> jax.Array:
    """centred [G] / divisor, exactly 0 in a zero-variance group."""
    return jnp.where(
        zero_variance, 0.0, centred / jnp.where(zero_variance, 1.0, divisor)
    )


@expects(values="float [G]", population="bool [G]")
def centre(values: Array, population: Array, *, baseline: str = "mean") -> jax.Array:
    """r_i - b_i, float [G]; 0 outside the population. Knows nothing of silence."""
    population = comparable(values, population)
    reference = group_baseline(values, population, baseline=baseline)
    return masked(at_least_float32(values) - reference, population)


@expects(rewards="float [N]", group_ids="int [N]", mask="bool [N]")
def advantages_by_id(
    rewards: Array,
    group_ids: Array,
    mask: Array,
    *,
    divisor: str = "own",
    baseline: str = "mean",
    ddof: int = 0,
) -> tuple[jax.Array, jax.Array]:
    """``group_advantages`` of many groups that lie mixed, in any order.

    Compares all pairs, so it needs N² numbers: meant for a batch, not for a data set.

    Args:
      rewards: float [N].
      group_ids: int [N]; equal ids are one group; any integers.
      mask: bool [N].
      divisor, baseline, ddof: as in ``group_advantages``; "own" or "none".

    Returns:
      (advantages float [N], zero_variance bool [N]): of the group of each row. A
      singleton has none: it has nobody to be compared with.
    """
    populations = (group_ids[:, None] == group_ids[None, :]) & mask[None, :]

    def of_row(population):
        return group_advantages(
            rewards, population, divisor=divisor, baseline=baseline, ddof=ddof
        )

    advantages, zero_variance, _ = jax.vmap(of_row)(populations)
    return masked(jnp.diagonal(advantages), mask), zero_variance


@expects(centred="float [..., G]", mask="bool [..., G]")
def scale_by_batch(
    centred: Array, mask: Array, *, recentre: bool = False, axis_name: str | None = None
) -> jax.Array:
    """Divides centred rewards by their deviation over the whole batch.

    LitePPO (arXiv 2508.08221): group mean, batch deviation. With ``recentre`` the batch
    mean is taken off too, as in REINFORCE++ with a group baseline (2501.03262).

    Args:
      centred: float [..., G]; rewards minus their group's baseline.
      mask: bool [..., G].
      recentre: subtract the batch mean.
      axis_name: of the devices that hold the rest of the batch.

    Returns:
      float [..., G]; exactly 0.0 everywhere if the batch tells nobody apart.
    """
    mask = comparable(centred, mask)
    centred = masked(centred, mask)
    around_mean = masked(centred - masked_mean(centred, mask).over(axis_name), mask)
    deviation = square_root(masked_mean(around_mean**2, mask).over(axis_name))
    zero_variance = deviation < SPREAD_FLOOR
    chosen = around_mean if recentre else centred
    return jnp.where(
        zero_variance, 0.0, chosen / jnp.where(zero_variance, 1.0, deviation)
    )
