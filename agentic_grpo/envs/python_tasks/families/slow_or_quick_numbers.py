"""Functions with two right answers, one of which is too slow for large inputs.

On small inputs nobody can tell the two apart, so the visible calls score both alike;
the hidden calls are half large. The slow one takes at least thirty times as many steps
there as the quick one (mostly thousands of times), so that no limit of processor time
between the two judges the machine instead of the program.
"""

from agentic_grpo.envs.python_tasks.families.family import Family, holes, one_hole

_HUGE = 10**9  # no loop comes to its end
_FIBONACCI = 42  # 10**9 calls of a function that calls itself twice

#: The first eight primes above 50 million.
_PRIMES = (
    50_000_017,
    50_000_021,
    50_000_047,
    50_000_059,
    50_000_063,
    50_000_101,
    50_000_131,
    50_000_141,
)


def _huge(number, **holes):
    return (_HUGE + 12_345 * number,)


def _deep(number, **holes):
    return (_FIBONACCI + number,)


FAMILIES = (
    Family(
        name="sum_of_multiples_to",
        level=2,
        domain="natural",
        entry="sum_multiples_$k",
        says="Return the sum of the multiples of $k from 1 to n.",
        body="""
            m = n // $k
            return $k * m * (m + 1) // 2
        """,
        slow="""
            total = 0
            for i in range($k, n + 1, $k):
                total += i
            return total
        """,
        large=_huge,
        holes=one_hole("k", 1, 2, 3, 4, 5, 7),
    ),
    Family(
        name="sum_of_squares_to",
        level=3,
        domain="natural",
        entry="sum_squares_plus_$k",
        says="Return the sum of i * i + $k for i from 1 to n.",
        body="return n * (n + 1) * (2 * n + 1) // 6 + $k * n",
        slow="return sum(i * i + $k for i in range(1, n + 1))",
        large=_huge,
        holes=one_hole("k", 0, 1, 2, 3, 5),
    ),
    Family(
        name="count_multiples_to",
        level=2,
        domain="natural",
        entry="count_multiples_$k",
        says="Return how many integers from 1 to n are multiples of $k.",
        body="return n // $k",
        slow="""
            count = 0
            for i in range(1, n + 1):
                if i % $k == 0:
                    count += 1
            return count
        """,
        large=_huge,
        holes=one_hole("k", 2, 3, 4, 5, 6, 7),
    ),
    Family(
        name="sum_of_either_to",
        level=4,
        domain="natural",
        entry="sum_of_${a}s_and_${b}s",
        says="Return the sum of the integers from 1 to n divisible by $a or $b.",
        body="""
            def total(k):
                return k * (n // k) * (n // k + 1) // 2
            return total($a) + total($b) - total($a * $b)
        """,
        slow="return sum(i for i in range(1, n + 1) if i % $a == 0 or i % $b == 0)",
        large=_huge,
        holes=holes("a b", (2, 3), (2, 5), (3, 4), (3, 5)),
    ),
    Family(
        name="alternating_sum",
        level=3,
        domain="natural",
        entry="alternating_$k",
        says="Return $k - 2 * $k + 3 * $k - 4 * $k and so on, n terms.",
        body="return $k * (n + 1) // 2 if n % 2 else -$k * n // 2",
        slow="""
            total = 0
            for i in range(1, n + 1):
                total += $k * i if i % 2 else -$k * i
            return total
        """,
        large=_huge,
        holes=one_hole("k", 1, 2, 4),
    ),
    Family(
        name="fibonacci",
        level=3,
        domain="natural",
        entry="sequence_${p}_$q",
        says="Return term n of $p, $q ..., from 0; each is the sum of the two before.",
        body="""
            a, b = $p, $q
            for _ in range(n):
                a, b = b, a + b
            return a
        """,
        slow="""
            if n < 2:
                return [$p, $q][n]
            return $entry(n - 1) + $entry(n - 2)
        """,
        large=_deep,
        holes=holes("p q", (0, 1), (2, 1), (1, 3), (3, 1), (1, 5), (4, 2)),
    ),
    Family(
        name="ways_to_climb",
        level=4,
        domain="natural",
        entry="ways_to_climb_$k",
        says="Return in how many ways n stairs can be climbed by 1 to $k at a time.",
        body="""
            ways = [1]
            for _ in range(n):
                ways.append(sum(ways[-$k:]))
            return ways[n]
        """,
        slow="""
            if n == 0:
                return 1
            return sum($entry(n - i) for i in range(1, min(n, $k) + 1))
        """,
        large=_deep,
        holes=one_hole("k", 2, 3, 4),
    ),
    Family(
        name="divisors",
        level=4,
        domain="positive",
        entry="divisors_power_$k",
        says="Return the sum of the divisors of n, each to the power of $k.",
        body="""
            total, d = 0, 1
            while d * d <= n:
                if n % d == 0:
                    total += d ** $k
                    if d * d < n:
                        total += (n // d) ** $k
                d += 1
            return total
        """,
        slow="return sum(d ** $k for d in range(1, n + 1) if n % d == 0)",
        # the quick one is quick by a root: 7,000 turns
        large=lambda number, **holes: (50_000_000 + 2520 * number,),
        holes=one_hole("k", 0, 1, 2),
    ),
    Family(
        name="trial_division",
        level=3,
        domain="positive",
        entry="$name",
        says="Return $what.",
        body="""
            d = 2
            while d * d <= n:
                if n % d == 0:
                    return $found
                d += 1
            return $none
        """,
        slow="""
            for d in range(2, n):
                if n % d == 0:
                    return $found
            return $none
        """,
        large=lambda number, **holes: (_PRIMES[number],),
        holes=holes(
            "name what found none",
            ("is_prime", "whether n is a prime number", "False", "n > 1"),
            (
                "smallest_divisor",
                "the smallest divisor of n above 1, or n if there is none",
                "d",
                "n",
            ),
            (
                "largest_divisor",
                "the largest divisor of n below n, or 1 if there is none",
                "n // d",
                "1",
            ),
        ),
    ),
    Family(
        name="common_divisor",
        level=3,
        domain="positive",
        entry="common_divisor_$k",
        says="Return the greatest common divisor of n and $k.",
        body="""
            a, b = n, $k
            while b:
                a, b = b, a % b
            return a
        """,
        slow="""
            for d in range(n, 0, -1):
                if n % d == 0 and $k % d == 0:
                    return d
        """,
        large=_huge,
        holes=one_hole("k", 6, 10, 12, 15, 18),
    ),
    Family(
        name="power_remainder",
        level=4,
        domain="natural",
        entry="power_of_${k}_modulo_$m",
        says="Return the remainder of $k to the power of n divided by $m.",
        body="return pow($k, n, $m)",
        slow="""
            result = 1
            for _ in range(n):
                result = result * $k % $m
            return result
        """,
        large=_huge,
        holes=holes("k m", (2, 7), (2, 11), (3, 10), (3, 17), (5, 13), (7, 100)),
    ),
    Family(
        name="factor_in_factorial",
        level=5,
        domain="digits",
        entry="factor_${k}_in_factorial",
        says="Return how often the factorial of n can be divided by $k.",
        body="""
            count = 0
            while n:
                n //= $k
                count += n
            return count
        """,
        slow="""
            count = 0
            for i in range(1, n + 1):
                while i % $k == 0:
                    i //= $k
                    count += 1
            return count
        """,
        large=_huge,
        holes=one_hole("k", 2, 3, 5, 7),
    ),
    Family(
        name="squares_between",
        level=4,
        domain="natural",
        entry="squares_from_$k",
        says="Return how many square numbers are at least $k and at most n.",
        body="""
            import math
            return max(0, math.isqrt(n) - math.isqrt($k - 1))
        """,
        slow="return sum(int(i ** 0.5) ** 2 == i for i in range($k, n + 1))",
        large=_huge,
        holes=one_hole("k", 1, 2, 5, 10),
    ),
)
