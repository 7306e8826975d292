"""The credit rules: from what is ready to advantages and clip ranges.

A rule is a pure function from the rows of one tick to the credit of both phases; one
new method is one new rule. Here are the rules of the method itself; those to compare it
with are in ``compared_credit``.

Every constructor takes the kinds of the stages first (``EpisodeLayout.is_estimate`` and
``is_skill``, bool [S]); a bad option raises a ValueError.
"""

import functools

import numpy as np

from agentic_grpo.errors import require
from agentic_grpo.ops import calibration
from agentic_grpo.ops.calibration import PRIOR, Prior
from agentic_grpo.ops.compared_credit import (
    returns,
    state_groups,
    turn_mix,
    value_baseline,
)
from agentic_grpo.ops.credit_rule import (
    DECAY,
    CreditRule,
    kinds_of_stages,
    two_phase_rule,
    write_on_tokens,
)
from agentic_grpo.ops.two_phase import CLIP, CORRECTION_CLIP, Clip, Plan

__all__ = [
    "Clip",
    "CreditRule",
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


def outcome(
    is_estimate,
    is_skill,
    *,
    divisor="running",
    baseline="mean",
    use_ranks=False,
    clip=CLIP,
    decay=DECAY,
) -> CreditRule:
    """Plain GRPO: everything waits for the verdict, every stage gets the same credit.

    A_s = (r_N - baseline) / divisor, on every stage that the member wrote. With divisor
    ``own`` it is GRPO (arXiv 2402.03300) with the population deviation, with ``none``
    Dr. GRPO (2503.20783), with ``none`` and leave_one_out RLOO (2402.14740). Use it as
    the baseline of every comparison, and where stage rewards cannot be trusted.

    Args:
      is_estimate: bool [S]; gives the number of stages.
      is_skill: bool [S]; of the same length.
      divisor: "own" (deviation of the group's verdicts), "stage" (the same, but sigma_N
        where it is under 0.1), "running" (sigma_N) or "none".
      baseline: "mean" or "leave_one_out".
      use_ranks: compare centred ranks instead of verdicts.
      clip: of the ratio.
      decay: forgetting of sigma_N per settled group.
    """
    nowhere = np.zeros_like(kinds_of_stages(is_estimate, is_skill)[0])
    plan = Plan(
        estimate=nowhere,
        skill=nowhere,
        taken_back=nowhere,
        divisor=divisor,
        baseline=baseline,
        use_ranks=use_ranks,
        clip=clip,
        correction_clip=clip,
    )
    return two_phase_rule(plan, np.ones(nowhere.shape), decay=decay)


def immediate(
    is_estimate,
    is_skill,
    *,
    divisor="running",
    baseline="mean",
    fill="carry_forward",
    skill_fill="zero",
    skill_weight=1.0,
    use_ranks=False,
    signal="reward",
    clip=CLIP,
    decay=DECAY,
) -> CreditRule:
    """Stage rewards only, spent when they come in; the verdict pays nothing.

    A_s = (r_s - baseline) / divisor on stage s, kept. The fastest rule, and the wrong
    one as soon as the stage reward is not the goal: use it to see what the correction
    is worth. A stage without a reward is never trained. The verdict is served only if
    the divisor needs sigma_N. Options as in ``agentic``.
    """
    is_estimate, is_skill = _kinds_for_signal(is_estimate, is_skill, signal)
    plan = Plan(
        estimate=is_estimate,
        skill=is_skill,
        taken_back=np.zeros_like(is_skill),
        signal=signal,
        serves_verdict=False,
        divisor=divisor,
        baseline=baseline,
        fill=fill,
        skill_fill=skill_fill,
        use_ranks=use_ranks,
        clip=clip,
        correction_clip=clip,
    )
    return two_phase_rule(plan, np.where(is_skill, skill_weight, 1.0), decay=decay)


def agentic(
    is_estimate,
    is_skill,
    *,
    divisor="running",
    baseline="mean",
    fill="carry_forward",
    skill_fill="zero",
    immediate_weight=1.0,
    correction_weight=1.0,
    skill_weight=1.0,
    skill_as_estimate=False,
    use_ranks=False,
    signal="reward",
    clip=CLIP,
    correction_clip=CORRECTION_CLIP,
    decay=DECAY,
) -> CreditRule:
    """Agentic GRPO: spend the stage reward at once, correct it when the verdict is in.

    Immediate: A_s = immediate_weight (r_s - baseline) / divisor, noted as spent_s.
    Correction: D_s = correction_weight A_outcome - spent_s. Their sum is
    correction_weight A_outcome, whichever of the two came first, was late or never
    came; ``immediate_weight`` only says how much is paid in advance. Credit of a skill,
    skill_weight immediate_weight (r_s - baseline) / divisor, is not noted: it is kept.

    With divisor ``own`` the correction is as publicly reported, correction_weight
    (d_s - mean d_s) / std d_s for d_s = r_N - r_s, wherever the stage was paid; it does
    not telescope (r_s = r_N / 2 gives twice the outcome advantage). Ranks always take
    back what was spent.

    Use it where stage rewards are honest estimates and verdicts come late; where the
    stage reward may mislead, ``calibrated`` or a small ``immediate_weight``.

    Args:
      is_estimate: bool [S]; rewards on the scale of the verdict, taken back.
      is_skill: bool [S]; rewards worth having by themselves, kept.
      divisor: "own", "stage" (std of r_s, frozen at spending; sigma_N where it is under
        0.1), "running" (sigma_N) or "none".
      baseline: "mean" or "leave_one_out".
      fill: what stopped members count as in the baseline of estimates; see
        ``group_advantages.fill_stopped``.
      skill_fill: the same for skills.
      immediate_weight: of the immediate phase.
      correction_weight: of the outcome advantage.
      skill_weight: of skill credit, on top of ``immediate_weight``.
      skill_as_estimate: treat skills as estimates, as publicly reported.
      use_ranks: compare centred ranks instead of values.
      signal: "reward", or "forecast": every stage is paid at once by the critic's
        forecast of the verdict, an estimate.
      clip: of the immediate phase, and of a verdict that nothing was spent before.
      correction_clip: of every other verdict.
      decay: forgetting of sigma_N per settled group.
    """
    is_estimate, is_skill = _kinds_for_signal(is_estimate, is_skill, signal)
    if skill_as_estimate:
        is_estimate, is_skill = is_estimate | is_skill, np.zeros_like(is_skill)
    plan = Plan(
        estimate=is_estimate,
        skill=is_skill,
        taken_back=is_estimate,
        signal=signal,
        divisor=divisor,
        baseline=baseline,
        fill=fill,
        skill_fill=skill_fill,
        use_ranks=use_ranks,
        clip=clip,
        correction_clip=correction_clip,
        verdict_weight=correction_weight,
    )
    worth = immediate_weight * np.where(is_skill, skill_weight, 1.0)
    return two_phase_rule(plan, worth, decay=decay)


def calibrated(
    is_estimate,
    is_skill,
    *,
    prior=PRIOR,
    fixed_worth=None,
    num_levels=1,
    signal="reward",
    baseline="mean",
    fill="carry_forward",
    skill_fill="zero",
    clip=CLIP,
    correction_clip=CORRECTION_CLIP,
    decay=DECAY,
) -> CreditRule:
    """Spend at once only what the stage reward has been worth so far.

    Immediate: beta_s a_s / sigma_N; correction: A_outcome - spent_s, as in ``agentic``.
    beta_s is the slope of the centred verdict on the centred stage reward over settled
    groups (``calibration.stage_worth``), so the first is the best linear prediction of
    the outcome advantage from what is known, the second its residual (the surrogate
    index of statistics). Truthful rewards: beta near 1, like ``agentic`` with the
    running divisor; deceptive: beta near 0, like ``outcome``. It follows the policy as
    the truth changes, with a lag, and quick verdicts enter it first. Estimates and
    skills alike are spent by their worth and taken back.

    With the signal "forecast" a learnt critic's forecast of the verdict takes the place
    of the stage reward, at every stage, rewarded or not. beta is then measured on the
    forecasts of today's critic for the groups that settle now, from which it has not
    learnt yet (progressive validation), not on those that were spent long ago.

    Use it where nobody knows how far the stage rewards can be trusted.

    Args:
      is_estimate: bool [S].
      is_skill: bool [S].
      prior: beta before any group has settled, and how many groups it weighs.
      fixed_worth: float in [0, 1]; beta is this and never learnt. 0 is a control: it
        equals ``outcome`` exactly if both clips are the same.
      num_levels: difficulty levels that get their own beta; 1 pools them.
      signal: "reward" or "forecast"; what is spent at once.
      baseline, fill, skill_fill, clip, correction_clip, decay: as in ``agentic``.
    """
    is_estimate, is_skill = _kinds_for_signal(is_estimate, is_skill, signal)
    if fixed_worth is not None:
        require(0.0 <= fixed_worth <= 1.0, "fixed_worth", fixed_worth, "in [0, 1]")
    require(0.0 <= prior.beta <= 1.0, "prior.beta", prior.beta, "in [0, 1]")
    require(prior.groups >= 0.0, "prior.groups", prior.groups, "at least 0")
    require(num_levels >= 1, "num_levels", num_levels, "at least 1")
    plan = Plan(
        estimate=is_estimate,
        skill=is_skill,
        taken_back=is_estimate | is_skill,
        signal=signal,
        baseline=baseline,
        fill=fill,
        skill_fill=skill_fill,
        clip=clip,
        correction_clip=correction_clip,
    )

    if fixed_worth is None:
        worth = functools.partial(calibration.stage_worth, prior=prior)
    else:
        worth = np.full(is_estimate.shape, fixed_worth)
    return two_phase_rule(plan, worth, decay=decay, num_levels=num_levels)


def _kinds_for_signal(is_estimate, is_skill, signal):
    """The kinds of the stages as they are paid: every forecast is an estimate."""
    is_estimate, is_skill = kinds_of_stages(is_estimate, is_skill)
    if signal == "forecast":
        return np.ones_like(is_estimate), np.zeros_like(is_skill)
    return is_estimate, is_skill
