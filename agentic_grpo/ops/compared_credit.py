"""Credit rules to compare the method with: mixed turns, returns, equal states.

All but the first wait for the verdict and use the whole episode; their mathematics is
written for ONE group.
"""

import functools
from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.errors import require_choice
from agentic_grpo.ops.credit_options import (
    CLIP,
    DECAY,
    Clip,
    Clips,
    Comparison,
    Fill,
    check_clip,
    kinds_of_stages,
)
from agentic_grpo.ops.credit_rule import CreditRule, two_phase_rule, verdict_rule
from agentic_grpo.ops.doors import expects
from agentic_grpo.ops.reductions import masked
from agentic_grpo.ops.stage_returns import stage_increments, stage_returns
from agentic_grpo.ops.two_phase import TwoPhaseConfig
from agentic_grpo.records import StageCredit, StageEvents, StageKind

DIVISORS = ("own", "running", "none")

Kinds = Iterable[StageKind | str]


def turn_mix(
    kinds: Kinds,
    *,
    outcome_weight: float = 1.0,
    comparison: Comparison = Comparison(divisor="own"),
    fill: Fill = Fill(),
    clips: Clips = Clips(),
    decay: float = DECAY,
) -> CreditRule:
    """MT-GRPO: the stage part at arrival, the outcome part at the verdict, both kept.

    A_s = (r_s - baseline) / divisor, then outcome_weight A_outcome on every stage; the
    sum is A_stage + lambda A_outcome (arXiv 2505.11821). Nothing is taken back, so the
    stage reward stays a goal of its own: use it where it is one. Options as in
    ``agentic``.
    """
    comparison.allow(divisors=(*DIVISORS, "stage"))
    config = TwoPhaseConfig(
        kinds=kinds_of_stages(kinds),
        comparison=comparison,
        fill=fill,
        clips=clips,
        verdict_weight=outcome_weight,
    )
    return two_phase_rule(config, np.ones(len(config.kinds)), decay=decay)


def returns(
    kinds: Kinds,
    *,
    discount: float = 1.0,
    skill_weight: float = 0.0,
    comparison: Comparison = Comparison(),
    fill: str = "zero",
    clip: Clip = CLIP,
    decay: float = DECAY,
) -> CreditRule:
    """Discounted stage-wise returns, computed when the verdict is in.

    Estimates pay their *increments* r_s - r_(last estimate), the verdict pays r_N -
    r_(last estimate) one step after the last stage, and G_s is the discounted reward to
    go. Undiscounted G_s = r_N - r_(last estimate before s): the verdict, less what had
    been reached before. Increments are additive, so stopped members count 0. Use it to
    see what separating the stages is worth without early updates.

    Args:
      kinds: of the S stages.
      discount: per stage, in [0, 1].
      skill_weight: of a skill's reward, which is additive as it is.
      comparison: of the values G_s; "own" is their deviation in the group.
      fill: "zero" or "reached".
      clip: of the ratio.
      decay: forgetting of sigma_N per settled group.
    """
    kinds = kinds_of_stages(kinds)
    comparison.allow(divisors=DIVISORS)
    require_choice("fill", fill, ("zero", "reached"))
    check_clip("clip", clip)

    def of_group(events, sigma):
        to_go = episode_returns(
            events, kinds=kinds, skill_weight=skill_weight, discount=discount
        )
        started = events.verdict_mask & jnp.any(events.acted, axis=1)
        population = jnp.broadcast_to(started[:, None], to_go.shape)
        if fill == "reached":
            population = population & events.acted
        advantage, zero_variance = _by_stage(comparison, to_go, population, sigma)
        return paid_by_verdict(events, advantage, zero_variance, clip)

    return verdict_rule(of_group, len(kinds), decay=decay)


def state_groups(
    kinds: Kinds,
    *,
    state_weight: float = 1.0,
    discount: float = 1.0,
    comparison: Comparison = Comparison(),
    clip: Clip = CLIP,
    decay: float = DECAY,
) -> CreditRule:
    """GiGPO-style: the outcome, plus a comparison with those who stood where you stood.

    A_s = A_outcome + state_weight A_state_s (arXiv 2505.10978). A_state_s compares the
    discounted verdict, discount^(stages still to come) r_N, among the members that
    acted at stage s from an equal state: equal ``state_id`` after stage s - 1, so the
    group key is (problem, stage, state before). Who stood alone gets the outcome only.
    Use it where episodes of a group keep meeting in equal states.

    Args:
      kinds: of the S stages; here they say how many there are.
      state_weight: of the comparison among equals.
      discount: per stage, in [0, 1].
      comparison: of values; "own" is each comparison's own deviation.
      clip: of the ratio.
      decay: forgetting of sigma_N per settled group.
    """
    num_stages = len(kinds_of_stages(kinds))
    comparison.allow(divisors=DIVISORS)
    check_clip("clip", clip)

    def of_group(events, sigma):
        verdict = masked(events.verdict, events.verdict_mask)
        outcome = comparison.advantages(verdict, events.verdict_mask, sigma)
        acted = events.acted & events.verdict_mask[:, None]
        num_acted = jnp.sum(events.acted, axis=1, keepdims=True)
        stages_to_come = num_acted - jnp.cumsum(events.acted, axis=1)
        to_go = verdict[:, None] * discount**stages_to_come

        def of_stage(to_go, state, acted):
            equals = (state[:, None] == state[None, :]) & acted[None, :]
            compare = functools.partial(comparison.advantages, to_go, sigma=sigma)
            advantages, zero_variance, _ = jax.vmap(compare)(equals)
            return masked(jnp.diagonal(advantages), acted), jnp.all(
                zero_variance | ~acted
            )

        among_equals, equals_zero_variance = jax.vmap(of_stage, (1, 1, 1), (1, 0))(
            to_go, state_before(events), acted
        )
        advantage = outcome.advantage[:, None] + state_weight * among_equals
        return paid_by_verdict(
            events, advantage, equals_zero_variance & outcome.zero_variance, clip
        )

    return verdict_rule(of_group, num_stages, decay=decay)


