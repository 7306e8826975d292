"""Frozen records that cross rooms, with their shapes.

Axis letters: **R** snapshot rows (groups), **G** members, **S** acting stages,
**T** token columns of a whole episode. A record that is documented for one group
is stacked by the caller's ``vmap``; the leading axes then come first.
"""

import dataclasses
import enum
import functools
import typing
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

#: A tick that never comes: the event has not been scheduled.
NEVER = np.iinfo(np.int32).max
#: A tick that comes when the host says so: the event is on its way in real time.
AWAITED = NEVER - 1

#: Position of each phase on the leading axis of ``TokenCredit``.
IMMEDIATE, CORRECTION = 0, 1
PHASES = ("immediate", "correction")


class EndReason(enum.IntEnum):
    """Why a member's episode ended; ``terminated`` and ``truncated`` kept apart."""

    RUNNING = 0
    SUBMITTED = 1  # terminated: the agent handed its work in
    OUT_OF_STAGES = 2  # truncated: the workflow ended first; its work is still judged
    FAULT = 3  # the environment failed; the member leaves its group, unrewarded


class StageKind(enum.Enum):
    """What a stage reward claims to be (design: "Words and axes")."""

    ESTIMATE = "estimate"  # a provisional verdict on its scale: paid, later taken back
    SKILL = "skill"  # worth having by itself: paid with a weight and kept
    NONE = "none"  # no stage reward; the verdict alone pays this stage


@typing.dataclass_transform(kw_only_default=True, frozen_default=True)
def record(cls):
    """A frozen, keyword-only dataclass whose fields are all pytree leaves."""
    cls = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    return jax.tree_util.register_dataclass(cls)


