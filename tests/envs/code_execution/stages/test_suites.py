"""Suites: what is drawn for a group, common to its members."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.envs.code_execution.config import CodeExecutionConfig
from agentic_grpo.envs.code_execution.stages import setting, suites

FAMILIES = ("affine", "table")
NUM_GROUPS, NUM_VISIBLE, NUM_HIDDEN = 64, 4, 3
CONFIG = CodeExecutionConfig(families=FAMILIES, num_hidden_tests=NUM_HIDDEN)


@pytest.fixture(scope="module")
def tables():
    return setting.build(CONFIG)


def draw(tables, fidelity):
    config = dataclasses.replace(CONFIG, visible_fidelity=fidelity)
    share = [config.fidelity_of_family[name] for name in FAMILIES]
    tables = dataclasses.replace(tables, fidelity=np.array(share, np.float32))
    key = jax.random.key(0)
    problem = jax.random.randint(key, (NUM_GROUPS,), 0, tables.table.num_problems)
    uniform = jax.random.uniform(key, (NUM_GROUPS, 3, NUM_VISIBLE + NUM_HIDDEN))
    return problem, suites.draw_suites(uniform, problem, tables)


def test_fidelity_is_the_share_of_hidden_like_visible_tests(tables):
    for fidelity in (0.0, 0.5, 1.0):
        _, suite = draw(tables, fidelity)
        share = np.mean(suite.timed[:, :NUM_VISIBLE])
        assert abs(share - fidelity) < 4 * 0.5 / np.sqrt(NUM_GROUPS * NUM_VISIBLE)
        assert fidelity == 0.5 or share == fidelity


def test_fidelity_can_differ_between_families(tables):
    problem, suite = draw(tables, (("affine", 0.0), ("table", 1.0)))
    is_table = tables.table.family[problem] == 1
    np.testing.assert_array_equal(
        np.all(suite.timed[:, :NUM_VISIBLE], axis=1), is_table
    )
    np.testing.assert_array_equal(
        np.any(suite.timed[:, :NUM_VISIBLE], axis=1), is_table
    )


def test_inputs_lie_in_their_ranges_and_fuel_goes_with_them(tables):
    problem, suite = draw(tables, 0.5)
    table = tables.table
    n, m = np.moveaxis(np.asarray(suite.inputs), -1, 0)
    timed = np.asarray(suite.timed)
    low = np.where(timed, table.large_n[problem, :1], table.small_n[problem, :1])
    high = np.where(timed, table.large_n[problem, 1:], table.small_n[problem, 1:])
    assert np.all((low <= n) & (n <= high))
    assert np.all((m >= 1) & (m <= np.where(timed, 7, table.small_m[problem, 1:])))
    np.testing.assert_array_equal(
        suite.fuel[:, :NUM_VISIBLE],
        np.where(timed[:, :NUM_VISIBLE], CONFIG.strict_fuel, CONFIG.loose_fuel),
    )


def test_hidden_tests_are_strict_and_all_large_but_the_first(tables):
    """A program that is right on large inputs alone must not solve a problem."""
    _, suite = draw(tables, 0.5)
    np.testing.assert_array_equal(suite.fuel[:, NUM_VISIBLE:], CONFIG.strict_fuel)
    np.testing.assert_array_equal(
        suite.timed[:, NUM_VISIBLE:], [[False, True, True]] * NUM_GROUPS
    )


def test_expected_outputs_are_the_truth(tables):
    """affine: a n + b; table: n m (a (n + 1) + c (m + 1)) / 2 + b; as it is told."""
    problem, suite = draw(tables, 0.5)
    for group in range(8):
        statement = np.asarray(tables.table.statement)[problem[group], 0]
        told = statement[statement != 0][1:] - 5  # the digit 0 is token 5
        n, m = np.asarray(suite.inputs[group]).T
        if len(told) == 2:
            a, b = told
            expected = a * n + b
        else:
            a, c, b = told
            expected = n * m * (a * (n + 1) + c * (m + 1)) // 2 + b
        np.testing.assert_array_equal(suite.expected[group], expected)


def test_strata_keep_the_inputs_of_a_suite_apart():
    uniform = jnp.array([[0.0, 0.0, 0.0], [0.999, 0.999, 0.999]])
    drawn = suites.between(uniform, jnp.array([[10, 39], [10, 39]]))
    np.testing.assert_array_equal(drawn, [[10, 20, 30], [19, 29, 39]])


def test_a_uniform_number_next_to_one_stays_below_the_count():
    """float32: 0.99999994 * 2**24 rounds to 2**24."""
    almost = jnp.float32(1 - 2**-24)
    assert int(suites.below(almost, 2**24 + 2)) <= 2**24 + 1
    assert int(suites.below(almost, 3)) == 2
    assert int(suites.below(jnp.float32(0), 3)) == 0


def test_families_are_drawn_alike_whatever_their_size(tables):
    rows = [np.array([5]), np.arange(100, 190)]
    uniform = jax.random.uniform(jax.random.key(1), (2000, 2))
    drawn = np.asarray(suites.draw_problem(uniform, rows))
    assert abs(np.mean(drawn == 5) - 0.5) < 4 * 0.5 / np.sqrt(2000)
    assert set(drawn[drawn != 5]) == set(range(100, 190))


def test_lookups_outside_the_domain_are_clipped(tables):
    problem = jnp.zeros(1, jnp.int32)
    inputs = jnp.array([[[999, 0], [-5, 0], [63, 0], [0, 0]]])
    got = suites.truth(tables.table, problem, inputs)[0]
    assert got[0] == got[2] and got[1] == got[3]
