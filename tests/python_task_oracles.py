"""What each family's functions should answer, computed in other ways than there.

``ORACLES[family](*arguments, **holes)``; the values of the holes are given by name.
"""

import collections
import fractions
import functools
import itertools
import math
import re
import statistics


def _digits(n, base=10):
    return [] if n == 0 else [*_digits(n // base, base), n % base]


def _divisors(n):
    return [d for d in range(1, n + 1) if math.gcd(d, n) == d]


def _to(n):
    return range(1, n + 1)


def _steps(n, c):
    return 0 if n == 1 else 1 + _steps(n + c if n & 1 else n >> 1, c)


def _term(n, p, q):
    fibonacci = functools.cache(
        lambda k: k if k < 2 else fibonacci(k - 1) + fibonacci(k - 2)
    )
    return p if n == 0 else p * fibonacci(n - 1) + q * fibonacci(n)


def _compositions(n, k):
    """Polynomial coefficients: of (z + ... + z^k)^m at z^n, summed over m."""
    total, power = 0, {0: 1}
    for _ in range(n + 1):
        total += power.get(n, 0)
        grown = collections.Counter()
        for degree, count in power.items():
            for step in range(1, k + 1):
                grown[degree + step] += count
        power = grown
    return total


_LIST_FACTS = {
    "largest": lambda xs: sorted(xs)[-1],
    "smallest": lambda xs: sorted(xs)[0],
    "spread": lambda xs: max(a - b for a in xs for b in xs),
    "ends": lambda xs: xs[0] + xs[len(xs) - 1],
    "mean": lambda xs: float(fractions.Fraction(sum(xs), len(xs))),
    "middle": statistics.median_high,
}
_TABLE_FACTS = {
    "row_sums": lambda rows: list(map(sum, rows)),
    "column_sums": lambda rows: [
        sum(row[i] for row in rows) for i in range(len(rows[0]))
    ],
    "transpose": lambda rows: [[row[i] for row in rows] for i in range(len(rows[0]))],
    "flatten": lambda rows: list(itertools.chain.from_iterable(rows)),
    "largest_of_rows": lambda rows: [sorted(row)[-1] for row in rows],
    "mirror": lambda rows: [list(reversed(row)) for row in rows],
}
_STRING_FACTS = {
    "shout": lambda s: "".join(c.upper() for c in s),
    "whisper": lambda s: "".join(c.lower() for c in s),
    "backwards": lambda s: "".join(reversed(s)),
    "swap_case": lambda s: "".join(c.lower() if c.isupper() else c.upper() for c in s),
    "count_words": lambda s: len(re.findall(r"\S+", s)),
    "is_palindrome": lambda s: all(s[i] == s[-1 - i] for i in range(len(s))),
    "last_word": lambda s: s.split(" ")[-1],
}
_WORD_FACTS = {
    "lengths": lambda word: sum(1 for _ in word),
    "initials": lambda word: word[:1],
    "all_upper": lambda word: word.swapcase() if word.islower() else word.upper(),
    "all_backwards": lambda word: "".join(reversed(word)),
    "doubled": lambda word: word + word,
    "endings": lambda word: word[len(word) - 1 :],
}
_WORD_ORDERS = {
    "by_length": len,
    "by_last_letter": lambda word: word[::-1][0],
    "by_lower_case": str.casefold,
}
_WORD_INDICES = {
    "length_of": lambda words: dict(zip(words, map(len, words), strict=True)),
    "upper_of": lambda words: dict(zip(words, map(str.upper, words), strict=True)),
    "last_with": lambda words: {
        c: [word for word in words if word[0] == c][-1] for c in {w[0] for w in words}
    },
}
_DIVISION_FACTS = {
    "is_prime": lambda n: len(_divisors(n)) == 2,
    "smallest_divisor": lambda n: [*_divisors(n), n][1],
    "largest_divisor": lambda n: [1, *_divisors(n)][-2],
}


def _insert_by(key, items):
    """A stable sort by insertion."""
    done = []
    for item in items:
        place = sum(key(other) <= key(item) for other in done)
        done.insert(place, item)
    return done


ORACLES = {
    # arithmetic
    "add": lambda x, k: sum((x, k)),
    "multiply": lambda x, k: sum([x] * k),
    "subtract_from": lambda x, k: -(x - k),
    "line": lambda x, k, c: sum([x] * k, c),
    "remainder": lambda x, k: x - k * math.floor(fractions.Fraction(x, k)),
    "is_multiple": lambda x, k: math.gcd(x, k) == k,
    "power": lambda x, k: math.prod([x] * k),
    "is_greater": lambda x, k: max(x, k) != k,
    "at_least": lambda x, k: k if x < k else x,
    "distance": lambda x, k: max(x, k) - min(x, k),
    "clamp": lambda x, low, high: sorted((low, x, high))[1],
    "halve_or_scale": lambda x, k: [x >> 1, k * x][x & 1],
    "mix": lambda a, b, k, c: sum([a] * k) + sum([b] * c),
    "differ_by_at_most": lambda a, b, k: b in range(a - k, a + k + 1),
    "count_digit": lambda n, k: ([0] if n == 0 else _digits(n)).count(k),
    "digit_powers": lambda n, k: sum(d**k for d in _digits(n)),
    "base_digits": lambda n, k: _digits(n, k)[::-1],
    "divides_out": lambda n, k: (
        max(e for e in range(n) if n % k**e == 0) if n > 1 else 0
    ),
    "common_multiple": lambda n, k: math.lcm(n, k),
    "multiples_of_either": lambda n, a, b: sorted(
        {*range(a, n + 1, a), *range(b, n + 1, b)}
    ),
    "steps_to_one": _steps,
    # sequences
    "list_fact": lambda xs, name, **_: _LIST_FACTS[name](xs),
    "first_items": lambda xs, k: [x for i, x in enumerate(xs) if i < k],
    "last_items": lambda xs, k: [x for i, x in enumerate(xs) if i >= len(xs) - k],
    "drop_items": lambda xs, k: [x for i, x in enumerate(xs) if i >= k],
    "every_kth": lambda xs, k, first: [
        x for i, x in enumerate(xs) if i >= first and (i - first) % k == 0
    ],
    "count_item": lambda xs, k: sum(x == k for x in xs),
    "contains": lambda xs, k: any(x == k for x in xs),
    "count_above": lambda xs, k: sum(x > k for x in xs),
    "scale_items": lambda xs, k: list(map(k.__mul__, xs)),
    "shift_items": lambda xs, k: list(map(k.__add__, xs)),
    "keep_above": lambda xs, k: list(filter(lambda x: x > k, xs)),
    "keep_multiples": lambda xs, k: list(filter(lambda x: math.gcd(x, k) == k, xs)),
    "smallest_items": lambda xs, k: _insert_by(lambda x: x, xs)[:k],
    "largest_items": lambda xs, k: _insert_by(lambda x: -x, xs)[:k],
    "sum_of_powers": lambda xs, k: sum(math.prod([x] * k) for x in xs),
    "sum_of_multiples": lambda xs, k: sum(x * (math.gcd(x, k) == k) for x in xs),
    "replace_items": lambda xs, k, c: list(map(lambda x: {k: c}.get(x, x), xs)),
    "cap_items": lambda xs, k: list(map(lambda x: k if x > k else x, xs)),
    "rotate": lambda xs, k: list(itertools.chain(xs[k:], xs[: min(k, len(xs))])),
    "combine_lists": lambda xs, ys, k, c: [
        k * xs[i] + c * ys[i] for i in range(min(len(xs), len(ys)))
    ],
    "running_totals": lambda xs, k: list(itertools.accumulate(xs, initial=k)),
    "lagged_differences": lambda xs, k: [
        xs[i + k] - x for i, x in enumerate(xs) if i + k < len(xs)
    ],
    "window_sums": lambda xs, k: [
        sum(xs[i + j] for j in range(k)) for i, _ in enumerate(xs) if i + k <= len(xs)
    ],
    "chunks": lambda xs, k: [
        [x for i, x in enumerate(xs) if i // k == j] for j in range(-(-len(xs) // k))
    ],
    "scaled_sum_above": lambda xs, k, c: k * sum(x for x in xs if x > c),
    "sort_by_remainder": lambda xs, k: _insert_by(lambda x: x % k, xs),
    "longest_run_above": lambda xs, k: max(
        [len(list(g)) for above, g in itertools.groupby(xs, lambda x: x > k) if above],
        default=0,
    ),
    "table_fact": lambda rows, name, **_: _TABLE_FACTS[name](rows),
    # texts
    "string_fact": lambda s, name, **_: _STRING_FACTS[name](s),
    "repeat": lambda s, k: "".join([s] * k),
    "add_prefix": lambda s, k: "".join([k, s]),
    "add_suffix": lambda s, k: "".join([s, k]),
    "first_letters": lambda s, k: "".join(c for i, c in enumerate(s) if i < k),
    "last_letters": lambda s, k: s[max(0, len(s) - k) :],
    "count_letter": lambda s, k: sum(c == k for c in s),
    "replace_letter": lambda s, k, c: s.translate({ord(k): c}),
    "remove_letter": lambda s, k: s.translate({ord(k): None}),
    "starts_with": lambda s, k: s[:1] == k,
    "split_at": lambda s, k: re.split(k, s),
    "count_any": lambda s, k: len(re.findall(f"[{k}]", s)),
    "drop_any": lambda s, k: re.sub(f"[{k}]", "", s),
    "spaced": lambda s, k, **_: re.sub(r"(?<=.)(?=.)", k, s),
    "shift_letters": lambda s, k: "".join(
        chr((ord(c) - 97 + k) % 26 + 97) if c.isascii() and c.islower() else c
        for c in s
    ),
    "each_word": lambda words, name, **_: list(map(_WORD_FACTS[name], words)),
    "words_longer": lambda words, k: [word for word in words if word[k:]],
    "words_starting": lambda words, k: [word for word in words if word[:1] == k],
    "words_containing": lambda words, k: [word for word in words if set(word) & {k}],
    "join_words": lambda words, k, **_: functools.reduce(
        lambda text, word: text + k + word, words[1:], "".join(words[:1])
    ),
    "sort_words": lambda words, name, **_: _insert_by(_WORD_ORDERS[name], words),
    "keys_above": lambda counts, k: _insert_by(
        str, [key for key, count in counts.items() if count > k]
    ),
    "scale_counts": lambda counts, k: dict(
        zip(counts, map(k.__mul__, counts.values()), strict=True)
    ),
    "index_words": lambda words, name, **_: _WORD_INDICES[name](words),
    "runs": lambda s, k: [
        run for run in ("".join(g) for _, g in itertools.groupby(s)) if run[k - 1 :]
    ],
    # slow and fast
    "sum_of_multiples_to": lambda n, k: sum(i for i in _to(n) if i % k == 0),
    "sum_of_squares_to": lambda n, k: sum(i**2 for i in _to(n)) + n * k,
    "count_multiples_to": lambda n, k: len(range(k, n + 1, k)),
    "sum_of_either_to": lambda n, a, b: sum({*range(a, n + 1, a), *range(b, n + 1, b)}),
    "alternating_sum": lambda n, k: sum(-k * i * (-1) ** i for i in _to(n)),
    "fibonacci": _term,
    "ways_to_climb": _compositions,
    "divisors": lambda n, k: sum(d**k for d in _divisors(n)),
    "trial_division": lambda n, name, **_: _DIVISION_FACTS[name](n),
    "common_divisor": lambda n, k: math.gcd(n, k),
    "power_remainder": lambda n, k, m: math.prod([k] * n) % m,
    "factor_in_factorial": lambda n, k: sum(n // k**e for e in range(1, 20)),
    "squares_between": lambda n, k: len({i * i for i in _to(n)} & {*range(k, n + 1)}),
    "count_common": lambda xs, ys, k: len([x for x in xs if {x + k} & {*ys}]),
    "items_at_distance": lambda xs, k: any(
        abs(a - b) == k for a, b in itertools.combinations(xs, 2)
    ),
    "pair_with_sum": lambda xs, k: any(
        a + b == k for a, b in itertools.combinations(xs, 2)
    ),
    "letter_before_letter": lambda s, a, b: sum(
        pair == (a, b) for pair in itertools.combinations(s, 2)
    ),
    "best_gain": lambda xs, k: max(
        [0, *(b - a for i, a in enumerate(xs) for b in xs[i + k :])]
    ),
    "frequent_items": lambda xs, k: len(
        {x for x in xs if sum(y == x for y in xs) >= k}
    ),
}
