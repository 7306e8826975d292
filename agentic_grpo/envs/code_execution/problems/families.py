"""The problem families over five levels, as data.

Every function is written three times: for the slow and for the efficient program in the
machine's mnemonics, and in NumPy. Tests prove the three equal on the whole domain.
"""

import numpy as np

from agentic_grpo.envs.code_execution.problems.compositions import (
    COMPOSITIONS,
)
from agentic_grpo.envs.code_execution.problems.family import Family

_DIGITS = range(10)

_LEVEL_1 = (  # one instruction or two; brute force is quick enough
    Family(
        name="affine",
        level=1,
        statement="affine {a} {b}",
        parameters={"a": range(2, 10), "b": _DIGITS},
        truth=lambda n, m, a, b: a * n + b,
        brute_force="n sum {a} close {b} +",
        efficient="n {a} * {b} +",
        large_n=(12, 20),
    ),
    Family(
        name="square",
        level=1,
        statement="square {a} {b}",
        parameters={"a": range(1, 10), "b": _DIGITS},
        truth=lambda n, m, a, b: a * n**2 + b,
        brute_force="n sum n close {a} * {b} +",
        efficient="n dup * {a} * {b} +",
        small_n=(5, 9),
        large_n=(12, 20),
    ),
)

_LEVEL_2 = (  # one loop becomes one step
    Family(
        name="excess",
        level=2,
        statement="excess {a} {b}",
        parameters={"a": range(2, 10), "b": _DIGITS},
        truth=lambda n, m, a, b: np.maximum(n - a, 0) + b,
        brute_force="n sum {a} i < close {b} +",
        efficient="n {a} max {a} - {b} +",
    ),
    Family(
        name="multiples",
        level=2,
        statement="multiples {a} {b}",
        parameters={"a": range(2, 10), "b": _DIGITS},
        truth=lambda n, m, a, b: n // a + b,
        brute_force="n sum i {a} % 0 = close {b} +",
        efficient="n {a} // {b} +",
    ),
    Family(
        name="walk",
        level=2,
        statement="walk {a} {c} {b}",
        parameters={"a": range(5, 10), "c": range(1, 9), "b": range(9)},
        keep=lambda a, b, c: b < a and c < a,
        truth=lambda n, m, a, b, c: (b + c * n) % a,
        brute_force="{b} n iterate {c} + {a} % close",
        efficient="n {c} * {b} + {a} %",
    ),
    Family(
        name="toggle",
        level=2,
        statement="toggle {a} {b}",
        parameters={"a": _DIGITS, "b": _DIGITS},
        keep=lambda a, b: a != b,
        truth=lambda n, m, a, b: np.where(n % 2 == 1, a, b),
        brute_force="{b} n iterate {a} {b} + swap - close",
        efficient="n 2 % {a} {b} select",
    ),
    Family(
        name="rectangle",
        level=2,
        statement="rectangle {a} {b}",
        parameters={"a": range(1, 10), "b": _DIGITS},
        truth=lambda n, m, a, b: a * n * m + b,
        brute_force="n sum m {a} * close {b} +",
        efficient="n m * {a} * {b} +",
        reads_m=True,
    ),
    Family(
        name="odd_terms",
        level=2,
        statement="odd_terms {a} {b}",
        parameters={"a": range(1, 10), "b": _DIGITS},
        truth=lambda n, m, a, b: a * ((n + 1) // 2) + b,
        brute_force="n sum i 2 % {a} * close {b} +",
        efficient="n 1 + 2 // {a} * {b} +",
    ),
)

_LEVEL_3 = (  # a formula, or a period, to be seen first
    Family(
        name="staircase",
        level=3,
        statement="staircase {a} {b}",
        parameters={"a": range(1, 10), "b": _DIGITS},
        truth=lambda n, m, a, b: a * n * (n + 1) // 2 + b,
        brute_force="n sum i sum {a} close close {b} +",
        efficient="n dup 1 + * 2 // {a} * {b} +",
    ),
    Family(
        name="cubes",
        level=3,
        statement="cubes {a} {b}",
        parameters={"a": range(1, 10), "b": _DIGITS},
        truth=lambda n, m, a, b: a * (n * (n + 1) // 2) ** 2 + b,
        brute_force="n sum i dup dup * * {a} * close {b} +",
        efficient="n dup 1 + * 2 // dup * {a} * {b} +",
    ),
    Family(
        name="pronic",
        level=3,
        statement="pronic {a} {b}",
        parameters={"a": range(1, 10), "b": _DIGITS},
        truth=lambda n, m, a, b: a * (n * (n + 1) * (n + 2) // 3) + b,
        brute_force="n sum i dup 1 + * {a} * close {b} +",
        efficient="n dup 1 + * n 2 + * 3 // {a} * {b} +",
    ),
    Family(
        name="mirror",  # (x, y) -> (y, 9 - x) has the period 4
        level=3,
        statement="mirror {a} {b}",
        parameters={"a": _DIGITS, "b": _DIGITS},
        truth=lambda n, m, a, b: np.choose(n % 4, [b, 9 - a, 9 - b, a]),
        brute_force="{a} {b} n iterate swap 9 swap - close",
        efficient="{a} {b} n 4 % iterate swap 9 swap - close",
    ),
)

_LEVEL_4 = (  # number theory; the compositions of two belong here too
    Family(
        name="power",  # units modulo 7 and modulo 9 have an order that divides 6
        level=4,
        statement="power {c} {a} {b}",
        parameters={"c": (7, 9), "a": range(2, 9), "b": range(1, 9)},
        keep=lambda a, b, c: b < c and a < c and a % (7 if c == 7 else 3) != 0,
        truth=lambda n, m, a, b, c: b * a ** (n % 6) % c,
        brute_force="{b} n iterate {a} * {c} % close",
        efficient="{b} n 6 % iterate {a} * {c} % close",
        small_n=(6, 9),
    ),
)

_LEVEL_5 = (  # nested sums in closed form
    Family(
        name="pyramid",
        level=5,
        statement="pyramid {a} {c} {b}",
        parameters={"a": range(1, 5), "c": range(1, 5), "b": _DIGITS},
        truth=lambda n, m, a, b, c: n * (n + 1) * (a * (n + 2) + 3 * c) // 6 + b,
        brute_force="n sum i sum i {a} * {c} + close close {b} +",
        efficient="n 2 + {a} * {c} 3 * + n * n 1 + * 6 // {b} +",
        small_n=(3, 5),
    ),
    Family(
        name="table",
        level=5,
        statement="table {a} {c} {b}",
        parameters={"a": range(1, 5), "c": range(1, 5), "b": _DIGITS},
        truth=lambda n, m, a, b, c: n * m * (a * (n + 1) + c * (m + 1)) // 2 + b,
        brute_force="n sum m sum j {a} * i {c} * + close close {b} +",
        efficient="n 1 + {a} * m 1 + {c} * + n * m * 2 // {b} +",
        small_n=(2, 4),
        small_m=(1, 3),
        reads_m=True,
    ),
)

_ALL = (*_LEVEL_1, *_LEVEL_2, *_LEVEL_3, *_LEVEL_4, *_LEVEL_5, *COMPOSITIONS)

#: Every family by its name, easiest first.
FAMILIES: dict[str, Family] = {
    family.name: family for family in sorted(_ALL, key=lambda family: family.level)
}

#: The words of all statements, in the order of their first use.
WORDS: tuple[str, ...] = tuple(
    dict.fromkeys(
        word
        for family in _ALL
        for word in family.statement.split()
        if not word.startswith("{")
    )
)
