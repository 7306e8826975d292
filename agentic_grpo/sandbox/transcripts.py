"""Reads, on the host, what came back from a job; believes as little as it can.

The lines of a program (`program`) are its own word once it has said "ready". They are
bounded, parsed without trust, and become outcomes; what the worker measured decides the
ending. Whatever a program sends, nothing here raises.
"""

import dataclasses
import os
import signal

from agentic_grpo.sandbox import jobs, values
from agentic_grpo.sandbox.jobs import Answer, Ending, Outcome, Result

#: A harness that nobody tampered with says less than this around the values of a call.
_BYTES_AROUND_A_CALL = 8 << 10
_BYTES_AROUND_A_JOB = 16 << 10
#: A printed character is at most two \\u escapes of JSON.
_BYTES_PER_CHARACTER = 12


class _Garbled(Exception):
    """A line that the harness does not write."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stream:
    """What one process sent: the bytes, and whether they were too many."""

    data: bytes
    overflowed: bool


def stream_limit(job) -> int:
    """Bytes that may come from one process of a job."""
    return (
        job.limits.answer_bytes
        + job.limits.printed_characters * _BYTES_PER_CHARACTER
        + job.num_outcomes * _BYTES_AROUND_A_CALL
        + _BYTES_AROUND_A_JOB
    )


def read(job, streams, report, *, seconds_queued) -> Result:
    """The result of a job.

    Args:
      job: Calls or Check.
      streams: of its processes; the program's is the first.
      report: of the worker (`worker`).
      seconds_queued: as of Result.
    """
    if "failed" in report:
        return jobs.unanswered(
            job, Ending.OUR_FAULT, report["failed"], seconds_queued=seconds_queued
        )
    status, seconds, peak = report["ends"][0]
    measured = {
        "seconds_queued": seconds_queued,
        "seconds_run": report["seconds"],
        "seconds_cpu": seconds,
        "peak_bytes": peak,
    }
    # the program's own; of a check the checker, which may end before the other begins
    if fault := _before_ready(streams[-1]):
        return jobs.unanswered(job, Ending.OUR_FAULT, fault, **measured)
    if isinstance(job, jobs.Check):
        return _of_check(job, streams, report, measured)
    printed, outcomes, trouble = _outcomes(job, streams[0])
    ending, text = _forced(job, streams[0], status, seconds, report["late"])
    if ending is None:
        ending, text = trouble or _by_outcomes(job, outcomes, status)
    outcomes += [Outcome(answer=Answer.MISSING)] * (job.num_outcomes - len(outcomes))
    return Result(
        ending=ending, text=text, outcomes=tuple(outcomes), printed=printed, **measured
    )


def _before_ready(stream):
    """Why the program never had a say; None if it had."""
    first, newline, _ = stream.data.partition(b"\n")
    if newline and first == b'{"ready": true}':
        return None
    try:
        return f"the walls could not be raised: {values.parse(first)['broken']}"
    except (ValueError, KeyError, TypeError):
        return "the process ended before the program was run"


def _lines(stream):
    """Each whole line after "ready", as a dict.

    Raises:
      _Garbled: at a line that is none.
    """
    for line in stream.data.split(b"\n")[1:-1]:
        try:
            parsed = values.parse(line)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise _Garbled("a line of its answers is not what the harness writes")
        yield parsed


def _outcomes(job, stream):
    """What was printed first, the outcomes so far, and (ending, text) of a trouble."""
    outcomes, printed = [], ""
    try:
        lines = _lines(stream)
        first = next(lines, {"loaded": True})
        printed = _text(first.get("printed", ""), job.limits.printed_characters)
        if "raised" in first:
            return printed, outcomes, (Ending.RAISED, _exception(first))
        if "loaded" not in first:
            raise _Garbled("its first line does not say that it was loaded")
        for line in lines:
            if len(outcomes) == job.num_outcomes:
                raise _Garbled("it gave more answers than there were calls")
            outcomes.append(_outcome(line, job.limits.printed_characters))
    except _Garbled as garbled:
        return printed, outcomes, (Ending.GARBLED, str(garbled))
    return printed, outcomes, None


def _outcome(line, characters):
    printed = _text(line.get("printed", ""), characters)
    if "value" in line:
        try:
            value = values.unpack(line["value"])
        except ValueError as error:
            raise _Garbled(str(error)[: jobs.MAX_TEXT]) from None
        return Outcome(answer=Answer.VALUE, value=value, printed=printed)
    if "raised" in line:
        return Outcome(answer=Answer.RAISED, text=_exception(line), printed=printed)
    for answer in (Answer.NOT_PLAIN, Answer.TOO_LARGE):
        if answer.value in line:
            return Outcome(
                answer=answer, text=_text(line[answer.value]), printed=printed
            )
    raise _Garbled("a line of its answers says nothing")


def _exception(line):
    parts = _text(line.get("raised")), _text(line.get("text"))
    return _text(": ".join(part for part in parts if part))


def _text(value, characters=jobs.MAX_TEXT):
    return value[:characters] if isinstance(value, str) else ""


def _forced(job, stream, status, seconds, late):
    """(ending, text) if the program was ended by force, or was slow; else Nones."""
    limits = job.limits
    if stream.overflowed:
        return Ending.TOO_LARGE, "it sent more bytes than its answers may have"
    if late:
        return Ending.TOO_SLOW, f"not done after {limits.wall_seconds:g} s of wall time"
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    by_clock = number in (signal.SIGPROF, signal.SIGXCPU)
    if by_clock or seconds > limits.cpu_seconds:
        return Ending.TOO_SLOW, f"more than {limits.cpu_seconds:g} s of processor time"
    if number is not None:
        return Ending.DIED, f"by signal {number} ({signal.strsignal(number)})"
    return None, ""


def _by_outcomes(job, outcomes, status):
    for outcome in outcomes:
        if outcome.answer is Answer.TOO_LARGE:
            return Ending.TOO_LARGE, outcome.text
    for outcome in outcomes:
        if outcome.answer is Answer.RAISED:
            return Ending.RAISED, outcome.text
    if len(outcomes) < job.num_outcomes:
        return Ending.DIED, f"it exited ({os.WEXITSTATUS(status)}) before it answered"
    return Ending.ANSWERED, ""


def _of_check(job, streams, report, measured):
    """The checker's last line, unless one of the two processes was ended by force."""
    (status, seconds, _), _ = report["ends"]
    printed, _, loading = _outcomes(job, streams[0])
    said, fault = _said_by_checker(job, streams[1], report)
    blamed = fault[0] is not Ending.OUR_FAULT if fault else "gone" in said
    if blamed and (unready := _before_ready(streams[0])):
        fault = Ending.OUR_FAULT, unready
    if fault is not None:
        return jobs.unanswered(job, *fault, printed=printed, **measured)
    if "gone" not in said:
        status = 0  # the worker ended the program's process because the checker is done
    ending, text = _forced(job, streams[0], status, seconds, late=False)
    if ending is None and "gone" in said:
        exited = f"it exited ({os.WEXITSTATUS(status)}) before it answered the checker"
        ending, text = loading or (Ending.DIED, exited)
    if ending is not None:
        return jobs.unanswered(job, ending, text, printed=printed, **measured)
    outcome, ending, text = _checked(said)
    return Result(
        ending=ending, text=text, outcomes=(outcome,), printed=printed, **measured
    )


