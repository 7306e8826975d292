"""From what a member wrote to a job, and from the job's result to a score.

What was expected never enters the sandbox: answers are compared outside, by exact type.
The score is the share of calls that are right; a program that fails in one call keeps
those it has answered.
"""

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

from agentic_grpo.envs.python_tasks.config import PythonTasksConfig
from agentic_grpo.envs.python_tasks.problem import Call, Problem
from agentic_grpo.envs.python_tasks.protocols import Sandbox
from agentic_grpo.envs.python_tasks.showing import show, show_call
from agentic_grpo.errors import Refused

#: Of an exception or a printed line.
_MAX_TEXT = 200


class Suite(enum.Enum):
    """What a text is tried on."""

    VISIBLE = "visible"
    HIDDEN = "hidden"
    PREDICTION = "prediction"  # an expression for what the first visible call returns


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """A job, and what the right answers are.

    Attributes:
      key: (suite, number of the problem, text); equal for equal questions.
      job: for the sandbox.
      entry: the function that is called.
      calls: what it is asked; one without arguments stands for a checker.
    """

    key: tuple[Suite, int, str]
    job: Any
    entry: str
    calls: tuple[Call, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """What came of a question.

    Attributes:
      is_fault: *we* failed; it says nothing about the text.
      right: for each call.
      is_right: all of them are, and nothing failed.
      told: the first call that is not right and what came of it, as one line.
      seconds_queued, seconds_run: in the sandbox.
    """

    is_fault: bool
    right: tuple[bool, ...] = ()
    is_right: bool = False
    told: str = ""
    seconds_queued: float = 0.0
    seconds_run: float = 0.0

    @property
    def score(self) -> float:
        """The share of calls that are right."""
        return sum(self.right) / len(self.right)


OUR_FAULT = Report(is_fault=True)


class Judge:
    """Makes jobs and judges their results, with the limits of a config."""

    def __init__(self, config: PythonTasksConfig, sandbox: Sandbox):
        self._config, self._sandbox = config, sandbox
        memory_bytes = config.memory_bytes
        self._visible, self._hidden = (
            sandbox.limits(cpu_seconds=seconds, memory_bytes=memory_bytes)
            for seconds in (config.visible_cpu_seconds, config.hidden_cpu_seconds)
        )

    def question(
        self, suite: Suite, number: int, problem: Problem, text: str
    ) -> Question:
        """A text of a member as a job for the sandbox.

        Args:
          suite: what it is tried on.
          number: of the problem.
          text: a program, or an expression for a prediction.
        """
        key = suite, number, text
        if suite is Suite.PREDICTION:
            program, entry = f"def predicted():\n    return (\n{text}\n)\n", "predicted"
            calls: tuple[Call, ...] = (Call(args=(), want=problem.visible[0].want),)
            limits = self._visible
        else:
            program, entry = text, problem.entry
            is_visible = suite is Suite.VISIBLE
            calls = problem.visible if is_visible else problem.hidden
            limits = self._visible if is_visible else self._hidden
        if suite is Suite.HIDDEN and problem.checker is not None:
            calls = (Call(args=(), want=True),)
            job = self._sandbox.check(
                program=program, entry=entry, checker=problem.checker, limits=limits
            )
        else:
            arguments = [call.args for call in calls]
            job = self._sandbox.calls(
                program=program, entry=entry, arguments=arguments, limits=limits
            )
        return Question(key=key, job=job, entry=entry, calls=calls)

    def report(self, question: Question, result) -> Report:
        """What a result of the sandbox says; exceptions are the caller's."""
        wanted = [call.want for call in question.calls]
        judgement = self._sandbox.judge(result, wanted)
        measured = {
            "seconds_queued": result.seconds_queued,
            "seconds_run": result.seconds_run,
        }
        if judgement.kind == "our fault":
            return dataclasses.replace(OUR_FAULT, told=result.text, **measured)
        return Report(
            is_fault=False,
            right=judgement.right,
            is_right=judgement.kind == "right",
            told=self._tell(question, result, judgement.right),
            **measured,
        )

    def _tell(self, question, result, right):
        """One line about the first call that is not right."""
        if all(right):
            return "all calls are right" if result.ending == "answered" else result.text
        first = right.index(False)
        call, outcome = question.calls[first], result.outcomes[first]
        told = f"{show_call(question.entry, call.args)} {_came_of(outcome, result)}"
        if self._config.tells_wanted:
            told += f", not {show(call.want)}"
        return " ".join(told.split())


def _came_of(outcome, result):
    if outcome.answer == "value":
        return f"returned {show(outcome.value)}"
    if outcome.answer == "raised":
        return f"raised {outcome.text[:_MAX_TEXT]}"
    if outcome.answer == "missing":
        if result.ending == "too slow":
            return "took too long"
        return f"was not answered: {result.text[:_MAX_TEXT]}"
    return f"returned what is {outcome.answer}: {outcome.text[:_MAX_TEXT]}"


def check_references(
    problems: Sequence[Problem], config: PythonTasksConfig, sandbox: Sandbox
) -> None:
    """Runs every reference on its own calls.

    Raises:
      Refused: one fails; lists all that do.
      RuntimeError: the sandbox itself failed.
    """
    judge = Judge(config, sandbox)
    asked = [
        (problem, judge.question(suite, number, problem, problem.reference))
        for number, problem in enumerate(problems)
        if problem.reference is not None
        for suite in (Suite.VISIBLE, Suite.HIDDEN)
        if suite is Suite.HIDDEN or problem.visible
    ]
    results = sandbox.pool.run([question.job for _, question in asked])
    failing: dict[str, str] = {}
    for (problem, question), result in zip(asked, results, strict=True):
        report = judge.report(question, result)
        if report.is_fault:
            raise RuntimeError(f"the sandbox failed: {report.told}")
        if not report.is_right:
            suite = question.key[0].value
            failing.setdefault(problem.id, f"{suite}: {report.told}")
    if failing:
        listed = "; ".join(f"{id}: {told}" for id, told in failing.items())
        rule = f"problems whose reference passes their own calls; {listed}"
        raise Refused("problems", list(failing), rule)
