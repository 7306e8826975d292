"""Splits by function: nothing that is tested was ever trained on, under any name."""

import numpy as np
import pytest

from agentic_grpo.envs.code_execution.problems import (
    splits,
)
from agentic_grpo.envs.code_execution.problems import (
    table as problem_table,
)
from agentic_grpo.envs.code_execution.problems.families import FAMILIES


@pytest.fixture(scope="module")
def functions():
    """Split -> the keys of its functions, over all families."""
    table = problem_table.build(tuple(FAMILIES))
    found = {index: set() for index in range(splits.NONE + 1)}
    ends = np.append(table.truth_start[1:], len(table.truth))
    for row, (begin, end) in enumerate(zip(table.truth_start, ends, strict=True)):
        found[table.split[row]].add(splits.function_key(table.truth[begin:end]))
    return found


def test_no_function_is_in_two_splits(functions):
    for one in range(len(splits.SPLITS)):
        for other in range(one):
            assert not functions[one] & functions[other]


def test_every_split_has_its_share(functions):
    train, validation, test, compositions = (len(functions[k]) for k in range(4))
    ordinary = train + validation + test
    assert 0.6 < train / ordinary < 0.8
    assert 0.05 < validation / ordinary < 0.15
    assert 0.15 < test / ordinary < 0.25
    assert compositions > 200


def test_equal_functions_of_two_families_have_one_key():
    """3 n + 4 is affine; the same table from a family that could read m is the same."""
    affine = FAMILIES["affine"]
    table = splits.truth_table(affine, {"a": 3, "b": 4})
    told_with_m = np.repeat(table[:, None], 8, axis=1).ravel()
    assert splits.function_key(table) == splits.function_key(told_with_m)
    other = splits.truth_table(affine, {"a": 3, "b": 5})
    assert splits.function_key(table) != splits.function_key(other)


def test_a_function_keeps_its_split_whatever_families_are_chosen():
    alone = problem_table.build(("cubes",))
    among = problem_table.build(("affine", "walk", "cubes"))
    np.testing.assert_array_equal(alone.split, among.split[among.family == 2])


def test_held_out_compositions_are_told_in_words_that_training_knows():
    def words(held_out):
        return {
            word
            for family in FAMILIES.values()
            if family.held_out == held_out
            for word in family.statement.split()
        }

    assert words(True) <= words(False)


def test_held_out_compositions_are_in_no_other_split():
    table = problem_table.build(("per_of_times", "times_of_per"))
    held_out = table.split[table.family == 0]
    assert set(held_out) == {splits.SPLITS.index("compositions"), splits.NONE}
    # (2 n) // 2 + b is n + b, and so on: known functions are dropped, not moved.
    assert np.sum(held_out == splits.NONE) == 20
    assert splits.SPLITS.index("compositions") not in table.split[table.family == 1]


def test_an_empty_split_is_refused_by_name():
    table = problem_table.build(("affine",))
    with pytest.raises(ValueError, match="compositions"):
        table.rows_of_split("compositions")
    with pytest.raises(ValueError, match="'tset'"):
        table.rows_of_split("tset")


def test_siblings_share_the_split_and_all_but_the_hideable_parameter():
    """A teacher that guesses must not show training a test function's program."""
    table = problem_table.build(("walk",))
    for row in range(0, table.num_problems, 7):
        siblings = table.siblings[row]
        assert row in siblings
        assert set(table.split[siblings]) == {table.split[row]}
        concealed = table.statement[siblings, 1]
        np.testing.assert_array_equal(concealed, concealed[:1].repeat(10, axis=0))


def test_an_unknown_family_is_refused_by_name():
    with pytest.raises(ValueError, match="'cubess'"):
        problem_table.build(("cubess",))
