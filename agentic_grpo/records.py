"""Frozen records that cross rooms, with their shapes.

Axis letters: **R** snapshot rows (groups), **G** members, **S** acting stages,
**T** token columns of a whole episode. A record that is documented for one group
is stacked by the caller's ``vmap``; the leading axes then come first.
"""

import dataclasses
import enum
import functools

import jax
import numpy as np

#: A tick that never comes: the event has not been scheduled.
NEVER = np.iinfo(np.int32).max

#: Position of each phase on the leading axis of ``TokenCredit``.
IMMEDIATE, CORRECTION = 0, 1
PHASES = ("immediate", "correction")


class StageKind(enum.Enum):
    """What a stage reward claims to be (design: "Words and axes")."""

    ESTIMATE = "estimate"  # a provisional verdict on its scale: spent, later taken back
    SKILL = "skill"  # worth having by itself: spent with a weight and kept
    NONE = "none"  # no stage reward; the verdict alone pays this stage


class EndReason(enum.IntEnum):
    """Why a member's episode ended; ``terminated`` and ``truncated`` kept apart."""

    RUNNING = 0
    SUBMITTED = 1  # terminated: the agent handed its work in
    OUT_OF_STAGES = 2  # truncated: the workflow ended first; its work is still judged
    FAULT = 3  # the environment failed; the member leaves its group, unrewarded


@dataclasses.dataclass(frozen=True, kw_only=True)
class StageSpec:
    """One acting stage of a workflow. Static.

    Attributes:
      name: unique within the workflow.
      kind: what the stage reward claims to be.
      action_width: most tokens that the agent writes, its end token included.
      observation_width: most tokens that the environment answers with.
      max_latency: most ticks between writing and its reward and feedback.
      marker: token that opens the stage; written by the environment.
    """

    name: str
    kind: StageKind
    action_width: int
    observation_width: int
    max_latency: int
    marker: int

    def __post_init__(self):
        _require(
            self.action_width >= 1, "action_width", self.action_width, "at least 1"
        )
        for field in ("observation_width", "max_latency", "marker"):
            value = getattr(self, field)
            _require(value >= 0, field, value, "at least 0")


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpisodeLayout:
    """Which token column belongs to what. Static; hashable.

    An episode is ``[prompt | marker actions observation | marker actions ... ]``: every
    stage owns fixed columns, a stage that a member never reached stays empty. The
    marker stands directly before the actions, so column ``t - 1`` always holds the
    real token that predicts the action in column ``t``.

    Attributes:
      prompt_width: columns of the statement.
      stages: the acting stages, in order.
      visibility: bool tuple [S + 1][S + 1]; ``visibility[q][k]``: may tokens of segment
        q attend to tokens of segment k? Segment 0 is the prompt, s + 1 is stage s.
    """

    prompt_width: int
    stages: tuple[StageSpec, ...]
    visibility: tuple[tuple[bool, ...], ...]

    def __post_init__(self):
        names = [stage.name for stage in self.stages]
        _require(
            self.prompt_width >= 0, "prompt_width", self.prompt_width, "at least 0"
        )
        _require(len(names) > 0, "stages", names, "at least one stage")
        _require(len(set(names)) == len(names), "stages", names, "of different names")
        segments = len(names) + 1
        _require(
            np.shape(self.visibility) == (segments, segments),
            "visibility",
            self.visibility,
            f"{segments} x {segments}: the prompt and every stage",
        )
        hidden = [q for q in range(segments) if not self.visibility[q][q]]
        _require(
            not hidden,
            "visibility",
            self.visibility,
            "true on its diagonal: a stage reads its own marker",
        )

    @property
    def num_stages(self) -> int:
        return len(self.stages)

    @functools.cached_property
    def offsets(self) -> np.ndarray:
        """int32 [S]: the column of each stage's marker."""
        widths = [1 + s.action_width + s.observation_width for s in self.stages]
        return (self.prompt_width + np.cumsum([0, *widths[:-1]])).astype(np.int32)

    @property
    def num_columns(self) -> int:
        last = self.stages[-1]
        return int(self.offsets[-1]) + 1 + last.action_width + last.observation_width

    @property
    def max_action_width(self) -> int:
        return max(stage.action_width for stage in self.stages)

    @property
    def max_observation_width(self) -> int:
        return max(stage.observation_width for stage in self.stages)

    @functools.cached_property
    def segment_of_column(self) -> np.ndarray:
        """int32 [T]: 0 on the prompt, s + 1 on the columns of stage s."""
        columns = np.arange(self.num_columns)
        return np.searchsorted(self.offsets, columns, side="right").astype(np.int32)

    @functools.cached_property
    def column_visibility(self) -> np.ndarray:
        """bool [T, T]: may column q attend to column k? Causal, and by stage."""
        segments = self.segment_of_column
        causal = np.tril(np.ones((self.num_columns,) * 2, bool))
        return (
            causal & np.asarray(self.visibility)[segments[:, None], segments[None, :]]
        )

    @property
    def action_widths(self) -> np.ndarray:
        """int32 [S]."""
        return np.array([s.action_width for s in self.stages], np.int32)

    @property
    def is_estimate(self) -> np.ndarray:
        """bool [S]."""
        return np.array([s.kind is StageKind.ESTIMATE for s in self.stages])

    @property
    def is_skill(self) -> np.ndarray:
        """bool [S]."""
        return np.array([s.kind is StageKind.SKILL for s in self.stages])


