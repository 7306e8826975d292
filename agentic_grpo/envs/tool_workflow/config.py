"""Settings of the tool-workflow environment, validated where they are made."""

import dataclasses

from agentic_grpo.envs.latency import Latency
from agentic_grpo.envs.tool_workflow.requests import KINDS
from agentic_grpo.envs.tool_workflow.vocabulary import MAX_PARTS, STAGE_NAMES
from agentic_grpo.errors import require, require_choice

FIDELITY_MODES = ("blind", "deceptive")
VERDICT_RULES = ("all_or_nothing", "graded")

_NEXT_TICK, _TWENTY_TICKS = Latency(minimum=1), Latency(minimum=20)


def _require_names(field: str, names, known):
    for name in names:
        require_choice(field, name, known)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ToolWorkflowConfig:
    """What is asked, how it is judged, and when the answers come.

    Attributes:
      stages: the workflow in order, of ``vocabulary.STAGE_NAMES``; every ``call`` is
        the answer to one request, so 3 to 6 of them make chains of 6 to 12 calls.
      kinds: names of the kinds of requests.
      moving_rate: share of problems whose cached copies are out of date.
      hidden_rate: share of problems whose last request hides its digit.
      num_checks: records (or looks at the example) of the provisional checks.
      num_audited: records of the verdict.
      visible_fidelity: probability that a check looks at a record like the audited
        ones and holds the budget; otherwise it looks at the example.
      fidelity_mode: how checks of the example mislead, ``blind`` or ``deceptive``.
      verdict: ``all_or_nothing`` or ``graded``.
      budget_slack: what the budget holds beyond the cost of the right chain on the
        right route; a revision takes 1 of it.
      stage_latency: of every stage that ``latency_of_stage`` does not name.
      latency_of_stage: pairs (stage name, Latency).
      verdict_latency: from a member's end to its verdict.
    """

    stages: tuple[str, ...] = ("plan", "call", "call", "call", "check", "revise")
    kinds: tuple[str, ...] = tuple(KINDS)
    moving_rate: float = 0.5
    hidden_rate: float = 0.5
    num_checks: int = 4
    num_audited: int = 4
    visible_fidelity: float = 0.25
    fidelity_mode: str = "blind"
    verdict: str = "all_or_nothing"
    budget_slack: int = 1
    stage_latency: Latency = _NEXT_TICK
    latency_of_stage: tuple[tuple[str, Latency], ...] = ()
    verdict_latency: Latency = _TWENTY_TICKS

    def __post_init__(self):
        for field, known in (("stages", STAGE_NAMES), ("kinds", KINDS)):
            names = getattr(self, field)
            require(isinstance(names, tuple), field, names, "a tuple")
            require(len(names) > 0, field, names, "not empty")
            _require_names(field, names, known)
        require(
            len(set(self.kinds)) == len(self.kinds),
            "kinds",
            self.kinds,
            "free of repetitions",
        )
        self._check_workflow()
        for name, low, high in (
            ("num_checks", 1, 8),
            ("num_audited", 1, 16),
            ("budget_slack", 0, 3),
        ):
            value = getattr(self, name)
            require(low <= value <= high, name, value, f"in {low} .. {high}")
        for name in ("moving_rate", "hidden_rate", "visible_fidelity"):
            value = getattr(self, name)
            require(0.0 <= value <= 1.0, name, value, "in [0, 1]")
        _require_names("fidelity_mode", (self.fidelity_mode,), FIDELITY_MODES)
        _require_names("verdict", (self.verdict,), VERDICT_RULES)

    def _check_workflow(self):
        require(
            1 <= self.num_parts <= MAX_PARTS,
            "stages",
            self.stages,
            f"a workflow with 1 to {MAX_PARTS} call stages",
        )
        require(
            self.moving_rate == 0 or "plan" in self.stages or "revise" in self.stages,
            "moving_rate",
            self.moving_rate,
            "0 in a workflow without a plan or revise stage, which choose the route",
        )
        require(
            self.hidden_rate == 0 or self._can_use_what_is_hidden(),
            "hidden_rate",
            self.hidden_rate,
            "0 unless a check, which reveals the digit, precedes the last call or a"
            " revise stage",
        )
        _require_names(
            "latency_of_stage", [name for name, _ in self.latency_of_stage], self.stages
        )

    def _can_use_what_is_hidden(self) -> bool:
        if "check" not in self.stages:
            return False
        after = self.stages[self.stages.index("check") + 1 :]
        return "call" in after or "revise" in after

    @property
    def num_parts(self) -> int:
        """P: call stages, and requests of a problem."""
        return self.stages.count("call")

    def latency_of(self, stage_name: str) -> Latency:
        return dict(self.latency_of_stage).get(stage_name, self.stage_latency)
