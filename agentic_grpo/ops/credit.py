"""The credit rules: from what is ready to advantages and clip ranges.

A rule is a pure function from the rows of one tick to the credit of both phases; one
new method is one new rule. Here are the rules of the method itself; those to compare it
with are in ``compared_credit``.

Every constructor takes the kinds of the stages first (``EpisodeLayout.kinds``, or names
of ``records.StageKind``); what it would have to ignore it refuses.
"""

import functools
from collections.abc import Callable, Iterable

import numpy as np

from agentic_grpo.errors import require
from agentic_grpo.ops import calibration
from agentic_grpo.ops.calibration import Prior
from agentic_grpo.ops.compared_credit import (
    returns,
    state_groups,
    turn_mix,
    value_baseline,
)
from agentic_grpo.ops.credit_options import (
    CLIP,
    DECAY,
    Clip,
    Clips,
    Comparison,
    Fill,
    kinds_of_stages,
)
from agentic_grpo.ops.credit_rule import CreditRule, two_phase_rule, write_on_tokens
from agentic_grpo.ops.two_phase import TwoPhaseConfig
from agentic_grpo.records import StageKind

__all__ = [
    "CLIP",
    "DECAY",
    "RULES",
    "Clip",
    "Clips",
    "Comparison",
    "CreditRule",
    "Fill",
    "Prior",
    "agentic",
    "calibrated",
    "immediate",
    "outcome",
    "returns",
    "state_groups",
    "turn_mix",
    "value_baseline",
    "write_on_tokens",
]

Kinds = Iterable[StageKind | str]


def outcome(
    kinds: Kinds,
    *,
    comparison: Comparison = Comparison(),
    clip: Clip = CLIP,
    decay: float = DECAY,
) -> CreditRule:
    """Plain GRPO: everything waits for the verdict, every stage gets the same credit.

    A_s = (r_N - baseline) / divisor, on every stage that the member wrote. With divisor
    ``own`` it is GRPO (arXiv 2402.03300) with the population deviation, with ``none``
    Dr. GRPO (2503.20783), with ``none`` and leave_one_out RLOO (2402.14740). Use it as
    the baseline of every comparison, and where stage rewards cannot be trusted.

    Args:
      kinds: of the S stages; here they say how many there are.
      comparison: what an advantage is.
      clip: of the ratio.
      decay: forgetting of sigma_N per settled group.
    """
    config = TwoPhaseConfig(
        kinds=(StageKind.NONE,) * len(kinds_of_stages(kinds)),
        comparison=comparison,
        clips=Clips(first=clip, correction=clip),
    )
    return two_phase_rule(config, np.ones(len(config.kinds)), decay=decay)


def immediate(
    kinds: Kinds,
    *,
    comparison: Comparison = Comparison(),
    fill: Fill = Fill(),
    skill_weight: float = 1.0,
    signal: str = "reward",
    clip: Clip = CLIP,
    decay: float = DECAY,
) -> CreditRule:
    """Stage rewards only, paid when they come in; the verdict pays nothing.

    A_s = (r_s - baseline) / divisor on stage s, kept. The fastest rule, and the wrong
    one as soon as the stage reward is not the goal: use it to see what the correction
    is worth. A stage without a reward is never trained. The verdict is served only if
    the divisor needs sigma_N. Options as in ``agentic``.
    """
    config = TwoPhaseConfig(
        kinds=_as_paid(kinds, signal),
        comparison=comparison,
        fill=fill,
        clips=Clips(first=clip, correction=clip),
        serves_verdict=False,
        signal=signal,
    )
    return two_phase_rule(config, _weights(config, skill_weight), decay=decay)


def agentic(
    kinds: Kinds,
    *,
    comparison: Comparison = Comparison(),
    fill: Fill = Fill(),
    clips: Clips = Clips(),
    immediate_weight: float = 1.0,
    correction_weight: float = 1.0,
    skill_weight: float = 1.0,
    skill_as_estimate: bool = False,
    signal: str = "reward",
    decay: float = DECAY,
) -> CreditRule:
    """Agentic GRPO: spend the stage reward at once, correct it when the verdict is in.

    Immediate: A_s = immediate_weight (r_s - baseline) / divisor, noted as applied_s.
    Correction: D_s = correction_weight A_outcome - applied_s. Their sum is
    correction_weight A_outcome, whichever of the two came first, was late or never
    came; ``immediate_weight`` only says how much is paid in advance. Credit of a skill,
    skill_weight immediate_weight (r_s - baseline) / divisor, is not noted: it is kept.

    With divisor ``own`` the correction is as publicly reported, correction_weight
    (d_s - mean d_s) / std d_s for d_s = r_N - r_s, wherever the stage was paid; it does
    not telescope (r_s = r_N / 2 gives twice the outcome advantage). Ranks always take
    back what was applied.

    Use it where stage rewards are honest estimates and verdicts come late; where the
    stage reward may mislead, ``calibrated`` or a small ``immediate_weight``.

    Args:
      kinds: of the S stages: estimates are taken back, skills are kept.
      comparison: what an advantage is.
      fill: what stopped members count as.
      clips: of both phases.
      immediate_weight: of the immediate phase.
      correction_weight: of the outcome advantage.
      skill_weight: of skill credit, on top of ``immediate_weight``.
      skill_as_estimate: treat skills as estimates, as publicly reported.
      signal: "reward", or "forecast": every stage is paid at once by the critic's
        forecast of the verdict, an estimate.
      decay: forgetting of sigma_N per settled group.
    """
    as_paid = _as_paid(kinds, signal)
    if skill_as_estimate:
        renamed = {StageKind.SKILL: StageKind.ESTIMATE}
        as_paid = tuple(renamed.get(kind, kind) for kind in as_paid)
    config = TwoPhaseConfig(
        kinds=as_paid,
        taken_back=(StageKind.ESTIMATE,),
        comparison=comparison,
        fill=fill,
        clips=clips,
        verdict_weight=correction_weight,
        signal=signal,
    )
    weights = immediate_weight * _weights(config, skill_weight)
    return two_phase_rule(config, weights, decay=decay)


