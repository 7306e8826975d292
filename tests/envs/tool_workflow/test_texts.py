"""Texts of every form have a meaning; wrong ones are told apart from missing ones."""

import numpy as np
import pytest

from agentic_grpo.envs.tool_workflow import texts, tools, vocabulary
from agentic_grpo.envs.tool_workflow.tools import ABSENT, REFUSED, Tool

R, A = (REFUSED, 0, 0), (ABSENT, 0, 0)


def text(words, width=7):
    ids = [
        int(w) if w.lstrip("-").isdigit() and len(w) > 2 else vocabulary.TOKENS[w]
        for w in words.split()
    ]
    tokens = np.zeros((1, 1, width), np.int32)
    mask = np.zeros((1, 1, width), bool)
    tokens[0, 0, : len(ids)], mask[0, 0, : len(ids)] = ids, True
    return texts.read(tokens, mask, np.array([width], np.int32))


@pytest.mark.parametrize(
    ("words", "calls"),
    [
        ("add a 4 swap b d", [(Tool.ADD, 0, 4), (Tool.SWAP, 1, 3)]),
        ("set d 0", [(Tool.SET, 3, 0), A]),
        ("", [A, A]),
        ("<end> add a 4", [A, A]),  # nothing counts after the end
        ("set d 0 <end> b 3", [(Tool.SET, 3, 0), A]),
        ("add a b", [R, A]),  # a slot where a digit belongs
        ("swap a 3", [R, A]),  # and the other way round
        ("add 4 a", [R, A]),
        ("add a 10", [R, A]),  # a number, but no digit
        ("a add 4 set a 1", [R, (Tool.SET, 0, 1)]),  # the second is read by itself
        ("add a", [R, A]),  # incomplete
        ("add a 4 set", [(Tool.ADD, 0, 4), R]),
        ("-2147483648 2147483647 999", [R, A]),  # ids that are no tokens
    ],
)
def test_calls_are_read_three_tokens_at_a_time(words, calls):
    np.testing.assert_array_equal(texts.as_calls(text(words), 0)[0, 0], calls)


def test_calls_of_a_revision_follow_its_part():
    revision = text("part2 mix a c add c 9")
    assert texts.as_part(revision) == 1
    np.testing.assert_array_equal(
        texts.as_calls(revision, 1)[0, 0], [(Tool.MIX, 0, 2), (Tool.ADD, 2, 9)]
    )


@pytest.mark.parametrize(
    ("words", "route", "part", "submits"),
    [
        ("cache", 0, 6, False),
        ("origin", 1, 6, False),
        ("origin origin", -1, 6, False),  # a route is one token
        ("submit", -1, 6, True),
        ("submit submit", -1, 6, False),
        ("part3", -1, 6, False),  # a part without calls
        ("part6 set a 1", -1, 5, False),
        ("", -1, 6, False),
        ("<end>", -1, 6, False),
    ],
)
def test_plans_and_revisions_are_told_apart(words, route, part, submits):
    read = text(words)
    assert texts.as_route(read) == route
    assert texts.as_part(read) == part
    assert texts.is_submission(read) == submits


@pytest.mark.parametrize(
    ("words", "right"),
    [("3 7", True), ("3", False), ("3 7 7", False), ("3 a", False), ("3 12", False)],
)
def test_a_check_is_two_digits(words, right):
    digits, well_formed = texts.as_digits(text(words), 2)
    assert well_formed == right
    if right:
        np.testing.assert_array_equal(digits[0, 0], [3, 7])


def test_no_text_reads_beyond_its_stage():
    tokens = np.full((1, 1, 7), vocabulary.TOKENS["set"], np.int32)
    read = texts.read(tokens, np.ones((1, 1, 7), bool), np.array([1], np.int32))
    assert read.length == 1
    assert tools.CALL_WIDTH * 2 == texts.PART_WIDTH