def value_baseline(
    kinds: Kinds,
    *,
    comparison: Comparison = Comparison(),
    clip: Clip = CLIP,
    decay: float = DECAY,
) -> CreditRule:
    """Outcome credit with a critic as a value baseline, as an actor-critic has it.

    A_s = (x_s - baseline) / divisor with x_s = r_N - f_(s-1): what was achieved less
    what was forecast *before* the stage, compared within the group; f is 0 before the
    first stage. Everything waits for the verdict, nothing is applied early. Use it as a
    control: it has the critic's knowledge and less variance, but not its haste.

    Args:
      kinds: of the S stages; here they say how many there are.
      comparison: of the values x_s; "own" is their deviation in the group.
      clip: of the ratio.
      decay: forgetting of sigma_N per settled group.
    """
    num_stages = len(kinds_of_stages(kinds))
    comparison.allow(divisors=DIVISORS)
    check_clip("clip", clip)

    def of_group(events, sigma):
        forecast = masked(events.forecast, events.forecast_mask)
        before = jnp.concatenate(
            [jnp.zeros_like(forecast[:, :1]), forecast[:, :-1]], axis=1
        )
        achieved = masked(events.verdict, events.verdict_mask)[:, None] - before
        acted = events.acted & events.verdict_mask[:, None]
        advantage, zero_variance = _by_stage(comparison, achieved, acted, sigma)
        return paid_by_verdict(events, advantage, zero_variance, clip)

    return verdict_rule(of_group, num_stages, decay=decay)


def _by_stage(comparison, values, population, sigma):
    """(advantages [G, S], zero_variance [S]) of values [G, S], each stage by itself."""

    def of_stage(values, population):
        return comparison.advantages(values, population, sigma)[:2]

    return jax.vmap(of_stage, (1, 1), (1, 0))(values, population)


@expects(events="StageEvents")
def state_before(events: StageEvents) -> jax.Array:
    """int [G, S]: the state that each stage was written in; equal before the first."""
    start = jnp.zeros_like(events.state_id[:, :1])
    return jnp.concatenate([start, events.state_id[:, :-1]], axis=1)


@expects(events="StageEvents", discount="float []")
def episode_returns(
    events: StageEvents,
    *,
    kinds: tuple[StageKind, ...],
    skill_weight: float,
    discount: float,
) -> jax.Array:
    """Discounted reward-to-go of the stages of ONE group, [G, S]; see ``returns``.

    0 for stages that a member did not act in.
    """

    def are(kind):
        return jnp.array([other is kind for other in kinds])[None, :]

    observed = events.acted & events.reward_mask
    rewards = masked(events.reward, observed)
    estimated = observed & are(StageKind.ESTIMATE)
    increments = jax.vmap(stage_increments)(rewards, estimated)
    reached = jnp.sum(increments, axis=1)  # increments telescope
    skills = skill_weight * masked(rewards, observed & are(StageKind.SKILL))
    verdict = masked(events.verdict, events.verdict_mask)
    last_acted = jnp.cumsum(events.acted, axis=1) == jnp.sum(
        events.acted, axis=1, keepdims=True
    )
    at_end = masked(discount * (verdict - reached)[:, None], last_acted)
    paid = masked(increments + skills + at_end, events.acted)
    to_go = jax.vmap(stage_returns, (0, 0, None))(paid, events.acted, discount)
    return masked(to_go, events.acted)


@expects(events="StageEvents", advantage="float [G, S]", zero_variance="bool [S]")
def paid_by_verdict(
    events: StageEvents, advantage: jax.Array, zero_variance: jax.Array, clip: Clip
) -> StageCredit:
    """Credit [G, S] that is due at the verdict, and nothing at any other time."""
    due = (events.ready[-1] & events.acted & events.fresh[None, :]) & (
        events.verdict_mask[:, None]
    )
    never = jnp.zeros_like(due)
    advantage = masked(advantage, due)
    zero_variance = zero_variance & jnp.any(due, axis=0)
    both = jnp.stack([never, due])
    return StageCredit(
        advantage=jnp.stack([jnp.zeros_like(advantage), advantage]),
        mask=both,
        clip_low=jnp.full_like(both, clip.low, dtype=advantage.dtype),
        clip_high=jnp.full_like(both, clip.high, dtype=advantage.dtype),
        applied_advantage=events.applied_advantage,
        paid=events.paid,
        divisor=events.divisor,
        zero_variance=jnp.stack([jnp.zeros_like(zero_variance), zero_variance]),
    )
