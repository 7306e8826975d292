"""What was expected is told from what only looks like it."""

import math

import pytest

from agentic_grpo.sandbox import values


class OwnText(str):
    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


class OwnList(list):
    pass


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (True, 1),
        (1, True),
        (1, 1.0),
        (1.0, 1),
        (0, False),
        (0, None),
        ("1", 1),
        (b"a", "a"),
        ((1, 2), [1, 2]),
        ([1, 2], (1, 2)),
        ([1, True], [1, 1]),
        ([1], [1, 1]),
        ([1, 1], [1]),
        ([], [[]]),
        ({1}, frozenset({1})),
        ({1}, {True}),
        ({1.0}, {1}),
        ({1: 2}, {True: 2}),
        ({1: 2}, {1.0: 2}),
        ({1: 2}, {1: 2.0}),
        ({1: 2}, {1: 2, 3: 4}),
        ({1: 2, 3: 4}, {1: 2}),
        ({(1, 2)}, {(1, True)}),
        (complex(1, 0), 1.0),
        (math.nan, 1.0),
        (1.0, math.nan),
        (math.inf, -math.inf),
        (1e308, math.inf),
        (1.0 + 3e-6, 1.0),
        (2e-9, 0.0),
        (10**30 + 1, 10**30),
        ({0.1 + 0.2}, {0.3}),  # members of a set have no tolerance
        (OwnText("x"), "x"),
        (OwnList(), []),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_what_only_looks_equal_is_wrong(answer, expected):
    assert not values.equal(answer, expected)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (0.1 + 0.2, 0.3),
        (1.0 + 5e-7, 1.0),
        (5e-10, 0.0),
        (-0.0, 0.0),
        (math.nan, math.nan),
        (math.inf, math.inf),
        ([math.nan, (0.1 + 0.2,)], [math.nan, (0.3,)]),
        ({"a": 0.1 + 0.2}, {"a": 0.3}),
        ({2: "b", 1: "a"}, {1: "a", 2: "b"}),
        ({3, 1, 2}, {1, 2, 3}),
        ({math.nan}, {math.nan}),
        ({(math.nan, 1): 2}, {(float("nan"), 1): 2}),
        (complex(0.1 + 0.2, math.nan), complex(0.3, math.nan)),
        (frozenset({frozenset({1})}), frozenset({frozenset({1})})),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_what_is_equal_up_to_rounding_is_right(answer, expected):
    assert values.equal(answer, expected)


def test_the_tolerance_is_the_callers():
    assert values.equal(1.01, 1.0, relative=0.1)
    assert not values.equal(1.01, 1.0, relative=1e-3, absolute=0.0)
    assert values.equal([{"a": 0.01}], [{"a": 0.0}], absolute=0.1)


@pytest.mark.parametrize("expected", [OwnText("x"), [range(3)], {"a": object()}])
def test_an_expectation_that_nothing_can_meet_is_refused(expected):
    answer = {"a": 1} if type(expected) is dict else [1]
    with pytest.raises(ValueError, match="not plain data"):
        values.equal(answer, expected)
