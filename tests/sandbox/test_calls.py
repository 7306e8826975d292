"""What comes back when functions of a program are called, and how it is judged."""

import pytest

from agentic_grpo.sandbox import judging, payloads
from agentic_grpo.sandbox.jobs import (
    MAX_PROGRAM_BYTES,
    Answer,
    Calls,
    Ending,
    Limits,
    Outcome,
    Result,
)
from agentic_grpo.sandbox.judging import Kind, judge


def answers(result):
    return [outcome.answer for outcome in result.outcomes]


def test_each_call_is_answered_in_order(call):
    result = call("def f(a, b=2):\n    return [a, (b,)]", (1,), ("x", None))
    assert result.ending is Ending.ANSWERED and result.text == ""
    assert [outcome.value for outcome in result.outcomes] == [[1, (2,)], ["x", (None,)]]
    assert result.seconds_run > 0 and result.seconds_cpu > 0
    assert result.seconds_queued >= 0 and result.peak_bytes > 1 << 20
    assert judge(result, [[1, (2,)], ["x", (None,)]]).kind is Kind.RIGHT


def test_arguments_arrive_as_they_were_given(call):
    given = ({1: (2.5, {"a", b"c"})}, [None, True, 10**30, "\ud83d\ude00"])
    result = call("def f(*arguments): return arguments", given)
    assert repr(result.outcomes[0].value) == repr(given)


def test_arguments_changed_in_place_do_not_reach_the_next_call(call):
    result = call("def f(x):\n    x.append(1)\n    return x", ([],), ([],))
    assert [outcome.value for outcome in result.outcomes] == [[1], [1]]


def test_some_wrong_answers_are_wrong_one_by_one(call):
    result = call("def f(x): return x * x", (1,), (2,), (3,))
    judgement = judge(result, [1, 5, 9.0])
    assert judgement == judging.Judgement(kind=Kind.WRONG, right=(True, False, False))


def test_an_exception_tells_its_line_and_spares_the_other_calls(call):
    result = call("def f(x):\n    print('at', x)\n    return 6 // x", (2,), (0,), (3,))
    assert result.ending is Ending.RAISED
    division, expected = "integer division or modulo by zero", [3, 0, 2]
    assert result.text == f"ZeroDivisionError: {division} (line 3)"
    assert answers(result) == [Answer.VALUE, Answer.RAISED, Answer.VALUE]
    assert result.outcomes[1].text == result.text
    assert [outcome.printed for outcome in result.outcomes] == [
        "at 2\n",
        "at 0\n",
        "at 3\n",
    ]
    assert judge(result, expected).right == (True, False, True)
    assert judge(result, expected).kind is Kind.PROGRAM_FAULT


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("def f(x) return x", "SyntaxError: expected ':' (<program>, line 1)"),
        ("\n1 / 0", "ZeroDivisionError: division by zero (line 2)"),
        ("import numpy", "ModuleNotFoundError: No module named 'numpy' (line 1)"),
        ("raise SystemExit", "SystemExit: line 1"),
        ("x = '\0'", "source code string cannot contain null bytes"),
    ],
)
def test_a_program_that_cannot_be_loaded_answers_nothing(call, program, text):
    result = call(f"{program}", (1,), (2,))
    assert result.ending is Ending.RAISED and text in result.text
    assert answers(result) == [Answer.MISSING] * 2
    assert judge(result, [1, 2]).kind is Kind.PROGRAM_FAULT


def test_the_text_of_an_exception_is_cut(call):
    result = call("def f(x): raise ValueError('é' * 10_000)", (1,))
    assert result.text.startswith("ValueError: ééé") and len(result.text) <= 300
    assert call("class E(Exception):\n  __str__ = None\nraise E", (1,)).text == (
        "E: line 3"
    )


