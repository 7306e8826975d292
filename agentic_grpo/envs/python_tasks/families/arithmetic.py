"""Functions of one or two integers: an expression, a condition, a few digits."""

from agentic_grpo.envs.python_tasks.families.family import Family, holes, one_hole

FAMILIES = (
    Family(
        name="add",
        level=1,
        domain="integer",
        entry="add_$k",
        says="Return x plus $k.",
        body="return x + $k",
        holes=one_hole("k", 2, 3, 5, 7, 9, 12, 20, 50),
    ),
    Family(
        name="multiply",
        level=1,
        domain="integer",
        entry="times_$k",
        says="Return $k times x.",
        body="return $k * x",
        holes=one_hole("k", 2, 3, 4, 5, 6, 8, 10, 25),
    ),
    Family(
        name="subtract_from",
        level=1,
        domain="integer",
        entry="from_$k",
        says="Return $k minus x.",
        body="return $k - x",
        holes=one_hole("k", 1, 4, 10, 15, 60, 100),
    ),
    Family(
        name="line",
        level=1,
        domain="integer",
        entry="line_${k}_$c",
        says="Return $k times x, plus $c.",
        body="return $k * x + $c",
        holes=holes("k c", (2, 1), (2, 5), (3, 1), (3, 4), (4, 2), (5, 3), (7, 10)),
    ),
    Family(
        name="remainder",
        level=1,
        domain="integer",
        entry="remainder_$k",
        says="Return the remainder of x divided by $k.",
        body="return x % $k",
        holes=one_hole("k", 2, 3, 4, 5, 7, 9, 10),
    ),
    Family(
        name="is_multiple",
        level=1,
        domain="integer",
        entry="is_multiple_of_$k",
        says="Return whether x is a multiple of $k.",
        body="return x % $k == 0",
        holes=one_hole("k", 2, 3, 4, 5, 6, 7, 10),
    ),
    Family(
        name="power",
        level=1,
        domain="integer",
        entry="power_$k",
        says="Return x to the power of $k.",
        body="return x ** $k",
        holes=one_hole("k", 2, 3, 4, 5),
    ),
    Family(
        name="is_greater",
        level=1,
        domain="integer",
        entry="is_above_$k",
        says="Return whether x is greater than $k.",
        body="return x > $k",
        holes=one_hole("k", 0, 2, 5, 10, 20),
    ),
    Family(
        name="at_least",
        level=1,
        domain="integer",
        entry="at_least_$k",
        says="Return x, or $k if x is smaller.",
        body="return max(x, $k)",
        holes=one_hole("k", 0, 1, 4, 10, 30),
    ),
    Family(
        name="distance",
        level=1,
        domain="integer",
        entry="distance_to_$k",
        says="Return the distance between x and $k.",
        body="return abs(x - $k)",
        holes=one_hole("k", 0, 1, 5, 8, 10, 40),
    ),
    Family(
        name="clamp",
        level=2,
        domain="integer",
        entry="clamp_${low}_$high",
        says="Return x, but at least $low and at most $high.",
        body="return max($low, min(x, $high))",
        holes=holes("low high", (0, 5), (0, 10), (1, 6), (2, 20), (5, 50)),
    ),
    Family(
        name="halve_or_scale",
        level=2,
        domain="integer",
        entry="halve_or_scale_$k",
        says="Return half of x if x is even, else $k times x.",
        body="return x // 2 if x % 2 == 0 else $k * x",
        holes=one_hole("k", 2, 3, 5, 10),
    ),
    Family(
        name="mix",
        level=2,
        domain="two integers",
        entry="mix_${k}_$c",
        says="Return $k times a plus $c times b.",
        body="return $k * a + $c * b",
        holes=holes("k c", (1, 1), (1, 2), (2, 1), (2, 3), (3, 5), (10, 1)),
    ),
    Family(
        name="differ_by_at_most",
        level=2,
        domain="two integers",
        entry="differ_by_at_most_$k",
        says="Return whether a and b differ by at most $k.",
        body="return abs(a - b) <= $k",
        holes=one_hole("k", 0, 1, 4, 6),
    ),
    Family(
        name="count_digit",
        level=3,
        domain="digits",
        entry="count_digit_$k",
        says="Return how many digits of n are $k.",
        body='return str(n).count("$k")',
        holes=one_hole("k", 0, 1, 3, 5),
    ),
    Family(
        name="digit_powers",
        level=3,
        domain="digits",
        entry="digit_powers_$k",
        says="Return the sum of the digits of n, each to the power of $k.",
        body="return sum(int(c) ** $k for c in str(n))",
        holes=one_hole("k", 1, 2, 3, 4),
    ),
    Family(
        name="base_digits",
        level=4,
        domain="digits",
        entry="digits_in_base_$k",
        says="Return the digits of n in base $k, the last one first; [] for 0.",
        body="""
            digits = []
            while n:
                digits.append(n % $k)
                n //= $k
            return digits
        """,
        holes=one_hole("k", 2, 3, 5, 8, 16),
    ),
    Family(
        name="divides_out",
        level=4,
        domain="positive",
        entry="count_factor_$k",
        says="Return how often n can be divided by $k without remainder.",
        body="""
            count = 0
            while n % $k == 0:
                n //= $k
                count += 1
            return count
        """,
        holes=one_hole("k", 2, 3, 4, 5, 6),
    ),
    Family(
        name="common_multiple",
        level=4,
        domain="positive",
        entry="common_multiple_$k",
        says="Return the least common multiple of n and $k.",
        body="""
            multiple = n
            while multiple % $k:
                multiple += n
            return multiple
        """,
        holes=one_hole("k", 2, 3, 4, 6, 9, 10),
    ),
    Family(
        name="multiples_of_either",
        level=4,
        domain="natural",
        entry="multiples_of_${a}_or_$b",
        says="Return the integers from 1 to n that are multiples of $a or $b.",
        body="return [i for i in range(1, n + 1) if i % $a == 0 or i % $b == 0]",
        holes=holes("a b", (2, 3), (2, 5), (3, 4), (3, 5)),
    ),
    Family(
        name="steps_to_one",
        level=5,
        domain="positive",
        entry="steps_$c",
        says=(
            "Halve n while it is even, else add $c; return the number of steps to 1."
        ),
        body="""
            steps = 0
            while n > 1:
                n = n // 2 if n % 2 == 0 else n + $c
                steps += 1
            return steps
        """,
        holes=one_hole("c", 1),
    ),
)
