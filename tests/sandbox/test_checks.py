"""A checker with assertions, in a process of its own."""

import pytest

from agentic_grpo.sandbox.jobs import Answer, Check, Ending
from agentic_grpo.sandbox.judging import Kind, judge

CHECKER = """
METADATA = {"author": "nobody"}
def check(candidate):
    assert candidate([1, 2]) == 3
    assert candidate([0.1, 0.2]) < 0.4, "a little"
"""
SUM = "def f(x): return sum(x)"


def kind(result):
    return judge(result, [True]).kind


def test_a_content_checker_makes_it_right(check):
    result = check(SUM, CHECKER)
    assert result.ending is Ending.ANSWERED and result.text == ""
    assert kind(result) is Kind.RIGHT


def test_a_failed_assertion_makes_it_wrong_and_tells_which(check):
    result = check("def f(x): return 3", CHECKER)
    assert result.ending is Ending.ANSWERED and kind(result) is Kind.WRONG
    assert result.outcomes[0].text == "AssertionError: a little (line 5)"


def test_an_answer_of_the_wrong_type_fails_the_checker_not_the_program(check):
    result = check("def f(x): return 3 if x == [1, 2] else None", CHECKER)
    assert kind(result) is Kind.WRONG
    assert result.outcomes[0].text.startswith("TypeError: ")


def test_an_exception_of_the_program_is_its_fault(check):
    result = check("def f(x):\n    return 1 / 0", CHECKER)
    assert result.ending is Ending.RAISED and kind(result) is Kind.PROGRAM_FAULT
    assert result.text == "ZeroDivisionError: division by zero (line 2)"


def test_a_program_cannot_fail_an_assertion_for_the_checker(check):
    result = check("def f(x): raise AssertionError('mine')", CHECKER)
    assert result.ending is Ending.RAISED
    assert result.text == "AssertionError: mine (line 1)"


def test_a_checker_may_wait_for_a_built_in_exception(check):
    checker = """
def check(candidate):
    for value, kind in (("x", ValueError), (1, RuntimeError), (2, RuntimeError)):
        try:
            candidate(value)
        except kind as error:
            assert "wanted" in str(error) and type(error) is kind
        else:
            raise AssertionError("nothing was raised")
"""
    program = """
class Own(Exception): pass
def f(x):
    if x == "x": raise ValueError("wanted")
    if x == 2: raise UnicodeDecodeError("wanted", b"", 0, 1, "")
    raise Own("wanted")
"""
    assert kind(check(program, checker)) is Kind.RIGHT


def test_an_answer_that_is_no_plain_data_is_wrong(check):
    result = check("def f(x): return iter(x)", CHECKER)
    assert result.ending is Ending.ANSWERED and kind(result) is Kind.WRONG
    assert result.outcomes[0].answer is Answer.NOT_PLAIN


@pytest.mark.parametrize(
    ("program", "ending", "text"),
    [
        ("def f(x) return 3", Ending.RAISED, "SyntaxError: expected ':'"),
        ("1 / 0", Ending.RAISED, "ZeroDivisionError: division by zero (line 1)"),
        ("import os\ndef f(x): os._exit(3)", Ending.DIED, "it exited (3) before"),
        ("import os\nos._exit(0)", Ending.DIED, "it exited (0) before"),
        ("def f(x):\n while True: pass", Ending.TOO_SLOW, "0.05 s of processor time"),
        ("while True: pass", Ending.TOO_SLOW, "0.05 s of processor time"),
        (
            "import ctypes\ndef f(x): ctypes.string_at(0)",
            Ending.DIED,
            "by signal 11 (Segmentation fault)",
        ),
        ("def f(x): return [x] * 10**5", Ending.TOO_LARGE, "65536 bytes"),
        ("import os\ndef f(x): os.write(4, b'\\x02\\0\\0\\0[]')", Ending.GARBLED, ""),
    ],
)
def test_how_the_program_ends_is_told(check, program, ending, text):
    result = check(program, CHECKER, cpu_seconds=0.05)
    assert result.ending is ending, result
    assert text in result.text
    assert kind(result) is Kind.PROGRAM_FAULT


def test_a_checker_that_is_lost_in_an_answer_blames_the_answer(check):
    checker = "def check(candidate):\n    n = candidate()\n    while n: n = n + 1"
    result = check("def f(): return 1", checker, cpu_seconds=0.05)
    assert result.ending is Ending.TOO_SLOW and "the checker" in result.text
    assert kind(check("def f(): return 0", checker)) is Kind.RIGHT


def test_a_checker_that_cannot_be_loaded_is_our_fault(check):
    result = check(SUM, "def check(candidate) assert False")
    assert result.ending is Ending.OUR_FAULT
    assert result.text.startswith("the checker could not be loaded: SyntaxError")
    assert kind(result) is Kind.OUR_FAULT


def test_a_checker_gets_no_object_of_the_program(check):
    checker = """
def check(candidate):
    value = candidate()
    assert type(value) is list and type(value[0]) is int and value[0] != 1
"""
    program = """
import builtins
class Int(int):
    __eq__ = __ne__ = lambda *_: True
    __hash__ = int.__hash__
def f(): return [Int(1)]
"""
    assert kind(check(program, checker)) is Kind.WRONG
    assert kind(check("def f(): return [2]", checker)) is Kind.RIGHT


def test_arguments_reach_the_program_through_every_size(check):
    checker = """
def check(candidate):
    assert candidate("x" * 500_000, {1: (2,)}) == 500_000
    try: candidate("x" * (1 << 20))
    except ValueError as error: assert "bytes" in str(error)
    else: assert False
"""
    assert kind(check("def f(x, *more): return len(x)", checker)) is Kind.RIGHT


def test_a_checker_that_is_too_long_is_refused(pool):
    job = Check(program=SUM, entry="f", checker="#" * (1 << 20))
    with pytest.raises(ValueError, match="checker is longer than 262144 bytes"):
        pool.run([job])
