"""What is asked of the sandbox and what comes back; records only."""

import dataclasses
import enum
import math
from typing import Any

#: A longer program is its own fault and is not run.
MAX_PROGRAM_BYTES = 64 << 10
#: What a problem may ask for; more is refused when the job is submitted.
MAX_CALLS = 1000
MAX_ARGUMENT_BYTES = 1 << 20
MAX_CHECKER_BYTES = 256 << 10
#: Of the text of an exception.
MAX_TEXT = 300


class SandboxUnavailable(RuntimeError):
    """This machine lacks a wall that must stand; names it, and what to do."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """What one program may use.

    Attributes:
      cpu_seconds: processor time, about 3 ms of it the sandbox's own. This is the limit
        that counts: wall time on a busy machine judges the neighbours. The timer that
        enforces it ticks every 1 to 10 ms.
      wall_seconds: after which even a program that waits is ended; by default 30 times
        the processor time and at least 10.
      memory_bytes: on top of what an idle worker has mapped.
      answer_bytes: of all answers together, packed.
      printed_characters: how much of what it prints is kept.
    """

    cpu_seconds: float = 1.0
    wall_seconds: float | None = None
    memory_bytes: int = 256 << 20
    answer_bytes: int = 64 << 10
    printed_characters: int = 1000

    def __post_init__(self):
        if self.wall_seconds is None:
            object.__setattr__(self, "wall_seconds", max(10.0, 30 * self.cpu_seconds))
        for field, low, high in (
            ("cpu_seconds", 0.01, 3600),
            ("wall_seconds", self.cpu_seconds, 36000),
            ("memory_bytes", 16 << 20, 1 << 40),
            ("answer_bytes", 64, 16 << 20),
            ("printed_characters", 0, 1 << 20),
        ):
            value = getattr(self, field)
            if not (math.isfinite(value) and low <= value <= high):
                raise ValueError(f"{field} is {value!r}; it must be in [{low}, {high}]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Calls:
    """Run a program and call one of its functions.

    Inputs that a program should not see beside others (hidden tests) are a job of their
    own: one that runs sees all of its own arguments.

    Attributes:
      program: Python source; nobody has read it.
      entry: the name of the function.
      arguments: for each call its positional arguments, plain data (`values`).
      limits: of all calls together.
    """

    program: str
    entry: str
    arguments: list[tuple]
    limits: Limits = Limits()

    @property
    def num_outcomes(self) -> int:
        return len(self.arguments)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Check:
    """Let a checker with assertions question a function of a program.

    The two run in processes of their own. The checker's ``candidate`` sends the
    arguments over and receives plain data, so no object of the program comes near an
    assertion; an exception arrives as the built-in one of that name, else as a
    RuntimeError. A checker that looks whether its argument was changed in place cannot
    see it.

    Attributes:
      program, entry: as of Calls.
      checker: Python source that defines ``check(candidate)``; it is the problem's own
        and never in the memory of the program's process.
      limits: of each of the two processes.
    """

    program: str
    entry: str
    checker: str
    limits: Limits = Limits()

    @property
    def num_outcomes(self) -> int:
        return 1


class Answer(enum.StrEnum):
    """What became of one call."""

    VALUE = "value"
    NOT_PLAIN = "not plain"  # it returned a generator, an object of its own class ...
    RAISED = "raised"
    TOO_LARGE = "too large"
    MISSING = "missing"  # the program ended before


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """One call: ``value`` if it is a VALUE; ``text`` says what happened otherwise."""

    answer: Answer
    value: Any = None
    text: str = ""
    printed: str = ""


class Ending(enum.StrEnum):
    """How a job ended. Whether answers are right is not known here (`judging`)."""

    ANSWERED = "answered"
    # the program's fault
    RAISED = "raised"  # an exception left the program or one of its calls
    DIED = "died"  # by a signal, or it exited before it had answered
    TOO_LARGE = "too large"
    TOO_SLOW = "too slow"
    GARBLED = "garbled"  # it wrote into its own answers
    # ours: says nothing about the program
    OUR_FAULT = "our fault"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What a job left behind.

    Attributes:
      ending: see Ending.
      text: one line about an ending other than ANSWERED.
      outcomes: one per call, also of those it never came to; of a Check a single one,
        whose value is whether the checker was content.
      printed: what the program printed before the first call.
      seconds_queued: from submission to the fork.
      seconds_run: wall time of the process.
      seconds_cpu: its processor time, user and system.
      peak_bytes: its largest resident size.
    """

    ending: Ending
    text: str = ""
    outcomes: tuple[Outcome, ...] = ()
    printed: str = ""
    seconds_queued: float = 0.0
    seconds_run: float = 0.0
    seconds_cpu: float = 0.0
    peak_bytes: int = 0


def unanswered(job, ending, text, **measured) -> Result:
    """The result of a job of which nothing came back."""
    outcome = Outcome(answer=Answer.MISSING)
    outcomes = (outcome,) * job.num_outcomes
    return Result(ending=ending, text=text, outcomes=outcomes, **measured)


@dataclasses.dataclass(frozen=True)
class Layer:
    """A wall, whether it must stand and does, and what is known about it."""

    name: str
    required: bool
    standing: bool
    detail: str
