"""What the host makes of streams and reports, also of those that nobody could send."""

import json
import signal

import hypothesis
import pytest
from hypothesis import strategies as st

from agentic_grpo.sandbox import transcripts
from agentic_grpo.sandbox.jobs import Answer, Calls, Check, Ending, Limits

LIMITS = Limits(cpu_seconds=1.0, wall_seconds=5.0)
CALLS = Calls(program="", entry="f", arguments=[(), ()], limits=LIMITS)
CHECK = Check(program="", entry="f", checker="", limits=LIMITS)
READY = {"ready": True}
LOADED = {"loaded": True, "printed": ""}
EXITED = 1 << 8  # wait status of an exit with 1


def stream(*lines, overflowed=False):
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    return transcripts.Stream(data=data, overflowed=overflowed)


def report(*statuses, late=False, cpu=0.1):
    ends = [[status, cpu, 1 << 20] for status in statuses]
    return {"ends": ends, "late": late, "seconds": 0.2}


def read(job, streams, told):
    return transcripts.read(job, streams, told, seconds_queued=0.5)


def read_calls(*lines, status=0, **measured):
    return read(CALLS, [stream(*lines)], report(status, **measured))


def value(packed):
    return {"value": packed, "printed": ""}


def test_what_was_measured_is_handed_on():
    result = read_calls(READY, LOADED, value(1), value([2]))
    assert result.ending is Ending.ANSWERED
    assert [outcome.value for outcome in result.outcomes] == [1, [2]]
    assert (result.seconds_queued, result.seconds_run) == (0.5, 0.2)
    assert (result.seconds_cpu, result.peak_bytes) == (0.1, 1 << 20)


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([], "before the program was run"),
        ([LOADED], "before the program was run"),
        ([{"broken": "Missing: limits"}], "could not be raised: Missing: limits"),
        ([{"broken": ""}, READY, LOADED], "could not be raised: "),
    ],
)
@pytest.mark.parametrize("status", [0, EXITED, signal.SIGKILL])
def test_before_it_is_ready_nothing_is_the_programs_fault(lines, text, status):
    result = read_calls(*lines, status=status)
    assert result.ending is Ending.OUR_FAULT and text in result.text
    assert [outcome.answer for outcome in result.outcomes] == [Answer.MISSING] * 2


def test_a_fork_that_failed_is_our_fault():
    result = read(CALLS, [stream()], {"failed": "fork: no memory"})
    assert result.ending is Ending.OUR_FAULT and result.text == "fork: no memory"


@pytest.mark.parametrize(
    ("measured", "ending", "text"),
    [
        (
            {"status": signal.SIGPROF},
            Ending.TOO_SLOW,
            "more than 1 s of processor time",
        ),
        (
            {"status": signal.SIGXCPU},
            Ending.TOO_SLOW,
            "more than 1 s of processor time",
        ),
        ({"cpu": 1.01}, Ending.TOO_SLOW, "more than 1 s of processor time"),
        (
            {"status": signal.SIGKILL, "late": True},
            Ending.TOO_SLOW,
            "not done after 5 s of wall time",
        ),
        ({"status": signal.SIGKILL}, Ending.DIED, "by signal 9 (Killed)"),
        ({"status": EXITED}, Ending.DIED, "it exited (1) before it answered"),
        ({}, Ending.DIED, "it exited (0) before it answered"),
    ],
)
def test_force_is_told_and_what_was_answered_is_kept(measured, ending, text):
    result = read_calls(READY, LOADED, value(1), **measured)
    assert (result.ending, result.text) == (ending, text)
    assert [o.answer for o in result.outcomes] == [Answer.VALUE, Answer.MISSING]


def test_a_line_that_was_cut_off_does_not_count():
    whole = stream(READY, LOADED, value(1)).data
    cut = transcripts.Stream(data=whole + b'{"value": 2', overflowed=False)
    result = read(CALLS, [cut], report(0))
    assert result.ending is Ending.DIED
    assert [o.answer for o in result.outcomes] == [Answer.VALUE, Answer.MISSING]


def test_too_many_bytes_are_too_large():
    flood = stream(READY, LOADED, value(1), value(2), overflowed=True)
    assert read(CALLS, [flood], report(0)).ending is Ending.TOO_LARGE


