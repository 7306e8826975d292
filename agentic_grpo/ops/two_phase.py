"""The two phases of ONE group: what a stage is paid at once, what the verdict corrects.

Immediate, when the rewards of stage s are in:

    A_s = beta_s (r_s - baseline) / divisor      applied_s = A_s where it is taken back

Correction, when the verdict is in, for every acting stage:

    D_s = weight A_outcome - applied_s           A_outcome = (r_N - baseline) / divisor

so that A_s + D_s = weight A_outcome whatever happened before: applied_s is what was
*really* applied, phase weights included, and 0 if nothing was. Only the divisor
``own``, as publicly reported, normalises r_N - r_s by its own deviation instead, and
the sum is then not the outcome advantage (with r_s = r_N / 2 it is twice that). It
needs two members that were paid and judged; where only one was, what was applied is
taken back.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.errors import require_choice
from agentic_grpo.ops.credit_options import Clips, Comparison, Fill
from agentic_grpo.ops.doors import expects
from agentic_grpo.ops.fills import fill_stopped
from agentic_grpo.ops.group_advantages import GroupAdvantages
from agentic_grpo.ops.reductions import masked
from agentic_grpo.records import StageCredit, StageEvents, StageKind

SIGNALS = ("reward", "forecast")

#: Where the stage stands in what ``vmap`` over stages returns.
_BY_STAGE = GroupAdvantages._make((1, 0, 0))  # advantage, zero_variance, divisor


@dataclasses.dataclass(frozen=True, kw_only=True)
class TwoPhaseConfig:
    """The static part of a two-phase rule.

    Attributes:
      kinds: of the stages, as they are paid: one that is never paid at once is NONE.
      taken_back: the kinds whose immediate credit the verdict takes back.
      comparison: what an advantage is.
      fill: what stopped members count as.
      clips: of both phases.
      verdict_weight: multiplies the outcome advantage.
      serves_verdict: whether the verdict pays and corrects at all.
      signal: "reward": stages are paid at once by their stage reward; "forecast": by
        the critic's forecast of the verdict from their end.
    """

    kinds: tuple[StageKind, ...]
    taken_back: tuple[StageKind, ...] = ()
    comparison: Comparison = Comparison()
    fill: Fill = Fill()
    clips: Clips = Clips()
    verdict_weight: float = 1.0
    serves_verdict: bool = True
    signal: str = "reward"

    def __post_init__(self) -> None:
        require_choice("signal", self.signal, SIGNALS)

    def are(self, *kinds: StageKind) -> np.ndarray:
        """bool [S]; the stages of these kinds."""
        return np.array([kind in kinds for kind in self.kinds])

    @property
    def rewarded(self) -> np.ndarray:
        """bool [S]; the stages that are paid at once."""
        return self.are(StageKind.ESTIMATE, StageKind.SKILL)

    def read(self, events: StageEvents) -> StageEvents:
        """Events whose stage rewards are the signal that stages are paid by."""
        if self.signal == "reward":
            return events
        return dataclasses.replace(
            events, reward=events.forecast, reward_mask=events.forecast_mask
        )


@expects(events="StageEvents", sigma="float []", beta="float [S]")
def two_phase_credit(
    events: StageEvents, sigma: jax.Array, beta: jax.Array, config: TwoPhaseConfig
) -> StageCredit:
    """Credit of ONE group for whatever is ready.

    Args:
      events: of the group.
      sigma: float []; sigma_N, running deviation of verdicts within groups.
      beta: float [S]; multiplies the immediate advantage.
      config: static.

    Returns:
      ``StageCredit``. After the verdict nothing is outstanding: ``applied_advantage``
      is 0 unless the stage was too old to be corrected. An estimate that comes after
      the verdict is not paid any more; what is kept still is.
    """
    advantage, mask, zero_variance, divisor = _immediate(events, sigma, beta, config)
    taken_back = jnp.asarray(config.are(*config.taken_back))[None, :]
    paid = events.paid | mask
    divisor = jnp.where(jnp.any(mask, axis=0), divisor, events.divisor)
    applied = events.applied_advantage + jnp.where(taken_back, advantage, 0.0)
    if config.serves_verdict:
        due, due_zero_variance = _correction(
            events, applied, paid, divisor, sigma, config
        )
        due_mask = (events.ready[-1] & events.acted & events.fresh[None, :]) & (
            paid | events.verdict_mask[:, None]
        )
    else:
        due, due_mask = jnp.zeros_like(advantage), jnp.zeros_like(mask)
        due_zero_variance = jnp.zeros_like(zero_variance)
    clip_low, clip_high = (
        jnp.stack([jnp.full_like(applied, first), jnp.where(paid, later, first)])
        for first, later in zip(
            config.clips.first, config.clips.correction, strict=True
        )
    )
    return StageCredit(
        advantage=jnp.stack([advantage, masked(due, due_mask)]),
        mask=jnp.stack([mask, due_mask]),
        clip_low=clip_low,
        clip_high=clip_high,
        applied_advantage=jnp.where(due_mask, 0.0, applied),
        paid=paid,
        divisor=divisor,
        zero_variance=jnp.stack(
            [zero_variance, due_zero_variance & jnp.any(due_mask, axis=0)]
        ),
    )


def _immediate(events, sigma, beta, config):
    """(advantage [G, S], mask [G, S], zero_variance [S], divisor [S])."""
    payable = jnp.asarray(config.rewarded) & ~(
        jnp.asarray(config.are(*config.taken_back)) & events.settled
    )
    mask = (events.acted & events.reward_mask & ~events.paid) & (
        events.ready[:-1] & events.fresh & payable
    )[None, :]
    if not config.rewarded.any():
        nothing = jnp.zeros_like(events.ready[:-1])
        return masked(events.applied_advantage, mask), mask, nothing, events.divisor
    values, population = _filled(events, config)

    def of_stage(values, population):
        return config.comparison.advantages(values, population, sigma)

    advantage, zero_variance, divisor = jax.vmap(of_stage, (1, 1), _BY_STAGE)(
        values, population
    )
    advantage = masked(advantage * beta[None, :], mask)
    return advantage, mask, zero_variance & jnp.any(mask, axis=0), divisor


def _filled(events, config):
    """Stage rewards with stopped members filled in, by kind of stage; [G, S] twice."""
    estimates = config.are(StageKind.ESTIMATE)
    by_kind = [
        fill_stopped(
            events.reward,
            events.reward_mask,
            events.acted,
            fill=fill,
            rewarded=rewarded,
            lost=events.lost,
        )
        for fill, rewarded in (
            (config.fill.estimates, estimates),
            (config.fill.skills, config.are(StageKind.SKILL)),
        )
    ]
    first = jnp.asarray(estimates)[None, :]
    return tuple(jnp.where(first, a, b) for a, b in zip(*by_kind, strict=True))


def _correction(events, applied, paid, divisor, sigma, config):
    """(what is due [G, S], zero_variance [S]) now that the verdict is in."""
    comparison, present = config.comparison, events.verdict_mask
    outcome = comparison.advantages(masked(events.verdict, present), present, sigma)
    zero_variance = jnp.broadcast_to(outcome.zero_variance, divisor.shape)
    if comparison.divisor == "stage":
        return _by_frozen_divisor(
            outcome, applied, paid, divisor, config
        ), zero_variance
    due = _telescoped(outcome, applied, config)
    if comparison.divisor != "own" or comparison.use_ranks:
        return due, zero_variance
    reported, reported_zero_variance, defined = _as_reported(
        events, paid, sigma, config
    )
    zero_variance = jnp.where(
        jnp.any(defined, axis=0), reported_zero_variance, zero_variance
    )
    return jnp.where(defined, reported, due), zero_variance


def _telescoped(outcome: GroupAdvantages, applied, config):
    """D_s = weight A_outcome - applied_s; [G, S]."""
    return config.verdict_weight * outcome.advantage[:, None] - applied


def _by_frozen_divisor(outcome: GroupAdvantages, applied, paid, divisor, config):
    """D_s = weight A_outcome divisor_N / divisor_s - applied_s; [G, S].

    divisor_N is the verdict's own; divisor_s is what the stage was paid with, or
    divisor_N where it was not.
    """
    frozen = jnp.where(jnp.any(paid, axis=0), divisor, outcome.divisor)
    rescaled = outcome.advantage[:, None] * (outcome.divisor / frozen)[None, :]
    return config.verdict_weight * rescaled - applied


def _as_reported(events, paid, sigma, config):
    """D_s = weight (d_s - baseline) / std d_s with d_s = r_N - r_s.

    Returns:
      (what is due [G, S], zero_variance [S], bool [G, S]: whom it is defined for, where
      two members at least were paid at once and judged).
    """
    present = events.verdict_mask[:, None]
    taken_back = jnp.asarray(config.are(*config.taken_back))[None, :]
    corrects = paid & present & taken_back
    delta = masked(
        masked(events.verdict[:, None], present) - masked(events.reward, corrects),
        corrects,
    )

    def of_stage(delta, corrects):
        return config.comparison.advantages(delta, corrects, sigma)

    reported, zero_variance, _ = jax.vmap(of_stage, (1, 1), _BY_STAGE)(delta, corrects)
    enough = jnp.sum(corrects, axis=0) >= 2
    return config.verdict_weight * reported, zero_variance, corrects & enough[None, :]
