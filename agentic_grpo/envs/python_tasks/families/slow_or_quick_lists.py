"""Functions of lists and strings with two right answers: of all pairs, or of one pass.

What the two are for: see `slow_or_quick_numbers`.
"""

from agentic_grpo.envs.python_tasks.families.family import Family, holes, one_hole

_LENGTH = 6000  # 10**7 pairs and more, for loops of Python
_LONG = 9000  # for what C does with a list


def _spaced(number, length=_LONG):
    """A list without two equal items, or any at a small distance."""
    return [1000 + 100 * i for i in range(length + 10 * number)]


FAMILIES = (
    Family(
        name="count_common",
        level=3,
        domain="two lists",
        entry="count_common_plus_$k",
        says="Return for how many items x of xs x + $k is in ys.",
        body="""
            known = set(ys)
            return sum(x + $k in known for x in xs)
        """,
        slow="return sum(x + $k in ys for x in xs)",
        large=lambda number, k, **holes: (
            _spaced(number),
            [y - 50 + k for y in _spaced(number + 1)],
        ),
        num_large=2,
        holes=one_hole("k", 0, 1, 2, 3, 5),
    ),
    Family(
        name="items_at_distance",
        level=4,
        domain="list",
        entry="has_distance_$k",
        says="Return whether two items of xs differ by exactly $k.",
        body="""
            known = set(xs)
            return any(x + $k in known for x in xs)
        """,
        slow="return any(x + $k in xs for x in xs)",
        large=lambda number, **holes: (_spaced(number),),
        num_large=2,
        holes=one_hole("k", 1, 2, 3, 4, 5),
    ),
    Family(
        name="pair_with_sum",
        level=4,
        domain="list",
        entry="has_pair_with_sum_$k",
        says="Return whether two items at different places of xs add up to $k.",
        body="""
            seen = set()
            for x in xs:
                if $k - x in seen:
                    return True
                seen.add(x)
            return False
        """,
        slow="""
            for i in range(len(xs)):
                for j in range(i):
                    if xs[i] + xs[j] == $k:
                        return True
            return False
        """,
        large=lambda number, **holes: (_spaced(number, _LENGTH),),
        num_large=2,
        holes=one_hole("k", 3, 4, 5, 6, 10, 12),
    ),
    Family(
        name="letter_before_letter",
        level=5,
        domain="string",
        entry="pairs_${a}_$b",
        says="Return the number of pairs of a letter $a and a letter $b after it in s.",
        body="""
            seen = pairs = 0
            for c in s:
                if c == '$b':
                    pairs += seen
                if c == '$a':
                    seen += 1
            return pairs
        """,
        slow="""
            pairs = 0
            for i in range(len(s)):
                if s[i] == '$a':
                    for j in range(i + 1, len(s)):
                        if s[j] == '$b':
                            pairs += 1
            return pairs
        """,
        large=lambda number, a, b, **holes: ((a + "x" + b + "y") * (4000 + number),),
        num_large=2,
        holes=holes("a b", ("a", "n"), ("o", "o"), ("n", "n"), ("h", "o"), ("i", "s")),
    ),
    Family(
        name="best_gain",
        level=5,
        domain="list",
        entry="best_gain_$k",
        says="Return the largest xs[j] - xs[i] with j >= i + $k, and at least 0.",
        body="""
            best, low = 0, float('inf')
            for i in range($k, len(xs)):
                low = min(low, xs[i - $k])
                best = max(best, xs[i] - low)
            return best
        """,
        slow="""
            best = 0
            for i in range(len(xs)):
                for j in range(i + $k, len(xs)):
                    best = max(best, xs[j] - xs[i])
            return best
        """,
        large=lambda number, **holes: (
            [(7919 * i) % 10007 for i in range(_LENGTH + number)],
        ),
        num_large=2,
        holes=one_hole("k", 1, 2, 3),
    ),
    Family(
        name="frequent_items",
        level=5,
        domain="list",
        entry="frequent_$k",
        says="Return how many different items of xs occur at least $k times.",
        body="""
            from collections import Counter
            return sum(count >= $k for count in Counter(xs).values())
        """,
        slow="return sum(xs.count(x) >= $k for x in set(xs))",
        large=lambda number, **holes: (_spaced(number),),
        num_large=2,
        holes=one_hole("k", 1, 2, 3),
    ),
)