PASSED, FAILED = {"passed": True}, {"failed": {"raised": "AssertionError", "text": ""}}


def read_check(program, checker, **measured):
    statuses = measured.pop("statuses", (signal.SIGKILL, 0))
    return read(
        CHECK, [stream(*program), stream(*checker)], report(*statuses, **measured)
    )


@pytest.mark.parametrize(("said", "right"), [(PASSED, True), (FAILED, False)])
@pytest.mark.parametrize("program", [[], [READY], [READY, LOADED]])
def test_a_checker_that_asked_nothing_more_is_believed(program, said, right):
    # It may be done before the program's process has come to its first line.
    result = read_check(program, [READY, LOADED, said])
    assert result.ending is Ending.ANSWERED
    assert result.outcomes[0].value is right


GONE = {"gone": "ended"}


@pytest.mark.parametrize(
    ("program", "checker", "statuses", "late", "ending"),
    [
        ([READY, LOADED], [GONE], (EXITED, 0), False, Ending.DIED),
        ([READY, LOADED], [GONE], (signal.SIGPROF, 0), False, Ending.TOO_SLOW),
        ([READY, {"raised": "E"}], [GONE], (0, 0), False, Ending.RAISED),
        ([READY, LOADED], [], (signal.SIGKILL, signal.SIGKILL), True, Ending.TOO_SLOW),
        ([READY, LOADED], [], (signal.SIGKILL, signal.SIGSEGV), False, Ending.DIED),
        ([READY, LOADED], [{"garbled": "x"}], (9, 0), False, Ending.GARBLED),
        # the program never ran
        ([], [GONE], (EXITED, 0), False, Ending.OUR_FAULT),
        ([], [], (signal.SIGKILL, signal.SIGKILL), True, Ending.OUR_FAULT),
        ([{"broken": "x"}], [GONE], (0, 0), False, Ending.OUR_FAULT),
    ],
)
def test_who_is_to_blame_for_a_check_without_a_verdict(
    program, checker, statuses, late, ending
):
    lines = [READY, LOADED, *checker]
    result = read_check(program, lines, statuses=statuses, late=late)
    assert result.ending is ending, result
    assert result.outcomes[0].answer is Answer.MISSING


def test_a_checker_that_was_not_ready_is_our_fault():
    for checker in ([], [READY, {"raised": "SyntaxError", "text": "x"}]):
        result = read_check([READY, LOADED], checker)
        assert result.ending is Ending.OUR_FAULT


KEYS = """
    value raised text printed loaded broken ready candidate failed passed gone garbled
    tuple set frozenset dict int str bytes complex
"""
NAMES = st.sampled_from([*KEYS.split(), "not plain", "too large"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)
    ),
    max_leaves=8,
)
LINES = st.lists(JSON.map(lambda x: json.dumps(x).encode()) | st.binary(), max_size=4)


@hypothesis.settings(max_examples=300, deadline=None, derandomize=True)
@hypothesis.given(lines=LINES, overflowed=st.booleans(), late=st.booleans())
def test_no_word_of_a_program_raises_or_excuses_it(lines, overflowed, late):
    data = b'{"ready": true}\n' + b"\n".join(lines)
    said = transcripts.Stream(data=data, overflowed=overflowed)
    result = read(CALLS, [said], report(0, late=late))
    assert result.ending is not Ending.OUR_FAULT
    assert len(result.outcomes) == 2
    assert len(result.text) <= 300
    result = read(CHECK, [said, stream(READY, LOADED, GONE)], report(0, 0, late=late))
    assert result.ending not in (Ending.OUR_FAULT, Ending.ANSWERED)


@hypothesis.settings(max_examples=300, deadline=None, derandomize=True)
@hypothesis.given(answer=st.dictionaries(NAMES, JSON, max_size=3))
def test_no_answer_that_a_checker_hands_on_raises_or_is_right(answer):
    answer.pop("value", None)  # that one goes to its assertions
    result = read_check([READY, LOADED], [READY, LOADED, {"candidate": answer}])
    assert result.outcomes[0].value is None
    assert result.ending is not Ending.OUR_FAULT
