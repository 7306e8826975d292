"""Settings of the code-execution environment, validated where they are made."""

import dataclasses

from agentic_grpo.envs.code_execution.problems.families import FAMILIES
from agentic_grpo.envs.code_execution.problems.vocabulary import (
    STAGE_NAMES,
)
from agentic_grpo.envs.latency import Latency
from agentic_grpo.errors import require, require_choice

FIDELITY_MODES = ("blind", "deceptive")
VERDICT_RULES = ("all_or_nothing", "graded")

#: Stages whose text is a program.
PROGRAM_STAGES = ("code", "debug")

_NEXT_TICK, _TWENTY_TICKS = Latency(minimum=1), Latency(minimum=20)


def _require_share(field: str, value: float):
    require(0.0 <= value <= 1.0, field, value, "in [0, 1]")


def _require_names(field: str, names, known):
    for name in names:
        require_choice(field, name, known)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CodeExecutionConfig:
    """What is asked, how it is judged, and when the answers come.

    Attributes:
      families: names of the problem families; those that are held out serve the split
        ``compositions`` alone.
      stages: the workflow in order, of ``vocabulary.STAGE_NAMES``; any may be left out
        or repeated, but a program must be written somewhere.
      unrewarded_stages: names of stages that have no reward of their own; the verdict
        alone pays them.
      hidden_rate: share of problems whose statement hides a parameter.
      num_cases: small cases that the hypothesis predicts, n = 0, 1, ...
      num_visible_tests, num_hidden_tests: sizes of a group's two suites.
      num_own_tests: inputs that the tests stage writes.
      num_mutants: one-instruction mutants that they should kill.
      visible_fidelity: probability that a visible test is hidden-like (large input,
        strict fuel); one for all, or pairs (family, value).
      fidelity_mode: how the other visible tests mislead, ``blind`` or ``deceptive``.
      verdict: ``all_or_nothing`` or ``graded``.
      speed_score: right answers to timed tests score 0.5 .. 1 by speed-up.
      full_speedup: the speed-up over brute force that scores 1.
      out_of_fuel_score: score of a test that ran out of fuel.
      strict_fuel, loose_fuel: instructions allowed on large and on small inputs.
      stage_cost: taken from estimates and verdict for every stage written.
      length_penalty: taken from them for the share of the episode's action columns
        that was written; in full at level 1, falling linearly to none at level 5.
      stage_latency: of every stage that ``latency_of_stage`` does not name.
      latency_of_stage: pairs (stage name, Latency).
      verdict_latency: from a member's end to its verdict.
    """

    families: tuple[str, ...] = (
        "multiples",
        "toggle",
        "odd_terms",
        "cubes",
        "staircase",
        "power",
    )
    stages: tuple[str, ...] = ("hypothesis", "code", "debug")
    unrewarded_stages: tuple[str, ...] = ()
    hidden_rate: float = 0.5
    num_cases: int = 2
    num_visible_tests: int = 4
    num_hidden_tests: int = 4
    num_own_tests: int = 2
    num_mutants: int = 4
    visible_fidelity: float | tuple[tuple[str, float], ...] = 0.25
    fidelity_mode: str = "blind"
    verdict: str = "all_or_nothing"
    speed_score: bool = False
    full_speedup: float = 4.0
    out_of_fuel_score: float = 0.1
    strict_fuel: int = 48
    loose_fuel: int = 128
    stage_cost: float = 0.0
    length_penalty: float = 0.0
    stage_latency: Latency = _NEXT_TICK
    latency_of_stage: tuple[tuple[str, Latency], ...] = ()
    verdict_latency: Latency = _TWENTY_TICKS

    def __post_init__(self):
        self._check_workflow()
        require(isinstance(self.families, tuple), "families", self.families, "a tuple")
        require(len(self.families) > 0, "families", self.families, "not empty")
        _require_names("families", self.families, FAMILIES)
        require(
            len(set(self.families)) == len(self.families),
            "families",
            self.families,
            "free of repetitions",
        )
        for name, low, high in (
            ("num_cases", 1, 4),
            ("num_visible_tests", 1, 8),
            ("num_hidden_tests", 2, 16),
            ("num_own_tests", 1, 4),
            ("num_mutants", 1, 8),
            ("strict_fuel", 48, 64),
            ("loose_fuel", 128, 1024),
        ):
            value = getattr(self, name)
            holds = isinstance(value, int) and low <= value <= high
            require(holds, name, value, f"an integer in {low} .. {high}")
        for name in (
            "hidden_rate",
            "out_of_fuel_score",
            "stage_cost",
            "length_penalty",
        ):
            _require_share(name, getattr(self, name))
        for family, value in self.fidelity_of_family.items():
            _require_share(f"visible_fidelity of {family}", value)
        _require_names("fidelity_mode", (self.fidelity_mode,), FIDELITY_MODES)
        _require_names("verdict", (self.verdict,), VERDICT_RULES)
        require(
            self.full_speedup > 1, "full_speedup", self.full_speedup, "greater than 1"
        )

    def _check_workflow(self):
        require(isinstance(self.stages, tuple), "stages", self.stages, "a tuple")
        _require_names("stages", self.stages, STAGE_NAMES)
        require(
            any(name in PROGRAM_STAGES for name in self.stages),
            "stages",
            self.stages,
            "a workflow in which a program is written (code or debug)",
        )
        require(
            self.hidden_rate == 0 or "hypothesis" in self.stages,
            "hidden_rate",
            self.hidden_rate,
            "0 in a workflow without a hypothesis stage, which reveals the parameter",
        )
        latency_names = [name for name, _ in self.latency_of_stage]
        _require_names("latency_of_stage", latency_names, self.stages)
        _require_names("unrewarded_stages", self.unrewarded_stages, self.stages)

    @property
    def fidelity_of_family(self) -> dict[str, float]:
        """The fidelity of every family.

        Raises:
          ValueError: pairs were given that do not name each family once.
        """
        if isinstance(self.visible_fidelity, (int, float)):
            return dict.fromkeys(self.families, self.visible_fidelity)
        names = [name for name, _ in self.visible_fidelity]
        require(
            sorted(names) == sorted(self.families),
            "visible_fidelity",
            self.visible_fidelity,
            f"one number, or one pair for each family of {self.families}",
        )
        return dict(self.visible_fidelity)

    def latency_of(self, stage_name: str) -> Latency:
        return dict(self.latency_of_stage).get(stage_name, self.stage_latency)
