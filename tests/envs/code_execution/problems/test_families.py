"""Problem families: three texts of one function, and the fuel that they need."""

import jax
import numpy as np
import pytest

from agentic_grpo.envs.code_execution import judging
from agentic_grpo.envs.code_execution.config import CodeExecutionConfig
from agentic_grpo.envs.code_execution.problems import (
    measurements,
    splits,
)
from agentic_grpo.envs.code_execution.problems import (
    table as problem_table,
)
from agentic_grpo.envs.code_execution.problems.families import (
    FAMILIES,
    WORDS,
)
from agentic_grpo.envs.code_execution.problems.family import (
    NUM_LEVELS,
    NUM_M,
)
from agentic_grpo.envs.code_execution.vm.instructions import (
    MachineEnding,
)

CONFIG = CodeExecutionConfig()
ENOUGH_FUEL = 20_000  # the slowest brute force needs 12 289 on the whole domain


@pytest.fixture(scope="module")
def table():
    """All families together, so that every program has one width: one compilation."""
    return problem_table.build(tuple(FAMILIES))


@pytest.fixture(params=tuple(FAMILIES))
def executed(request, table):
    """Both programs of every problem of one family, on every input of the domain."""
    family = FAMILIES[request.param]
    rows = np.flatnonzero(table.family == list(FAMILIES).index(request.param))
    inputs = splits.domain(reads_m=family.reads_m)
    job_rows = np.repeat(rows, len(inputs))
    inputs = np.tile(inputs, (len(rows), 1))
    begin = table.truth_start[rows[0]]
    return (
        family,
        inputs,
        table.truth[begin : begin + len(inputs)],
        *(
            measurements.run_in_batches(programs[job_rows], inputs, ENOUGH_FUEL)
            for programs in (table.brute_force, table.efficient)
        ),
    )


def test_brute_force_and_efficient_program_are_equal_and_true(executed):
    """On the whole domain; and the fuel limits part them where they should.

    An efficient program that is a unit too slow would make its family unsolvable; a
    brute force that is a unit too quick would make it solvable without insight.
    """
    family, inputs, truth, brute, efficient = executed
    for result in (brute, efficient):
        np.testing.assert_array_equal(result.ending, MachineEnding.HALTED)
        np.testing.assert_array_equal(result.output, truth)

    n, m = inputs.T
    small = (family.small_n[0] <= n) & (n <= family.small_n[1])
    large = (family.large_n[0] <= n) & (n <= family.large_n[1])
    if family.reads_m:
        small &= (family.small_m[0] <= m) & (m <= family.small_m[1])
        large &= (m >= 1) & (m < NUM_M)
    assert np.all(brute.fuel_used[small] <= CONFIG.loose_fuel)
    assert np.all(efficient.fuel_used <= CONFIG.strict_fuel)
    meets_strict = brute.fuel_used[large] <= CONFIG.strict_fuel
    assert np.all(meets_strict == (family.level == 1))
    # The deceptive judge must suspect every efficient program on every small test.
    share = efficient.fuel_used[small] / brute.fuel_used[small]
    assert np.all(share < judging.SUSPICIOUS_SHARE)


def test_there_are_sixteen_families_over_five_levels():
    assert len(FAMILIES) >= 16
    assert {family.level for family in FAMILIES.values()} == set(
        range(1, NUM_LEVELS + 1)
    )
    assert list(FAMILIES) == sorted(FAMILIES, key=lambda name: FAMILIES[name].level)


def test_the_strictest_and_the_loosest_fuel_that_a_config_allows_keep_their_meaning():
    """The limits of the config are those for which the fuel test above was made."""
    with pytest.raises(ValueError, match="strict_fuel"):
        CodeExecutionConfig(strict_fuel=CONFIG.strict_fuel - 1)
    with pytest.raises(ValueError, match="loose_fuel"):
        CodeExecutionConfig(loose_fuel=CONFIG.loose_fuel - 1)
    rows = problem_table.build(("triangle_of_times", "rectangle", "excess"))
    fuel = measurements.brute_fuel(("triangle_of_times", "rectangle", "excess"), 1000)
    n = np.concatenate(
        [splits.domain(reads_m=bool(reads))[:, 0] for reads in rows.reads_m]
    )
    assert fuel[n >= 32].min() > 64  # the largest strict fuel that a config may set
    with pytest.raises(ValueError, match="strict_fuel"):
        CodeExecutionConfig(strict_fuel=65)


def test_the_hideable_parameter_is_the_answer_to_the_smallest_case(table):
    """Else executing the brute force on it would not reveal what a statement hides."""
    np.testing.assert_array_equal(table.truth[table.truth_start], table.digit)


def test_statements_are_short_and_end_with_the_hideable_parameter(table):
    assert table.prompt_width <= 8
    for family in FAMILIES.values():
        assert family.statement.endswith("{b}")


def test_no_program_needs_more_than_its_plan_allows(table):
    """Plans are the narrowest; a family without any would be refused when built."""
    assert set(np.unique(table.plan)) == {0, 1, 2, 3}
    assert np.all(table.plan[:, 1] <= table.plan[:, 0])  # efficient is never wider
    rows = np.arange(table.num_problems)
    np.testing.assert_array_equal(
        table.reference[rows, table.plan[:, 1]], table.efficient
    )


def test_brute_fuel_is_laid_out_like_the_truth(table):
    """affine: n, sum, then 2 per pass, then b and +; at n = 20, 4 + 40."""
    fuel = measurements.brute_fuel(("affine", "rectangle"), CONFIG.loose_fuel)
    small = problem_table.build(("affine", "rectangle"))
    start = small.truth_start[3]
    assert fuel[start + 20] == 44
    row = np.flatnonzero(small.family == 1)[5]  # rectangle: 4 per pass; m has no say
    start, stride = small.truth_start[row], small.truth_stride[row]
    assert fuel[start + stride @ [10, 3]] == 44
    assert fuel[start + stride @ [60, 3]] == CONFIG.loose_fuel  # 244, capped


def test_words_are_told_once():
    assert len(set(WORDS)) == len(WORDS)


def test_building_makes_no_device_arrays():
    leaves = vars(problem_table.build(("affine",))).values()
    assert not any(isinstance(leaf, jax.Array) for leaf in leaves)