def test_the_first_characters_of_what_is_printed_are_kept(call):
    program = """
import sys
print("loading", end="!")
def f(x):
    print("é" * x, end="")
    print("complaint", file=sys.stderr, end="")
    return x
"""
    result = call(program, (5,), (3,), printed_characters=20)
    assert result.printed == "loading!"
    assert [one.printed for one in result.outcomes] == ["ééééécomplai", ""]
    assert [one.value for one in result.outcomes] == [5, 3]


def test_an_endless_loop_is_too_slow_and_keeps_what_was_answered(call):
    program = "def f(x):\n    while x == 2: pass\n    return x"
    result = call(program, (1,), (2,), (3,), cpu_seconds=0.05)
    assert result.ending is Ending.TOO_SLOW
    assert result.text == "more than 0.05 s of processor time"
    assert answers(result) == [Answer.VALUE, Answer.MISSING, Answer.MISSING]
    assert judge(result, [1, 2, 3]).right == (True, False, False)
    assert judge(result, [1, 2, 3]).kind is Kind.PROGRAM_FAULT
    assert 0.04 < result.seconds_cpu < 0.5


def test_answers_share_one_limit_of_bytes(call):
    program = "def f(x): return 'a' * x"
    result = call(program, (600,), (600,), (100,), answer_bytes=1000)
    assert result.ending is Ending.TOO_LARGE
    assert answers(result) == [Answer.VALUE, Answer.TOO_LARGE, Answer.VALUE]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("(i for i in [])", "generator"),
        ("range(3)", "range"),
        ("[f]", "function"),
        ("__import__('collections').Counter()", "Counter"),
    ],
)
def test_an_answer_that_is_no_plain_data_is_wrong_and_no_fault(call, value, name):
    result = call(f"def f(x): return {value}", (1,))
    assert result.ending is Ending.ANSWERED
    assert result.outcomes[0].answer is Answer.NOT_PLAIN
    assert result.outcomes[0].text == f"{name} is not plain data"
    assert judge(result, [None]).kind is Kind.WRONG  # its value reads None
    assert judge(result, [None]).right == (False,)


def test_usual_programs_find_what_they_need(call):
    program = """
from __future__ import annotations
import bisect, collections, copy, dataclasses, datetime, decimal, fractions, functools
import hashlib, heapq, itertools, json, math, operator, random, re, statistics, string
from typing import List, Optional

@dataclasses.dataclass(order=True)
class Point:
    x: int
    y: List[int] = dataclasses.field(default_factory=list)

@functools.lru_cache(maxsize=None)
def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

def f(n):
    return [
        hashlib.md5(b"x").hexdigest()[:4], str(fractions.Fraction(1, 3)),
        str(decimal.Decimal("0.1") + 1), collections.Counter("aab")["a"],
        datetime.datetime.strptime("2020-01-02", "%Y-%m-%d").day,
        dataclasses.asdict(Point(n)), fibonacci(50), statistics.mean([1, 2, 3]),
        "é".encode("latin-1"), list(itertools.accumulate([1, 2, 3])),
        0 < random.random(),
    ]
"""
    result = call(program, (7,))
    assert result.ending is Ending.ANSWERED, result.text
    assert result.outcomes[0].value == [
        *["9dd4", "1/3", "1.1", 2, 2, {"x": 7, "y": []}, 12586269025, 2],
        *[b"\xe9", [1, 3, 6], True],
    ]


def test_a_program_gives_the_same_answers_in_every_worker(pool):
    program = """
import random
def f(x): return [list({"a", "b", "c", "d", "e"}), random.random(), hash("x")]
"""
    job = Calls(program=program, entry="f", arguments=[(1,)])
    assert len(pool.worker_numbers) == 2
    told = [repr(result.outcomes) for result in pool.run([job] * 12)]
    assert len(set(told)) == 1


def test_nothing_of_one_job_is_there_in_the_next(call):
    call("import json\njson.left = 1\ndef f(): return json.left", ())
    result = call("import json\ndef f(): return hasattr(json, 'left')", ())
    assert result.outcomes[0].value is False