def fully_visible(num_stages: int) -> tuple[tuple[bool, ...], ...]:
    """The visibility under which every stage sees all that came before it."""
    return ((True,) * (num_stages + 1),) * (num_stages + 1)


def _require(condition, field, value, rule):
    if not condition:
        raise ValueError(f"{field}={value!r} must be {rule}")


def record(cls):
    """A frozen, keyword-only dataclass whose fields are all pytree leaves."""
    cls = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    return jax.tree_util.register_dataclass(cls)


@record
class StageEvents:
    """What a credit rule sees of ONE group: rewards that are in, and what was spent.

    Attributes:
      acted: bool [G, S]; the member wrote this stage.
      reward: float [G, S]; the stage reward, meaningful where ``reward_mask``.
      reward_mask: bool [G, S]; it exists, is finite, and came before the deadline.
      verdict: float [G]; the terminal reward, meaningful where ``verdict_mask``.
      verdict_mask: bool [G].
      state_id: int [G, S]; equal ids mean equal states after the stage.
      level: int []; difficulty level of the problem, from 0.
      ready: bool [S + 1]; the events to serve now; the verdict is the last.
      settled: bool []; the verdict was served in an earlier call: the outcome is paid,
        an estimate that comes now has nothing left to say.
      fresh: bool [S]; the stage is young enough to be trained on.
      spent: float [G, S]; advantage already spent and still to be taken back.
      paid: bool [G, S]; an immediate advantage (possibly 0) was spent here.
      divisor: float [S]; the divisor it was spent with (1 where none was).
    """

    acted: jax.Array
    reward: jax.Array
    reward_mask: jax.Array
    verdict: jax.Array
    verdict_mask: jax.Array
    state_id: jax.Array
    level: jax.Array
    ready: jax.Array
    settled: jax.Array
    fresh: jax.Array
    spent: jax.Array
    paid: jax.Array
    divisor: jax.Array


@record
class StageCredit:
    """What a credit rule answers for ONE group; the leading axis is the phase.

    Attributes:
      advantage: float [2, G, S]; 0 where nothing is due.
      mask: bool [2, G, S]; the phase serves this member's stage now.
      clip_low: float [2, G, S]; the ratio may fall to 1 - clip_low.
      clip_high: float [2, G, S]; the ratio may rise to 1 + clip_high.
      spent, paid, divisor: as in ``StageEvents``, after this service.
      silent: bool [2, S]; served here, but nothing told the members apart.
    """

    advantage: jax.Array
    mask: jax.Array
    clip_low: jax.Array
    clip_high: jax.Array
    spent: jax.Array
    paid: jax.Array
    divisor: jax.Array
    silent: jax.Array


@record
class TokenCredit:
    """Credit written onto token columns; the leading axis is the phase.

    Attributes:
      advantage: float [2, ..., T].
      clip_low: float [2, ..., T].
      clip_high: float [2, ..., T].
      mask: bool [2, ..., T]; true on trained tokens only.
    """

    advantage: jax.Array
    clip_low: jax.Array
    clip_high: jax.Array
    mask: jax.Array
