"""Settings of the Python tasks, validated where they are made."""

import dataclasses
import math

from agentic_grpo.errors import require, require_choice

STAGE_NAMES = ("hypothesis", "code", "debug")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PythonTasksConfig:
    """What a member writes, what it is told, and what its programs may use.

    Attributes:
      stages: ``code``; a ``hypothesis`` may come before it, ``debug`` stages after it.
      prompt_width: most tokens of a statement; 0: as many as the longest has.
      program_width: most tokens of a program, its end token included.
      answer_width: the same of a hypothesis.
      feedback_width: most tokens that tell of a failing call.
      tells_wanted: feedback tells what a visible call should have returned, too.
      visible_cpu_seconds, hidden_cpu_seconds: processor time for all visible, or all
        hidden calls of a program together. What takes longer is too slow. The slow
        programs of ``families`` take 3 to 1000 times the default, the quick ones a
        tenth.
      memory_bytes: what a program may allocate.
      cache_size: programs whose answers are remembered.
    """

    stages: tuple[str, ...] = ("code",)
    prompt_width: int = 0
    program_width: int = 64
    answer_width: int = 16
    feedback_width: int = 48
    tells_wanted: bool = False
    visible_cpu_seconds: float = 0.15
    hidden_cpu_seconds: float = 0.15
    memory_bytes: int = 256 << 20
    cache_size: int = 1 << 16

    def __post_init__(self):
        require(isinstance(self.stages, tuple), "stages", self.stages, "a tuple")
        for name in self.stages:
            require_choice("stages", name, STAGE_NAMES)
        before = (
            self.stages[: self.stages.index("code")] if "code" in self.stages else None
        )
        after = None if before is None else self.stages[len(before) + 1 :]
        require(
            before in ((), ("hypothesis",)) and set(after) <= {"debug"},
            "stages",
            self.stages,
            "('code',), with 'hypothesis' before it or not, and 'debug' after it as "
            "often as wanted",
        )
        for name, low in (
            ("prompt_width", 0),
            ("program_width", 2),
            ("answer_width", 2),
            ("feedback_width", 0),
            ("cache_size", 1),
        ):
            value = getattr(self, name)
            holds = type(value) is int and value >= low
            require(holds, name, value, f"an integer, at least {low}")
        for name in ("visible_cpu_seconds", "hidden_cpu_seconds"):
            value = getattr(self, name)
            holds = math.isfinite(value) and 0.01 <= value <= 3600
            require(holds, name, value, "in [0.01, 3600]")
        require(
            16 << 20 <= self.memory_bytes <= 1 << 40,
            *("memory_bytes", self.memory_bytes, "in [2**24, 2**40]"),
        )
