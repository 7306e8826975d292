"""Mutants: one edit away, never equivalent, and one that is only slow."""

import numpy as np
import pytest

from agentic_grpo.envs.code_execution.problems import (
    measurements,
    mutants,
    splits,
)
from agentic_grpo.envs.code_execution.problems import (
    table as problem_table,
)
from agentic_grpo.envs.code_execution.vm.instructions import (
    MachineEnding,
)

FAMILIES = ("affine", "rectangle", "mirror", "cubes")  # those of the full environment
STRICT = 48


@pytest.fixture(scope="module")
def tables():
    return problem_table.build(FAMILIES), mutants.build(FAMILIES, 4, STRICT)


def test_a_mutant_is_one_instruction_away_and_all_are_different(tables):
    table, made = tables
    assert made.exists[:, :4].all()
    distance = np.sum(made.program[:, :4] != table.efficient[:, None], axis=-1)
    np.testing.assert_array_equal(distance, 1)
    for programs in made.program[::17]:
        assert len(np.unique(programs, axis=0)) == len(programs)


def test_no_mutant_is_equivalent(tables):
    """Executed on the whole domain, not on the probes alone."""
    table, made = tables
    for row in range(0, table.num_problems, 60):
        inputs = splits.domain(reads_m=True)
        jobs = np.repeat(made.program[row, :4], len(inputs), axis=0)
        result = measurements.run_in_batches(jobs, np.tile(inputs, (4, 1)), STRICT)
        stride = table.truth_stride[row]
        truth = table.truth[table.truth_start[row] + inputs @ stride]
        right = (result.ending == MachineEnding.HALTED).reshape(4, -1)
        right &= result.output.reshape(4, -1) == truth
        assert not right.all(axis=1).any()


def test_hard_mutants_are_often_right(tables):
    """Had they been chosen at random, most would be wrong everywhere."""
    table, made = tables
    agrees = mutants._agreement(table, made.program[:, :4], STRICT)
    hardness = agrees.mean(axis=-1)
    assert np.all(np.diff(hardness, axis=1) <= 0)  # the hardest first
    assert hardness[:, 0].mean() > 0.1


def test_the_last_mutant_is_the_brute_force_where_it_is_slow(tables):
    table, made = tables
    np.testing.assert_array_equal(made.program[:, 4], table.brute_force)
    np.testing.assert_array_equal(made.exists[:, 4], table.level > 0)
