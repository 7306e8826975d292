"""What a credit rule is, and how one is built from the mathematics of one group."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.errors import require
from agentic_grpo.ops import calibration
from agentic_grpo.ops.calibration import CreditState
from agentic_grpo.ops.credit_options import check_decay
from agentic_grpo.ops.doors import Array, check, expects
from agentic_grpo.ops.group_advantages import centred_ranks, comparable
from agentic_grpo.ops.reductions import count, masked, sum_over_devices
from agentic_grpo.ops.stage_returns import on_token_columns
from agentic_grpo.ops.two_phase import TwoPhaseConfig, two_phase_credit
from agentic_grpo.records import StageCredit, StageEvents, TokenCredit

#: Where the group stands: behind the phase, if there is one.
_GROUP_AXES: dict[str, Any] = {
    "advantage": 1,
    "mask": 1,
    "clip_low": 1,
    "clip_high": 1,
    "applied_advantage": 0,
    "paid": 0,
    "divisor": 0,
    "zero_variance": 1,
}
_PHASE_FIRST = StageCredit(**_GROUP_AXES)


class CreditRule(NamedTuple):
    """A method of paying stages. All functions are pure.

    Attributes:
      init: () -> ``CreditState``.
      apply: (state, ``StageEvents`` of U groups) -> ``StageCredit``, phase first, then
        U: advantage [2, U, G, S], zero_variance [2, U, S]; applied_advantage, paid,
        divisor [U, ...].
      update: (state, events, *, axis_name=None) -> (state, diagnostics); learns from
        the verdicts served in this call. Call it *after* ``apply``, so that only groups
        settled strictly before the spending tick enter. ``rewards_left_out`` counts
        what was served but cannot be compared; both treat it as absent.
      event_mask: bool [S + 1]; the events that the rule ever serves, verdict last.
    """

    init: Callable[[], CreditState]
    apply: Callable[[CreditState, StageEvents], StageCredit]
    update: Callable[..., tuple[CreditState, dict[str, jax.Array]]]
    event_mask: np.ndarray


def two_phase_rule(
    config: TwoPhaseConfig,
    beta: np.ndarray | Callable[[CreditState], jax.Array],
    *,
    decay: float,
    num_levels: int = 1,
) -> CreditRule:
    """The rule that pays by ``two_phase_credit``.

    Args:
      config: static.
      beta: float [S], or a function from ``CreditState`` to float [S, L]; multiplies
        the immediate advantage. Rewards of a stage whose beta is 0 for good are never
        served: such a rule visits the same rows in the same order as ``outcome``.
      decay: forgetting per settled group, in (0, 1).
      num_levels: L of the state.
    """
    check_decay(decay)
    num_stages = len(config.kinds)

    def beta_of(state: CreditState) -> jax.Array:
        if callable(beta):
            return beta(state)
        column = jnp.asarray(beta, jnp.float32)[:, None]
        return jnp.broadcast_to(column, state.groups.shape)

    @_expects_events_of(num_stages)
    def apply(state: CreditState, events: StageEvents) -> StageCredit:
        sigma, by_level = calibration.verdict_spread(state), beta_of(state)
        events = only_comparable(config.read(events))

        def of_group(events):
            level = jnp.clip(events.level, 0, num_levels - 1)
            return two_phase_credit(events, sigma, by_level[:, level], config)

        return jax.vmap(of_group, out_axes=_PHASE_FIRST)(events)

    @_expects_events_of(num_stages)
    def update(state: CreditState, events: StageEvents, *, axis_name=None):
        events = config.read(events)
        left_out = sum_over_devices(count_incomparable(events), axis_name)
        events = only_comparable(events)
        values = events.verdict
        if config.comparison.use_ranks:
            values = jax.vmap(centred_ranks)(values, events.verdict_mask)
        before = beta_of(state)
        state, diagnostics, product, square = calibration.learn(
            state, events, decay=decay, values=values, axis_name=axis_name
        )
        if callable(beta):
            known = square > 0.0
            recent = product / jnp.where(known, square, 1.0)
            diagnostics |= {
                "beta": beta_of(state),
                "beta_groups": state.groups,
                "beta_lag": jnp.where(known, recent - before, 0.0),
            }
        return state, diagnostics | {"rewards_left_out": left_out}

    pays = config.rewarded
    if not callable(beta):
        pays = pays & (np.asarray(beta) != 0.0)
    needs_sigma = config.comparison.divisor in ("running", "stage")
    return CreditRule(
        init=lambda: calibration.init_state(num_stages, num_levels),
        apply=apply,
        update=update,
        event_mask=np.append(pays, config.serves_verdict or needs_sigma),
    )


def verdict_rule(
    of_group: Callable[[StageEvents, jax.Array], StageCredit],
    num_stages: int,
    *,
    decay: float,
) -> CreditRule:
    """The rule that serves the verdict alone, with the whole episode before it.

    Args:
      of_group: (events of one group, sigma []) -> ``StageCredit``.
      num_stages: S.
      decay: forgetting of sigma_N per settled group, in (0, 1).
    """
    check_decay(decay)

    @_expects_events_of(num_stages)
    def apply(state: CreditState, events: StageEvents) -> StageCredit:
        sigma = calibration.verdict_spread(state)
        return jax.vmap(lambda group: of_group(group, sigma), out_axes=_PHASE_FIRST)(
            only_comparable(events)
        )

    @_expects_events_of(num_stages)
    def update(state: CreditState, events: StageEvents, *, axis_name=None):
        left_out = sum_over_devices(count_incomparable(events), axis_name)
        state, diagnostics, _, _ = calibration.learn(
            state, only_comparable(events), decay=decay, axis_name=axis_name
        )
        return state, diagnostics | {"rewards_left_out": left_out}

    return CreditRule(
        init=lambda: calibration.init_state(num_stages),
        apply=apply,
        update=update,
        event_mask=np.append(np.zeros(num_stages, bool), True),
    )


def _expects_events_of(num_stages: int):
    """The door of a rule's functions: events of U groups, of the rule's stages."""

    def decorate(function):
        @functools.wraps(function)
        def checked(state, events, **options):
            check({"events": "StageEvents [U]"}, {"events": events})
            stages = events.acted.shape[-1]
            require(stages == num_stages, "stages of events", stages, f"{num_stages}")
            return function(state, events, **options)

        return checked

    return decorate


def only_comparable(events: StageEvents) -> StageEvents:
    """The events of U groups without what is not finite among what they tell."""
    return dataclasses.replace(
        events,
        reward_mask=comparable(events.reward, events.reward_mask),
        forecast_mask=comparable(events.forecast, events.forecast_mask),
        verdict_mask=comparable(events.verdict, events.verdict_mask),
    )


def count_incomparable(events: StageEvents) -> jax.Array:
    """How many of the rewards and verdicts served now are left out: int32 []."""
    kept = only_comparable(events)
    rewards = events.reward_mask & ~kept.reward_mask & events.ready[:, None, :-1]
    verdicts = events.verdict_mask & ~kept.verdict_mask & events.ready[:, -1:]
    return count(rewards) + count(verdicts)


@expects(
    stage_credit="StageCredit",
    segment_of_column="int [T]",
    action_mask="bool [..., G, T]",
)
def write_on_tokens(
    stage_credit: StageCredit,
    segment_of_column: np.ndarray,
    action_mask: Array,
    *,
    exclude_zero_variance: bool = False,
) -> TokenCredit:
    """Writes the credit of stages on the tokens that the members wrote in them.

    Args:
      stage_credit: [2, ..., G, S] in each phase.
      segment_of_column: int [T], static; 0 is the prompt, s + 1 is stage s.
      action_mask: bool [..., G, T]; tokens that the policy wrote.
      exclude_zero_variance: leave zero-variance groups that are due nothing out of the
        mask, so that they neither count in a token mean nor feel a KL or entropy term.
        Off by default: such a group is evidence, and dropping it reweights the rest
        (huggingface/trl#5588, #6365).

    Returns:
      ``TokenCredit`` [2, ..., G, T]; all 0 outside its mask.
    """
    stage_mask = stage_credit.mask
    if exclude_zero_variance:
        zero_variance = stage_credit.zero_variance[..., None, :] & (
            stage_credit.advantage == 0.0
        )
        stage_mask = stage_mask & ~zero_variance

    def write(values):
        return on_token_columns(values, segment_of_column)

    mask = write(stage_mask) & action_mask[None]

    def on_mask(values):
        return masked(write(values), mask)

    return TokenCredit(
        advantage=on_mask(stage_credit.advantage),
        clip_low=on_mask(stage_credit.clip_low),
        clip_high=on_mask(stage_credit.clip_high),
        mask=mask,
    )
