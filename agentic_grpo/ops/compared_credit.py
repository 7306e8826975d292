"""Credit rules to compare the method with: mixed turns, returns, equal states.

The last two wait for the verdict and use the whole episode; their mathematics is
written for ONE group.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.errors import require_choice
from agentic_grpo.ops.credit_rule import (
    DECAY,
    CreditRule,
    kinds_of_stages,
    two_phase_rule,
    verdict_rule,
)
from agentic_grpo.ops.group_advantages import (
    BASELINES,
)
from agentic_grpo.ops.reductions import masked
from agentic_grpo.ops.stage_returns import stage_increments, stage_returns
from agentic_grpo.ops.two_phase import CLIP, Plan, check_clip, compare
from agentic_grpo.records import StageCredit, StageEvents

DIVISORS = ("own", "running", "none")


def turn_mix(
    is_estimate,
    is_skill,
    *,
    outcome_weight=1.0,
    divisor="own",
    baseline="mean",
    fill="carry_forward",
    skill_fill="zero",
    clip=CLIP,
    correction_clip=CLIP,
    decay=DECAY,
) -> CreditRule:
    """MT-GRPO: the stage part at arrival, the outcome part at the verdict, both kept.

    A_s = (r_s - baseline) / divisor, then outcome_weight A_outcome on every stage; the
    sum is A_stage + lambda A_outcome (arXiv 2505.11821). Nothing is taken back, so the
    stage reward stays a goal of its own: use it where it is one. Options as in
    ``agentic``.
    """
    is_estimate, is_skill = kinds_of_stages(is_estimate, is_skill)
    plan = Plan(
        estimate=is_estimate,
        skill=is_skill,
        taken_back=np.zeros_like(is_skill),
        divisor=divisor,
        baseline=baseline,
        fill=fill,
        skill_fill=skill_fill,
        clip=clip,
        correction_clip=correction_clip,
        verdict_weight=outcome_weight,
    )
    return two_phase_rule(plan, np.ones(is_skill.shape), decay=decay)


def returns(
    is_estimate,
    is_skill,
    *,
    discount=1.0,
    skill_weight=0.0,
    divisor="running",
    baseline="mean",
    fill="zero",
    clip=CLIP,
    decay=DECAY,
) -> CreditRule:
    """Discounted stage-wise returns, computed when the verdict is in.

    Estimates pay their *increments* r_s - r_(last estimate), the verdict pays r_N -
    r_(last estimate) one step after the last stage, and G_s is the discounted reward to
    go. Undiscounted G_s = r_N - r_(last estimate before s): the verdict, less what had
    been reached before. Increments are additive, so stopped members count 0. Use it to
    see what separating the stages is worth without early updates.

    Args:
      is_estimate: bool [S].
      is_skill: bool [S].
      discount: per stage, in [0, 1].
      skill_weight: of a skill's reward, which is additive as it is.
      divisor: "own" (deviation of G_s in the group), "running" (sigma_N) or "none".
      baseline: "mean" or "leave_one_out".
      fill: "zero" or "reached".
      clip: of the ratio.
      decay: forgetting of sigma_N per settled group.
    """
    is_estimate, is_skill = kinds_of_stages(is_estimate, is_skill)
    require_choice("divisor", divisor, DIVISORS)
    require_choice("baseline", baseline, BASELINES)
    require_choice("fill", fill, ("zero", "reached"))
    check_clip("clip", clip)

    def of_group(events, sigma):
        to_go = episode_returns(
            events,
            is_estimate=is_estimate,
            is_skill=is_skill,
            skill_weight=skill_weight,
            discount=discount,
        )
        started = events.verdict_mask & jnp.any(events.acted, axis=1)
        population = jnp.broadcast_to(started[:, None], to_go.shape)
        if fill == "reached":
            population = population & events.acted

        def of_stage(to_go, population):
            return compare(
                to_go, population, sigma, divisor=divisor, baseline=baseline
            )[:2]

        advantage, silent = jax.vmap(of_stage, (1, 1), (1, 0))(to_go, population)
        return paid_by_verdict(events, advantage, silent, clip)

    return verdict_rule(of_group, is_skill.size, decay=decay)


def state_groups(
    is_estimate,
    is_skill,
    *,
    state_weight=1.0,
    discount=1.0,
    divisor="running",
    baseline="mean",
    clip=CLIP,
    decay=DECAY,
) -> CreditRule:
    """GiGPO-style: the outcome, plus a comparison with those who stood where you stood.

    A_s = A_outcome + state_weight A_state_s (arXiv 2505.10978). A_state_s compares the
    discounted verdict, discount^(stages still to come) r_N, among the members that
    acted at stage s from an equal state: equal ``state_id`` after stage s - 1, so the
    group key is (problem, stage, state before). Who stood alone gets the outcome only.
    Use it where episodes of a group keep meeting in equal states.

    Args:
      is_estimate: bool [S]; gives the number of stages.
      is_skill: bool [S]; of the same length.
      state_weight: of the comparison among equals.
      discount: per stage, in [0, 1].
      divisor: "own" (each comparison's own deviation), "running" (sigma_N) or "none".
      baseline: "mean" or "leave_one_out".
      clip: of the ratio.
      decay: forgetting of sigma_N per settled group.
    """
    is_estimate, is_skill = kinds_of_stages(is_estimate, is_skill)
    require_choice("divisor", divisor, DIVISORS)
    require_choice("baseline", baseline, BASELINES)
    check_clip("clip", clip)

    def of_group(events, sigma):
        def compared(values, population):
            return compare(
                values, population, sigma, divisor=divisor, baseline=baseline
            )[:2]

        verdict = masked(events.verdict, events.verdict_mask)
        outcome, outcome_silent = compared(verdict, events.verdict_mask)
        acted = events.acted & events.verdict_mask[:, None]
        num_acted = jnp.sum(events.acted, axis=1, keepdims=True)
        stages_to_come = num_acted - jnp.cumsum(events.acted, axis=1)
        to_go = verdict[:, None] * discount**stages_to_come

        def of_stage(to_go, state, acted):
            equals = (state[:, None] == state[None, :]) & acted[None, :]
            advantages, silent = jax.vmap(functools.partial(compared, to_go))(equals)
            return masked(jnp.diagonal(advantages), acted), jnp.all(silent | ~acted)

        among_equals, equals_silent = jax.vmap(of_stage, (1, 1, 1), (1, 0))(
            to_go, state_before(events), acted
        )
        advantage = outcome[:, None] + state_weight * among_equals
        return paid_by_verdict(events, advantage, equals_silent & outcome_silent, clip)

    return verdict_rule(of_group, is_skill.size, decay=decay)


def value_baseline(
    is_estimate,
    is_skill,
    *,
    divisor="running",
    baseline="mean",
    clip=CLIP,
    decay=DECAY,
) -> CreditRule:
    """Outcome credit with a critic as a value baseline, as an actor-critic has it.

    A_s = (x_s - baseline) / divisor with x_s = r_N - f_(s-1): what was achieved less
    what was forecast *before* the stage, compared within the group; f is 0 before the
    first stage. Everything waits for the verdict, nothing is spent early. Use it as a
    control: it has the critic's knowledge and less variance, but not its haste.

    Args:
      is_estimate: bool [S]; gives the number of stages.
      is_skill: bool [S]; of the same length.
      divisor: "own" (deviation of x_s in the group), "running" (sigma_N) or "none".
      baseline: "mean" or "leave_one_out"; of x_s.
      clip: of the ratio.
      decay: forgetting of sigma_N per settled group.
    """
    is_estimate, is_skill = kinds_of_stages(is_estimate, is_skill)
    require_choice("divisor", divisor, DIVISORS)
    require_choice("baseline", baseline, BASELINES)
    check_clip("clip", clip)

    def of_group(events, sigma):
        forecast = masked(events.forecast, events.forecast_mask)
        before = jnp.concatenate(
            [jnp.zeros_like(forecast[:, :1]), forecast[:, :-1]], axis=1
        )
        verdict = masked(events.verdict, events.verdict_mask)
        acted = events.acted & events.verdict_mask[:, None]

        def of_stage(values, population):
            return compare(
                values, population, sigma, divisor=divisor, baseline=baseline
            )[:2]

        advantage, silent = jax.vmap(of_stage, (1, 1), (1, 0))(
            verdict[:, None] - before, acted
        )
        return paid_by_verdict(events, advantage, silent, clip)

    return verdict_rule(of_group, is_skill.size, decay=decay)


def state_before(events: StageEvents) -> jax.Array:
    """int [G, S]: the state that each stage was written in; equal before the first."""
    start = jnp.zeros_like(events.state_id[:, :1])
    return jnp.concatenate([start, events.state_id[:, :-1]], axis=1)


def episode_returns(
    events: StageEvents, *, is_estimate, is_skill, skill_weight, discount
) -> jax.Array:
    """Discounted reward-to-go of the stages of ONE group, [G, S]; see ``returns``.

    0 for stages that a member did not act in.
    """
    observed = events.acted & events.reward_mask
    levels = masked(events.reward, observed)
    estimated = observed & jnp.asarray(is_estimate)[None, :]
    increments = jax.vmap(stage_increments)(levels, estimated)
    last_level = jnp.sum(increments, axis=1)  # increments telescope
    skills = skill_weight * masked(levels, observed & jnp.asarray(is_skill)[None, :])
    verdict = masked(events.verdict, events.verdict_mask)
    last_acted = jnp.cumsum(events.acted, axis=1) == jnp.sum(
        events.acted, axis=1, keepdims=True
    )
    at_end = masked(discount * (verdict - last_level)[:, None], last_acted)
    rewards = masked(increments + skills + at_end, events.acted)
    to_go = jax.vmap(stage_returns, (0, 0, None))(rewards, events.acted, discount)
    return masked(to_go, events.acted)


def paid_by_verdict(events: StageEvents, advantage, silent, clip) -> StageCredit:
    """Credit [G, S] that is due at the verdict, and nothing at any other time."""
    due = (events.ready[-1] & events.acted & events.fresh[None, :]) & (
        events.verdict_mask[:, None]
    )
    never = jnp.zeros_like(due)
    advantage = masked(advantage, due)
    silent = silent & jnp.any(due, axis=0)
    both = jnp.stack([never, due])
    return StageCredit(
        advantage=jnp.stack([jnp.zeros_like(advantage), advantage]),
        mask=both,
        clip_low=jnp.full_like(both, clip.low, dtype=advantage.dtype),
        clip_high=jnp.full_like(both, clip.high, dtype=advantage.dtype),
        spent=events.spent,
        paid=events.paid,
        divisor=events.divisor,
        silent=jnp.stack([jnp.zeros_like(silent), silent]),
    )
