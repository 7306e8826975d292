"""What functions are asked: for every signature one fixed list of inputs.

A function is known by its answers to the inputs of its domain, so equal functions of
two families have equal keys. The first are shown, the next are hidden.
"""

import dataclasses

NUM_VISIBLE, NUM_HIDDEN = 4, 8


@dataclasses.dataclass(frozen=True)
class Domain:
    """Names of the parameters, and inputs: a tuple of arguments each."""

    parameters: tuple[str, ...]
    inputs: tuple[tuple, ...]


def _of(parameters, *inputs):
    names = tuple(parameters.split())
    return Domain(names, tuple((x,) if len(names) == 1 else x for x in inputs))


_FILLED = (
    [1, 2, 3],
    [4, -1, 7, 0],
    [5, 5, 2],
    [8],
    [10, 3],
    [-3, -8, -1],
    [2, 4, 6, 8],
    [9, 1, 8, 2, 7, 3],
    [0, 0, 1],
    [12, -7, 30, 5, -7],
    [3, 3, 3, 1],
    [6, 11, 4, 15, 20, 1],
)

DOMAINS = {
    "integer": _of("x", 3, -2, 0, 10, 1, 7, -5, 12, 25, 100, -13, 64),
    "natural": _of("n", 4, 1, 6, 10, 0, 2, 3, 5, 7, 9, 12, 15),
    "positive": _of("n", 4, 1, 6, 10, 2, 3, 5, 8, 9, 12, 24, 30),
    "digits": _of("n", 407, 9, 1234, 88, 0, 5, 1001, 5055, 73, 9999, 120, 31415),
    "two integers": _of(
        "a b",
        *((2, 3), (5, 1), (4, 4), (0, 7), (-3, 2), (10, 4)),
        *((1, 9), (8, -2), (6, 6), (12, 5), (-1, -1), (7, 20)),
    ),
    # the empty list stands among the hidden inputs: an edge that one has to think of
    "list": _of("xs", *_FILLED[:4], [], *_FILLED[5:]),
    "filled list": _of("xs", *_FILLED),
    "two lists": _of(
        "xs ys",
        *(([1, 2, 3], [2, 3, 4]), ([5, 0, 7], [1, 1, 1]), ([4], [9]), ([], [])),
        *(([2, 2, 6], [2, 8, 0]), ([3, -1], [-1, 3]), ([10, 20], [30, 11])),
        *(([1, 3, 5, 7], [2, 4, 6, 8]), ([0], [0]), ([9, 8, 7], [7, 8, 9])),
        *(([-2, 4, 6], [1, -5, 8]), ([1, 2, 3, 4, 5], [5, 4, 3, 2, 1])),
    ),
    "string": _of(
        "s",
        *("hello", "Python 3", "level", "banana", "", "a", "Hello World"),
        *("noon at noon", "AEIOU", "x1y22z", "the quick brown fox", "Mississippi"),
    ),
    "filled string": _of(
        "s",
        *("hello", "Python 3", "level", "banana", "io", "a", "Hello World"),
        *("noon at noon", "AEIOU", "x1y22z", "the quick brown fox", "Mississippi"),
    ),
    "words": _of(
        "words",
        ["a", "bb", "ccc"],
        ["tree", "sky", "sea"],
        ["one"],
        ["apple", "Banana", "cherry", "date"],
        [],
        ["to", "be", "or", "not"],
        ["level", "noon", "abc"],
        ["s", "t"],
        ["north", "east", "south", "west"],
        ["abba", "bob", "alice", "eve"],
        ["Zoe", "adam"],
        ["sand", "land", "band", "stand"],
    ),
    "table": _of(
        "rows",
        [[1, 2], [3, 4]],
        [[5]],
        [[1, 2, 3], [4, 5, 6]],
        [[0, -1], [7, 2], [3, 3]],
        [[9, 8], [7, 6]],
        [[2, 0, 1], [1, 3, 2], [4, 4, 4]],
        [[-5, 5]],
        [[10], [20], [30]],
        [[1, 1], [1, 1]],
        [[6, 2, 9], [0, 0, 0]],
        [[3, 1, 4, 1], [5, 9, 2, 6]],
        [[8, -8], [-8, 8], [2, 5]],
    ),
    "counts": _of(
        "counts",
        {"a": 1, "b": 4},
        {"x": 3},
        {"red": 5, "blue": 2, "green": 7},
        {"one": 1, "two": 2, "three": 3},
        {},
        {"q": 0, "r": 9},
        {"ab": 6, "cd": 6},
        {"k": -2, "l": 8, "m": 3},
        {"east": 10, "west": 4},
        {"u": 1, "v": 1, "w": 1},
        {"long": 12, "s": 2, "mid": 6},
        {"p": 7, "o": 5, "n": 3},
    ),
}
