"""The two phases of ONE group: what a stage is paid at once, what the verdict corrects.

Immediate, when the rewards of stage s are in:

    A_s = worth_s (r_s - baseline) / divisor   spent_s = A_s where it is taken back

Correction, when the verdict is in, for every acting stage:

    D_s = weight A_outcome - spent_s           A_outcome = (r_N - baseline) / divisor

so that A_s + D_s = weight A_outcome whatever happened before: spent_s is what was
*really* spent, phase weights included, and 0 if nothing was. Only the divisor ``own``,
as publicly reported, normalises r_N - r_s by its own deviation instead, and the sum is
then not the outcome advantage (with r_s = r_N / 2 it is twice that). It needs two
members that were paid and judged; where only one was, what was spent is taken back.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.errors import require, require_choice
from agentic_grpo.ops.calibration import SIGMA_FLOOR
from agentic_grpo.ops.group_advantages import (
    BASELINES,
    FILLS,
    centre,
    centred_ranks,
    fill_stopped,
    group_deviation,
    is_silent,
)
from agentic_grpo.ops.reductions import masked
from agentic_grpo.records import StageCredit, StageEvents

DIVISORS = ("own", "stage", "running", "none")
SIGNALS = ("reward", "forecast")


class Clip(NamedTuple):
    """How far the ratio of probabilities may move: [1 - low, 1 + high]."""

    low: float
    high: float


CLIP, CORRECTION_CLIP = Clip(0.2, 0.2), Clip(0.1, 0.1)


def check_clip(name: str, clip: Clip) -> None:
    """Raises ``Refused`` unless 0 <= low <= 1 and 0 <= high."""
    holds = 0.0 <= clip.low <= 1.0 and clip.high >= 0.0
    require(holds, name, clip, "a range with 0 <= low <= 1 and 0 <= high")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """The static part of a two-phase rule.

    Attributes:
      estimate: bool [S]; stages paid at once whose rewards are levels of the verdict.
      skill: bool [S]; stages paid at once whose rewards are additive.
      taken_back: bool [S]; the stages whose immediate credit the verdict takes back.
      serves_verdict: whether the verdict pays and corrects at all.
      divisor: one of ``DIVISORS``.
      baseline: "mean" or "leave_one_out".
      fill: of estimates, for members that had stopped; see ``fill_stopped``.
      skill_fill: of skills.
      use_ranks: compare centred ranks instead of values.
      clip: of the immediate phase, and of a verdict that nothing was spent before.
      correction_clip: of every other verdict.
      verdict_weight: multiplies the outcome advantage.
      signal: "reward": stages are paid at once by their stage reward; "forecast": by
        the critic's forecast of the verdict from their end.
    """

    estimate: np.ndarray
    skill: np.ndarray
    taken_back: np.ndarray
    serves_verdict: bool = True
    divisor: str = "running"
    baseline: str = "mean"
    fill: str = "carry_forward"
    skill_fill: str = "zero"
    use_ranks: bool = False
    clip: Clip = CLIP
    correction_clip: Clip = CORRECTION_CLIP
    verdict_weight: float = 1.0
    signal: str = "reward"

    def __post_init__(self):
        require_choice("divisor", self.divisor, DIVISORS)
        require_choice("baseline", self.baseline, BASELINES)
        require_choice("fill", self.fill, FILLS)
        require_choice("skill_fill", self.skill_fill, FILLS)
        require_choice("signal", self.signal, SIGNALS)
        check_clip("clip", self.clip)
        check_clip("correction_clip", self.correction_clip)

    def read(self, events: StageEvents) -> StageEvents:
        """Events whose stage rewards are the signal that stages are paid by."""
        if self.signal == "reward":
            return events
        return dataclasses.replace(
            events, reward=events.forecast, reward_mask=events.forecast_mask
        )

    @property
    def rewarded(self) -> np.ndarray:
        """bool [S]; the stages that are paid at once."""
        return self.estimate | self.skill


def two_phase_credit(events: StageEvents, sigma, worth, plan: Plan) -> StageCredit:
    """Credit of ONE group for whatever is ready.

    Args:
      events: of the group.
      sigma: float []; sigma_N, running deviation of verdicts within groups.
      worth: float [S]; multiplies the immediate advantage.
      plan: static.

    Returns:
      ``StageCredit``. After the verdict nothing is outstanding: ``spent`` is 0 unless
      the stage was too old to be corrected. An estimate that comes after the verdict
      is not paid any more; what is kept still is.
    """
    advantage, mask, silent, divisor = _immediate(events, sigma, worth, plan)
    taken_back = jnp.asarray(plan.taken_back)[None, :]
    paid = events.paid | mask
    divisor = jnp.where(jnp.any(mask, axis=0), divisor, events.divisor)
    spent = events.spent + jnp.where(taken_back, advantage, 0.0)
    if plan.serves_verdict:
        due, due_silent = _correction(events, spent, paid, divisor, sigma, plan)
        due_mask = (events.ready[-1] & events.acted & events.fresh[None, :]) & (
            paid | events.verdict_mask[:, None]
        )
    else:
        due, due_mask = jnp.zeros_like(advantage), jnp.zeros_like(mask)
        due_silent = jnp.zeros_like(silent)
    clip_low, clip_high = (
        jnp.stack([jnp.full_like(spent, first), jnp.where(paid, later, first)])
        for first, later in zip(plan.clip, plan.correction_clip, strict=True)
    )
    return StageCredit(
        advantage=jnp.stack([advantage, masked(due, due_mask)]),
        mask=jnp.stack([mask, due_mask]),
        clip_low=clip_low,
        clip_high=clip_high,
        spent=jnp.where(due_mask, 0.0, spent),
        paid=paid,
        divisor=divisor,
        silent=jnp.stack([silent, due_silent & jnp.any(due_mask, axis=0)]),
    )


def _immediate(events, sigma, worth, plan):
    """(advantage [G, S], mask [G, S], silent [S], divisor [S])."""
    payable = jnp.asarray(plan.rewarded) & ~(
        jnp.asarray(plan.taken_back) & events.settled
    )
    mask = (events.acted & events.reward_mask & ~events.paid) & (
        events.ready[:-1] & events.fresh & payable
    )[None, :]
    if not plan.rewarded.any():
        nothing = jnp.zeros_like(events.ready[:-1])
        return masked(events.spent, mask), mask, nothing, events.divisor
    values, population = _filled(events, plan)

    def of_stage(values, population):
        if plan.use_ranks:
            values = centred_ranks(values, population)
        return _compare(values, population, sigma, plan)

    advantage, silent, divisor = jax.vmap(of_stage, (1, 1), (1, 0, 0))(
        values, population
    )
    advantage = masked(advantage * worth[None, :], mask)
    return advantage, mask, silent & jnp.any(mask, axis=0), divisor


def _filled(events, plan):
    """Stage rewards with stopped members filled in, by kind of stage; [G, S] twice."""
    by_kind = [
        fill_stopped(
            events.reward,
            events.reward_mask,
            events.acted,
            fill=fill,
            rewarded=kind,
            lost=events.lost,
        )
        for fill, kind in ((plan.fill, plan.estimate), (plan.skill_fill, plan.skill))
    ]
    first = jnp.asarray(plan.estimate)[None, :]
    return tuple(jnp.where(first, a, b) for a, b in zip(*by_kind, strict=True))


def _correction(events, spent, paid, divisor, sigma, plan):
    """(what is due [G, S], silent [S]) now that the verdict is in."""
    present = events.verdict_mask
    verdict = masked(events.verdict, present)
    values = centred_ranks(verdict, present) if plan.use_ranks else verdict
    outcome, silent, own_divisor = _compare(values, present, sigma, plan)
    outcome = jnp.broadcast_to(outcome[:, None], spent.shape)
    if plan.divisor == "stage":  # as frozen when the stage was paid
        divisor = jnp.where(jnp.any(paid, axis=0), divisor, own_divisor)
        centred = centre(values, present, baseline=plan.baseline)
        outcome = divided(centred[:, None], divisor[None, :], silent)
    due = plan.verdict_weight * outcome - spent
    silent = jnp.broadcast_to(silent, divisor.shape)
    if plan.divisor != "own" or plan.use_ranks:
        return due, silent

    corrects = paid & present[:, None] & jnp.asarray(plan.taken_back)[None, :]
    delta = masked(verdict[:, None] - masked(events.reward, corrects), corrects)
    reported, delta_silent, _ = jax.vmap(
        lambda delta, corrects: _compare(delta, corrects, sigma, plan),
        (1, 1),
        (1, 0, 0),
    )(delta, corrects)
    enough = jnp.sum(corrects, axis=0) >= 2  # alone there is nothing to normalise by
    silent = jnp.where(enough, delta_silent, silent)
    return jnp.where(
        corrects & enough[None, :], plan.verdict_weight * reported, due
    ), silent


def _compare(values, population, sigma, plan):
    return compare(
        values, population, sigma, divisor=plan.divisor, baseline=plan.baseline
    )


def compare(values, population, sigma, *, divisor, baseline):
    """Advantages of one group's values: (r - baseline) / divisor.

    Args:
      values: float [G].
      population: bool [G]; who is compared.
      sigma: float []; sigma_N.
      divisor: "own" (deviation of the values), "stage" (the same, sigma where it is
        under 0.1), "running" (sigma) or "none".
      baseline: "mean" or "leave_one_out".

    Returns:
      (advantages [G], 0 outside the population and exactly 0 if silent; silent bool [];
      divisor float []).
    """
    silent = is_silent(values, population)
    if divisor == "none":
        scale = jnp.ones_like(sigma)
    elif divisor == "running":
        scale = sigma
    else:
        scale = group_deviation(values, population)
        if divisor == "stage":
            scale = jnp.where(scale < SIGMA_FLOOR, sigma, scale)
    centred = centre(values, population, baseline=baseline)
    return divided(centred, scale, silent), silent, scale


def divided(centred, divisor, silent) -> jax.Array:
    """centred / divisor, exactly 0 in a silent group."""
    return jnp.where(silent, 0.0, centred / jnp.where(silent, 1.0, divisor))
