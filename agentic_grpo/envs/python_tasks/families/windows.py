"""Functions of lists that look at several items at once, and of tables."""

from agentic_grpo.envs.python_tasks.families.family import Family, holes, one_hole

FAMILIES = (
    Family(
        name="running_totals",
        level=4,
        domain="list",
        entry="totals_from_$k",
        says="Return the running totals of xs, starting with $k.",
        body="""
            totals = [$k]
            for x in xs:
                totals.append(totals[-1] + x)
            return totals
        """,
        holes=one_hole("k", 0, 1, 5, 10),
    ),
    Family(
        name="lagged_differences",
        level=4,
        domain="list",
        entry="differences_$k",
        says="Return each item of xs minus the item $k places before it.",
        body="return [xs[i] - xs[i - $k] for i in range($k, len(xs))]",
        holes=one_hole("k", 1, 2, 3),
    ),
    Family(
        name="window_sums",
        level=4,
        domain="list",
        entry="window_sums_$k",
        says="Return the sums of every $k neighbouring items of xs.",
        body="return [sum(xs[i:i + $k]) for i in range(len(xs) - $k + 1)]",
        holes=one_hole("k", 2, 3, 4),
    ),
    Family(
        name="chunks",
        level=4,
        domain="list",
        entry="chunks_of_$k",
        says="Return xs cut into lists of $k items; the last may be shorter.",
        body="return [xs[i:i + $k] for i in range(0, len(xs), $k)]",
        holes=one_hole("k", 1, 2, 3, 4),
    ),
    Family(
        name="scaled_sum_above",
        level=4,
        domain="list",
        entry="sum_${k}_above_$c",
        says="Return the sum of $k times x over the items x of xs above $c.",
        body="return sum($k * x for x in xs if x > $c)",
        holes=holes("k c", (2, 0), (2, 3), (3, 1), (5, 2), (10, 5)),
    ),
    Family(
        name="sort_by_remainder",
        level=5,
        domain="list",
        entry="sort_by_remainder_$k",
        says="Return xs sorted by remainder modulo $k; equal ones keep their order.",
        body="return sorted(xs, key=lambda x: x % $k)",
        holes=one_hole("k", 2, 3, 4, 5),
    ),
    Family(
        name="longest_run_above",
        level=5,
        domain="list",
        entry="longest_run_above_$k",
        says="Return the length of the longest run of neighbours in xs above $k.",
        body="""
            best = run = 0
            for x in xs:
                run = run + 1 if x > $k else 0
                best = max(best, run)
            return best
        """,
        holes=one_hole("k", 0, 1, 3, 5),
    ),
    Family(
        name="table_fact",
        level=4,
        domain="table",
        entry="$name",
        says="Return $what.",
        body="return $value",
        holes=holes(
            "name what value",
            ("row_sums", "the sum of each row", "[sum(row) for row in rows]"),
            (
                "column_sums",
                "the sum of each column",
                "[sum(column) for column in zip(*rows)]",
            ),
            (
                "transpose",
                "the columns of rows, as a list of lists",
                "[list(column) for column in zip(*rows)]",
            ),
            (
                "flatten",
                "the items of all rows, in order",
                "[x for row in rows for x in row]",
            ),
            (
                "largest_of_rows",
                "the largest item of each row",
                "[max(row) for row in rows]",
            ),
            (
                "mirror",
                "rows with the items of each reversed",
                "[row[::-1] for row in rows]",
            ),
        ),
    ),
)