@functools.cache
def specs_of(cls) -> dict[str, str]:
    """{field: what it must be, like "float [G, S]"} of one of the records below."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


@record
class StageEvents:
    """What a credit rule sees of ONE group: rewards that are in, and what was applied.

    Attributes:
      acted: bool [G, S]; the member wrote this stage.
      reward: float [G, S]; the stage reward, meaningful where ``reward_mask``.
      reward_mask: bool [G, S]; the reward is in *by now*: it exists, is finite, met its
        deadline, and its tick has come. Nothing else is read, so what is true here too
        early is learnt too early.
      verdict: float [G]; the terminal reward, meaningful where ``verdict_mask``.
      verdict_mask: bool [G].
      lost: bool [G]; the environment failed the member (``EndReason.FAULT``): it did
        not choose to stop, and counts as nothing in the stages that it missed.
      state_id: int [G, S]; equal ids mean equal states after the stage.
      level: int []; difficulty level of the problem, from 0.
      ready: bool [S + 1]; the events to serve now; the verdict is the last.
      settled: bool []; the verdict was served in an earlier call: the outcome is paid,
        an estimate that comes now has nothing left to say.
      fresh: bool [S]; the stage is young enough to be trained on.
      applied_advantage: float [G, S]; what was paid early and is still to be taken
        back.
      forecast: float [G, S]; a critic's forecast of the verdict from the end of the
        stage, meaningful where ``forecast_mask``.
      forecast_mask: bool [G, S]; the stage is over, its feedback is in, and the critic
        has learnt something.
      paid: bool [G, S]; an immediate advantage (possibly 0) was applied here.
      divisor: float [S]; the divisor it was applied with (1 where none was).
    """

    acted: Annotated[jax.Array, "bool [G, S]"]
    reward: Annotated[jax.Array, "float [G, S]"]
    reward_mask: Annotated[jax.Array, "bool [G, S]"]
    verdict: Annotated[jax.Array, "float [G]"]
    verdict_mask: Annotated[jax.Array, "bool [G]"]
    lost: Annotated[jax.Array, "bool [G]"]
    state_id: Annotated[jax.Array, "int [G, S]"]
    level: Annotated[jax.Array, "int []"]
    ready: Annotated[jax.Array, "bool [S + 1]"]
    settled: Annotated[jax.Array, "bool []"]
    fresh: Annotated[jax.Array, "bool [S]"]
    forecast: Annotated[jax.Array, "float [G, S]"]
    forecast_mask: Annotated[jax.Array, "bool [G, S]"]
    applied_advantage: Annotated[jax.Array, "float [G, S]"]
    paid: Annotated[jax.Array, "bool [G, S]"]
    divisor: Annotated[jax.Array, "float [S]"]

    @classmethod
    def create(cls, *, reward, verdict, ready, **others) -> "StageEvents":
        """Events of one group, or of [...] groups, from what there is to say.

        NaN is *not in*: a reward or verdict that has not come, or never will. The rest
        is what holds if nothing is said: everybody wrote every stage and nobody was
        lost, every state is its own, nothing was served or applied before, nothing is
        too old, no critic forecasts.

        Args:
          reward: float [..., G, S]; NaN where it is not in.
          verdict: float [..., G]; NaN where it is not in.
          ready: bool [..., S + 1]; the events to serve now.
          **others: any other field, in place of what holds otherwise.
        """
        reward, verdict = jnp.asarray(reward), jnp.asarray(verdict)
        *groups, members, stages = reward.shape
        per_stage, own_state = reward.shape, jnp.arange(members * stages)
        fields = {
            "acted": jnp.ones(per_stage, bool),
            "reward": reward,
            "reward_mask": jnp.isfinite(reward),
            "verdict": verdict,
            "verdict_mask": jnp.isfinite(verdict),
            "lost": jnp.zeros(verdict.shape, bool),
            "state_id": jnp.broadcast_to(own_state.reshape(-1, stages), per_stage),
            "level": jnp.zeros(groups, jnp.int32),
            "ready": jnp.asarray(ready),
            "settled": jnp.zeros(groups, bool),
            "fresh": jnp.ones((*groups, stages), bool),
            "forecast": jnp.zeros(per_stage, jnp.float32),
            "forecast_mask": jnp.zeros(per_stage, bool),
            "applied_advantage": jnp.zeros(per_stage, jnp.float32),
            "paid": jnp.zeros(per_stage, bool),
            "divisor": jnp.ones((*groups, stages), jnp.float32),
        }
        return cls(**fields | others)

    def after(self, credit: "StageCredit", **news) -> "StageEvents":
        """The events of the next call: the books moved on, and whatever is new.

        Args:
          credit: what the rule answered to these events.
          **news: fields that have changed; without ``ready`` nothing is ready.
        """
        books = {
            "applied_advantage": credit.applied_advantage,
            "paid": credit.paid,
            "divisor": credit.divisor,
            "settled": self.settled | self.ready[..., -1],
            "ready": jnp.zeros_like(self.ready),
        }
        return dataclasses.replace(self, **books | news)


@record
class StageCredit:
    """What a credit rule answers for a group, or for [...] of them; the phase first.

    Attributes:
      advantage: float [2, ..., G, S]; 0 where nothing is due.
      mask: bool [2, ..., G, S]; the phase serves this member's stage now.
      clip_low: float [2, ..., G, S]; the ratio may fall to 1 - clip_low.
      clip_high: float [2, ..., G, S]; the ratio may rise to 1 + clip_high.
      applied_advantage: float [..., G, S]; as in ``StageEvents``, after this service.
      paid: bool [..., G, S]; the same.
      divisor: float [..., S]; the same.
      zero_variance: bool [2, ..., S]; served here, but nothing told the members apart.
    """

    advantage: Annotated[jax.Array, "float [2, ..., G, S]"]
    mask: Annotated[jax.Array, "bool [2, ..., G, S]"]
    clip_low: Annotated[jax.Array, "float [2, ..., G, S]"]
    clip_high: Annotated[jax.Array, "float [2, ..., G, S]"]
    applied_advantage: Annotated[jax.Array, "float [..., G, S]"]
    paid: Annotated[jax.Array, "bool [..., G, S]"]
    divisor: Annotated[jax.Array, "float [..., S]"]
    zero_variance: Annotated[jax.Array, "bool [2, ..., S]"]


@record
class TokenCredit:
    """Credit written onto token columns; of both phases, the phase first: [2, ..., T].

    Attributes:
      advantage: float [..., T].
      clip_low: float [..., T].
      clip_high: float [..., T].
      mask: bool [..., T]; true on trained tokens only.
    """

    advantage: Annotated[jax.Array, "float [..., T]"]
    clip_low: Annotated[jax.Array, "float [..., T]"]
    clip_high: Annotated[jax.Array, "float [..., T]"]
    mask: Annotated[jax.Array, "bool [..., T]"]