def test_a_program_that_is_too_long_is_its_own_fault(call):
    fits = "def f(x): return x\n#".ljust(MAX_PROGRAM_BYTES, "x")
    assert call(fits, (1,)).ending is Ending.ANSWERED
    result = call(fits + "x", (1,), (2,))
    assert result.ending is Ending.TOO_LARGE and "65537 bytes" in result.text
    assert judge(result, [1, 2]).kind is Kind.PROGRAM_FAULT


def test_long_inputs_and_many_calls_arrive(call):
    result = call("def f(x): return len(x)", *[("x" * 1000,)] * 900)
    assert [outcome.value for outcome in result.outcomes] == [1000] * 900


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"entry": "f()"}, r"entry is 'f\(\)'; it must be the name"),
        ({"entry": None}, "must be text"),
        ({"program": b"x"}, "must be text"),
        ({"arguments": []}, "arguments has 0 calls; it must have 1 to 1000"),
        ({"arguments": [()] * 1001}, "arguments has 1001 calls"),
        ({"arguments": [(1,), 2]}, r"arguments\[1\] is 2; it must be the tuple"),
        ({"arguments": [(1,), (range(3),)]}, r"arguments\[1\]: range is not plain"),
        ({"arguments": [("x" * (1 << 20),)]}, r"arguments\[0\]: more than"),
    ],
)
def test_a_job_that_is_none_is_refused_by_its_field(pool, change, message):
    job = Calls(**{"program": "", "entry": "f", "arguments": [()], **change})
    with pytest.raises(ValueError, match=message):
        payloads.of_job(job)
    with pytest.raises(ValueError, match=message):
        pool.submit("ticket", job)
    with pytest.raises(ValueError, match=message):
        pool.run([Calls(program="", entry="f", arguments=[()]), job])
    assert pool.outstanding == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cpu_seconds", 0.0),
        ("cpu_seconds", float("nan")),
        ("wall_seconds", 0.5),
        ("memory_bytes", 1 << 20),
        ("answer_bytes", 0),
        ("printed_characters", -1),
    ],
)
def test_a_limit_out_of_range_is_refused_by_name(field, value):
    with pytest.raises(ValueError, match=f"^{field} is .*; it must be in"):
        Limits(**{field: value})


def test_the_wall_limit_is_a_large_multiple_unless_it_is_given():
    assert Limits(cpu_seconds=0.1).wall_seconds == 10.0
    assert Limits(cpu_seconds=2.0).wall_seconds == 60.0
    assert Limits(cpu_seconds=2.0, wall_seconds=3.0).wall_seconds == 3.0


VALUE = Outcome(answer=Answer.VALUE, value=1)


@pytest.mark.parametrize(
    ("ending", "expected", "kind"),
    [
        (Ending.ANSWERED, 1, Kind.RIGHT),
        (Ending.ANSWERED, True, Kind.WRONG),
        *[
            (ending, 1, Kind.PROGRAM_FAULT)
            for ending in Ending
            if ending not in (Ending.ANSWERED, Ending.OUR_FAULT)
        ],
        (Ending.OUR_FAULT, 1, Kind.OUR_FAULT),
        (Ending.OUR_FAULT, 2, Kind.OUR_FAULT),
    ],
)
def test_every_ending_has_its_kind(ending, expected, kind):
    result = Result(ending=ending, outcomes=(VALUE,))
    assert judge(result, [expected]).kind is kind


def test_a_judgement_wants_one_plain_expectation_per_call():
    result = Result(ending=Ending.ANSWERED, outcomes=(VALUE, VALUE))
    with pytest.raises(ValueError, match="expected has 1 values for 2 calls"):
        judge(result, [1])
    with pytest.raises(ValueError, match="of type range, which is not plain"):
        judge(result, [1, range(2)])
