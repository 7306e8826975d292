"""Right or wrong, decided outside the sandbox."""

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

from agentic_grpo.sandbox import values
from agentic_grpo.sandbox.jobs import Answer, Ending, Result


class Kind(enum.StrEnum):
    """The four ends that credit has to keep apart."""

    RIGHT = "right"
    WRONG = "wrong"
    PROGRAM_FAULT = "program's fault"
    OUR_FAULT = "our fault"  # no verdict on the program: it leaves its group


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judgement:
    """The kind of the whole, and ``right`` for each call.

    A call that was answered before the program failed in a later one still counts in
    ``right``; the kind is RIGHT only if all are and nothing failed.
    """

    kind: Kind
    right: tuple[bool, ...]


def judge(
    result: Result,
    expected: Sequence[Any],
    *,
    relative: float = 1e-6,
    absolute: float = 1e-9,
) -> Judgement:
    """Compares the answers with what was expected of them (`values.equal`).

    Args:
      result: of a job; of a Check with ``expected=[True]``.
      expected: a value per call.
      relative, absolute: tolerance of floats.

    Raises:
      ValueError: not one expected value per call, or one that is not plain data.
    """
    if len(expected) != len(result.outcomes):
        raise ValueError(
            f"expected has {len(expected)} values for {len(result.outcomes)} calls; "
            "give one per call"
        )
    right = tuple(
        values.equal(outcome.value, value, relative=relative, absolute=absolute)
        and outcome.answer is Answer.VALUE
        for outcome, value in zip(result.outcomes, expected, strict=True)
    )
    if result.ending is Ending.OUR_FAULT:
        kind = Kind.OUR_FAULT
    elif result.ending is not Ending.ANSWERED:
        kind = Kind.PROGRAM_FAULT
    else:
        kind = Kind.RIGHT if all(right) else Kind.WRONG
    return Judgement(kind=kind, right=right)