def calibrated(
    kinds: Kinds,
    *,
    comparison: Comparison = Comparison(),
    fill: Fill = Fill(),
    clips: Clips = Clips(),
    prior: Prior = Prior(),
    fixed_beta: float | None = None,
    num_levels: int = 1,
    signal: str = "reward",
    decay: float = DECAY,
) -> CreditRule:
    """Spend at once only what the stage reward has been worth so far.

    Immediate: beta_s a_s / sigma_N; correction: A_outcome - applied_s, as ``agentic``.
    beta_s is the slope of the centred verdict on the centred stage reward over settled
    groups (``calibration.stage_beta``), so the first is the best linear prediction of
    the outcome advantage from what is known, the second its residual (the surrogate
    index of statistics). Truthful rewards: beta near 1, like ``agentic`` with the
    running divisor; deceptive: beta near 0, like ``outcome``. It follows the policy as
    the truth changes, with a lag, and quick verdicts enter it first. Estimates and
    skills alike are paid by their beta and taken back.

    With the signal "forecast" a learnt critic's forecast of the verdict takes the place
    of the stage reward, at every stage, rewarded or not. beta is then measured on the
    forecasts of today's critic for the groups that settle now, from which it has not
    learnt yet (progressive validation), not on those that were applied long ago.

    Use it where nobody knows how far the stage rewards can be trusted.

    Args:
      kinds: of the S stages; what has a reward is paid at once.
      comparison: of values, divided by sigma_N; the baseline is free.
      fill: what stopped members count as.
      clips: of both phases.
      prior: beta before any group has settled, and how many groups it weighs.
      fixed_beta: float in [0, 1]; beta is this and never learnt. 0 is a control: it
        equals ``outcome`` exactly if both clips are the same.
      num_levels: difficulty levels that get their own beta; 1 pools them.
      signal: "reward" or "forecast"; what pays at once.
      decay: forgetting of sigma_N and of beta per settled group.
    """
    comparison.allow(divisors=("running",))
    if fixed_beta is not None:
        require(0.0 <= fixed_beta <= 1.0, "fixed_beta", fixed_beta, "in [0, 1]")
    require(0.0 <= prior.beta <= 1.0, "prior.beta", prior.beta, "in [0, 1]")
    require(prior.groups >= 0.0, "prior.groups", prior.groups, "at least 0")
    require(num_levels >= 1, "num_levels", num_levels, "at least 1")
    config = TwoPhaseConfig(
        kinds=_as_paid(kinds, signal),
        taken_back=(StageKind.ESTIMATE, StageKind.SKILL),
        comparison=comparison,
        fill=fill,
        clips=clips,
        signal=signal,
    )
    if fixed_beta is None:
        learnt = functools.partial(calibration.stage_beta, prior=prior)
        return two_phase_rule(config, learnt, decay=decay, num_levels=num_levels)
    beta = np.full(len(config.kinds), fixed_beta)
    return two_phase_rule(config, beta, decay=decay, num_levels=num_levels)


def _as_paid(kinds: Kinds, signal: str) -> tuple[StageKind, ...]:
    """The kinds of the stages as they are paid: every forecast is an estimate."""
    kinds = kinds_of_stages(kinds)
    return (StageKind.ESTIMATE,) * len(kinds) if signal == "forecast" else kinds


def _weights(config: TwoPhaseConfig, skill_weight: float) -> np.ndarray:
    """float [S]; the weight of skills, 1 elsewhere."""
    return np.where(config.are(StageKind.SKILL), skill_weight, 1.0)


#: name -> constructor of every rule.
RULES: dict[str, Callable[..., CreditRule]] = {
    "outcome": outcome,
    "immediate": immediate,
    "agentic": agentic,
    "calibrated": calibrated,
    "returns": returns,
    "turn_mix": turn_mix,
    "state_groups": state_groups,
    "value_baseline": value_baseline,
}
