"""Plain data survives the trip exactly; what hurts is refused on both sides."""

import json
import math

import hypothesis
import pytest
from hypothesis import strategies as st

from agentic_grpo.sandbox import values


def around(value, limit=1 << 20):
    text = json.dumps(values.pack(value, limit=limit)).encode()
    return values.unpack(values.parse(text))


def same(left, right):
    """Exactly: types, order of dicts, nan, the sign of zero, at every depth."""
    return repr(left) == repr(right) and type(left) is type(right)


ODD = [
    None,
    True,
    1,
    1.0,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    5e-324,
    0.1 + 0.2,
    2**63 - 1,
    2**63,
    -(2**63) - 1,
    10**4000,
    "",
    '\x00\n"\\é漢😀',
    "\ud83d",
    "\ud83d\ude00",  # two halves: two characters, not the one they would make
    b"\x00\xff",
    complex(-0.0, math.inf),
    (),
    (1,),
    [[], [()]],
    {1, "1"},
    frozenset({(1, 2)}),
    {1: [2], "1": {"tuple": [1]}, (1, 2): {b"": None}, None: 0, 1.5: set()},
    {"tuple": [1]},  # looks like a tag
]


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_odd_values_survive(value):
    assert same(around(value), value)
    assert values.equal(around(value), value)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.complex_numbers()
)
KEYS = st.recursive(SCALARS, lambda keys: st.lists(keys, max_size=3).map(tuple))
VALUES = st.recursive(
    SCALARS | st.frozensets(KEYS, max_size=3) | st.sets(KEYS, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=10,
)


@hypothesis.settings(max_examples=200, deadline=None, derandomize=True)
@hypothesis.given(VALUES)
def test_any_plain_value_equals_what_comes_back(value):
    assert values.equal(around(value), value)


class OwnText(str):
    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


class OwnList(list):
    pass


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (OwnText("x"), "OwnText"),
        ([OwnText("x")], "OwnText"),
        ({OwnText("x"): 1}, "OwnText"),
        (OwnList(), "OwnList"),
        (range(3), "range"),
        (iter([]), "list_iterator"),
        (bytearray(), "bytearray"),
        (len, "builtin_function_or_method"),
        (object(), "object"),
    ],
)
def test_what_is_not_plain_is_refused_by_its_type(value, name):
    with pytest.raises(values.NotPlain, match=f"^{name} is not plain data$"):
        values.pack(value, limit=1000)


def nested(levels):
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_nesting_is_bounded_on_both_sides():
    assert same(around(nested(64)), nested(64))
    with pytest.raises(values.TooLarge, match="nested deeper than 64"):
        values.pack(nested(65), limit=10_000)
    itself = []
    itself.append(itself)
    with pytest.raises(values.TooLarge, match="nested deeper than 64"):
        values.pack({"x": (itself,)}, limit=1 << 20)
    with pytest.raises(ValueError, match="nested deeper than 64"):
        values.unpack(nested(66))
    deepest = 1
    for _ in range(64):
        deepest = {0: deepest}  # three levels of JSON each
    assert same(around(deepest), deepest)


def test_brackets_in_text_are_no_nesting():
    assert around(["[{" * 1000, '\\"[[[']) == ["[{" * 1000, '\\"[[[']


@pytest.mark.parametrize(
    "value",
    [
        "x" * 101,
        "\n" * 51,  # two bytes each
        "é" * 17,  # six bytes each
        b"x" * 50,
        list(range(6)),
        [[]] * 7,
        10**300,
        {1: 2, 3: 4, 5: 6},
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_size_is_bounded_while_packing(value):
    assert same(around(value, limit=1000), value)
    with pytest.raises(values.TooLarge, match="more than the 100 bytes"):
        values.pack(value, limit=100)


def test_what_is_shared_many_times_is_not_walked_to_its_end():
    twice = [0]
    for _ in range(60):
        twice = [twice, twice]
    with pytest.raises(values.TooLarge):
        values.pack(twice, limit=10_000)


def test_packed_text_is_no_longer_than_about_the_limit():
    for value in ODD:
        size = len(json.dumps(values.pack(value, limit=1 << 20)))
        with pytest.raises(values.TooLarge):
            values.pack(["x" * 10_000, value], limit=10_000 + size // 8)


def test_ints_are_bounded_on_both_sides():
    largest = (1 << values.MAX_INT_BITS) - 1
    # with more digits than int() of a text accepts
    assert around(largest) == largest and around(-largest) == -largest
    with pytest.raises(values.TooLarge, match="65536 bits"):
        values.pack(largest + 1, limit=1 << 20)
    with pytest.raises(ValueError, match="65536 bits"):
        values.unpack({"int": hex(largest << 4)})


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 300 + b"]" * 300,
        b"[" * 200_000,
        b'["]", ' * 300,
        b"1" * 21,
        b"-" + b"1" * 100_000,
    ],
    ids=lambda text: repr(text[:10]),
)
def test_json_that_hurts_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        values.parse(text)


@pytest.mark.parametrize(
    "packed",
    [
        {},
        {"tuple": [], "list": []},
        {"object": []},
        {"tuple": 1},
        {"tuple": "ab"},
        {"set": [[]]},
        {"set": {"tuple": []}},
        {"dict": [[1]]},
        {"dict": [[1, 2, 3]]},
        {"dict": [[[], 1]]},
        {"dict": [1]},
        {"bytes": "0"},
        {"bytes": 1},
        {"str": "ff"},
        {"int": "1_0"},
        {"int": " 0x1"},
        {"int": 1},
        {"complex": [1]},
        {"complex": ["x", 1]},
        {"complex": [[], 1]},
        {"complex": 1},
    ],
    ids=repr,
)
def test_forged_packing_is_a_value_error_and_nothing_else(packed):
    with pytest.raises(ValueError, match=r"."):
        values.unpack(packed)
