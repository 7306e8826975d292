"""The options that credit rules share, as three small records; checked where made."""

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple

import jax

from agentic_grpo.errors import require, require_choice
from agentic_grpo.ops.doors import Array
from agentic_grpo.ops.fills import FILLS
from agentic_grpo.ops.group_advantages import (
    BASELINES,
    DIVISORS,
    GroupAdvantages,
    group_advantages,
)
from agentic_grpo.records import StageKind

#: How much of a settled group's weight is left after one more group has settled.
DECAY = 0.98


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """What an advantage is: (r - baseline) / divisor, of values or of ranks.

    Attributes:
      divisor: "own" (deviation of the values), "stage" (the same, frozen when the stage
        is paid, and sigma_N where it is under 0.1), "running" (sigma_N, a moving
        average over groups) or "none".
      baseline: "mean" or "leave_one_out".
      use_ranks: compare centred ranks instead of values.
    """

    divisor: str = "running"
    baseline: str = "mean"
    use_ranks: bool = False

    def __post_init__(self) -> None:
        require_choice("divisor", self.divisor, DIVISORS)
        require_choice("baseline", self.baseline, BASELINES)

    def advantages(
        self, values: Array, population: Array, sigma: jax.Array
    ) -> GroupAdvantages:
        """``group_advantages`` of the values [G] of one group, sigma_N being sigma."""
        return group_advantages(
            values,
            population,
            divisor=self.divisor,
            baseline=self.baseline,
            use_ranks=self.use_ranks,
            sigma=sigma,
        )

    def allow(self, *, divisors: Iterable[str], ranks: bool = False) -> None:
        """Raises ``Refused`` for what a credit rule would have to ignore."""
        require_choice("divisor", self.divisor, divisors)
        holds = ranks or not self.use_ranks
        require(holds, "use_ranks", True, "False: this rule compares values")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fill:
    """What members that had stopped count as, by kind of stage; see ``fill_stopped``.

    Attributes:
      estimates: of rewards on the scale of the verdict.
      skills: of rewards that are worth having by themselves, which add up.
    """

    estimates: str = "carry_forward"
    skills: str = "zero"

    def __post_init__(self) -> None:
        require_choice("fill", self.estimates, FILLS)
        require_choice("skill_fill", self.skills, FILLS)


class Clip(NamedTuple):
    """How far the ratio of probabilities may move: [1 - low, 1 + high]."""

    low: float
    high: float


#: Decided by the credit study: narrower clips hold every rule back.
CLIP = Clip(0.8, 0.8)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Clips:
    """The clips of both phases.

    Attributes:
      first: of immediate credit, and of a verdict that nothing was paid before.
      correction: of every other verdict.
    """

    first: Clip = CLIP
    correction: Clip = CLIP

    def __post_init__(self) -> None:
        check_clip("clip", self.first)
        check_clip("correction_clip", self.correction)


def check_clip(name: str, clip: Clip) -> None:
    """Raises ``Refused`` unless 0 <= low <= 1 and 0 <= high."""
    holds = 0.0 <= clip.low <= 1.0 and clip.high >= 0.0
    require(holds, name, clip, "a range with 0 <= low <= 1 and 0 <= high")


def check_decay(decay: float) -> None:
    """Raises ``Refused`` unless 0 < decay < 1."""
    require(0.0 < decay < 1.0, "decay", decay, "in (0, 1)")


def kinds_of_stages(kinds: Iterable[StageKind | str]) -> tuple[StageKind, ...]:
    """The kinds as a tuple; names like "estimate" are kinds, too.

    Raises:
      Refused: there are none, or one of them is no kind.
    """
    kinds = tuple(kinds)
    require(len(kinds) > 0, "kinds", kinds, "one kind per stage")
    for kind in kinds:
        names = [known.value for known in StageKind]
        require_choice("kinds", getattr(kind, "value", kind), names)
    return tuple(map(StageKind, kinds))