def _said_by_checker(job, stream, report):
    """Its last line, and (ending, text) where it left none.

    The checker has passed with the problem's own solution. If it dies on the answers of
    this program, of memory or too slow for a huge one, they are to blame.
    """
    try:
        lines = list(_lines(stream))
    except _Garbled as garbled:
        return {}, (Ending.OUR_FAULT, f"the checker: {garbled}")
    if lines and "raised" in lines[0]:
        text = f"the checker could not be loaded: {_exception(lines[0])}"
        return {}, (Ending.OUR_FAULT, text)
    if len(lines) > 1:
        return lines[1], None
    status, seconds, _ = report["ends"][1]
    ending, text = _forced(job, stream, status, seconds, report["late"])
    if ending is None:
        ending, text = Ending.DIED, f"it exited ({os.WEXITSTATUS(status)})"
    return {}, (ending, f"the checker, on these answers: {text}")


def _checked(said):
    """(outcome, ending, text) of what the checker said."""
    if "passed" in said:
        return Outcome(answer=Answer.VALUE, value=True), Ending.ANSWERED, ""
    if "failed" in said:
        text = _exception(said["failed"])
        return Outcome(answer=Answer.VALUE, value=False, text=text), Ending.ANSWERED, ""
    missing = Outcome(answer=Answer.MISSING)
    if "garbled" in said:
        return missing, Ending.GARBLED, _text(said["garbled"])
    try:
        outcome = _outcome(said["candidate"], 0)
    except _Garbled as garbled:
        return missing, Ending.GARBLED, str(garbled)
    if outcome.answer is Answer.RAISED:
        return outcome, Ending.RAISED, outcome.text
    if outcome.answer is Answer.TOO_LARGE:
        return outcome, Ending.TOO_LARGE, outcome.text
    return outcome, Ending.ANSWERED, outcome.text
