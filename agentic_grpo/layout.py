"""Which token column of an episode belongs to what: stages, widths, who sees whom.

Static: a layout is part of the compiled program, never an array in it.
"""

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np

from agentic_grpo.errors import require
from agentic_grpo.records import StageKind


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
        require(self.action_width >= 1, "action_width", self.action_width, "at least 1")
        for field in ("observation_width", "max_latency", "marker"):
            value = getattr(self, field)
            require(value >= 0, field, value, "at least 0")


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
      visibility: bool tuple [S + 1, S + 1]; ``visibility[q][k]``: may tokens of segment
        q attend to tokens of segment k? Segment 0 is the prompt, s + 1 is stage s.
    """

    prompt_width: int
    stages: tuple[StageSpec, ...]
    visibility: tuple[tuple[bool, ...], ...]

    def __post_init__(self):
        names = [stage.name for stage in self.stages]
        require(self.prompt_width >= 0, "prompt_width", self.prompt_width, "at least 0")
        require(len(names) > 0, "stages", names, "at least one stage")
        require(len(set(names)) == len(names), "stages", names, "of different names")
        segments = len(names) + 1
        require(
            np.shape(self.visibility) == (segments, segments),
            "visibility",
            self.visibility,
            f"{segments} x {segments}: the prompt and every stage",
        )
        hidden = [q for q in range(segments) if not self.visibility[q][q]]
        require(
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
    def holds_actions(self) -> np.ndarray:
        """bool [T]: the columns that an agent writes, behind the markers."""
        holds = np.zeros(self.num_columns, bool)
        for offset, stage in zip(self.offsets, self.stages, strict=True):
            holds[offset + 1 : offset + 1 + stage.action_width] = True
        return holds

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
    def kinds(self) -> tuple[StageKind, ...]:
        """What each stage's reward claims to be."""
        return tuple(stage.kind for stage in self.stages)


def fully_visible(num_stages: int) -> tuple[tuple[bool, ...], ...]:
    """The visibility under which every stage sees all that came before it."""
    return ((True,) * (num_stages + 1),) * (num_stages + 1)


def place(values, stage, layout, *, part, fill):
    """Spreads per-stage values [N, G, W] onto the token columns of each lane's stage.

    Args:
      values: [N, G, W], W the widest action (or observation) of any stage.
      stage: int32 [N].
      layout: the episode's columns.
      part: "marker", "action" or "observation".
      fill: value of all other columns.

    Returns:
      [N, G, T].
    """
    lanes, members, _ = values.shape
    placed = jnp.full((lanes, members, layout.num_columns), fill, values.dtype)
    for index, spec in enumerate(layout.stages):
        start, width = {
            "marker": (0, 1),
            "action": (1, spec.action_width),
            "observation": (1 + spec.action_width, spec.observation_width),
        }[part]
        first = layout.offsets[index] + start
        here = jnp.where((stage == index)[:, None, None], values[:, :, :width], fill)
        placed = placed.at[:, :, first : first + width].set(here.astype(values.dtype))
    return placed
