"""Scores, derived by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.envs.code_execution import judging
from agentic_grpo.envs.code_execution.judging import TestStatus as Status
from agentic_grpo.envs.code_execution.vm.instructions import (
    MachineEnding,
)


def test_a_fault_with_the_right_output_is_still_a_fault():
    names = ("HALTED", "FAULT", "OUT_OF_FUEL", "HALTED")
    ending = jnp.array([MachineEnding[name] for name in names])
    status = judging.judge(ending, jnp.array([7, 7, 7, 6]), jnp.full(4, 7))
    expected = [Status.PASSED, Status.FAULT, Status.OUT_OF_FUEL, Status.WRONG]
    np.testing.assert_array_equal(status, expected)


def score(status, used, brute, timed, **options):
    arrays = (jnp.array([x]) for x in (int(status), used, brute, timed))
    return float(judging.score_tests(*arrays, out_of_fuel_score=0.1, **options)[0])


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Status.PASSED, 1.0),
        (Status.WRONG, 0.0),
        (Status.FAULT, 0.0),
        (Status.OUT_OF_FUEL, 0.1),
        (Status.NOT_RUN, 0.0),
    ],
)
def test_a_test_scores_by_its_status(status, expected):
    assert score(status, 10, 10, True) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("used", "brute", "timed", "expected"),
    [
        (10, 10, True, 0.5),  # no quicker
        (20, 10, True, 0.5),  # slower is not worse: it is right
        (10, 20, True, 0.75),  # log 2 / log 4 is a half
        (10, 40, True, 1.0),
        (10, 400, True, 1.0),
        (10, 20, False, 1.0),  # small tests see nothing of speed
    ],
)
def test_speed_counts_on_timed_tests_alone(used, brute, timed, expected):
    assert score(Status.PASSED, used, brute, timed, full_speedup=4.0) == pytest.approx(
        expected
    )


@pytest.mark.parametrize(
    ("used", "timed", "expected"),
    [
        (79, False, 0.5),  # under 0.8 of the brute force's 100: suspicious
        (80, False, 1.0),
        (100, False, 1.0),
        (10, True, 1.0),  # hidden-like tests do not suspect
    ],
)
def test_the_deceptive_judge_halves_what_came_too_quickly(used, timed, expected):
    assert score(Status.PASSED, used, 100, timed, deceptive=True) == expected


def test_a_wrong_answer_is_worth_nothing_however_slow():
    """The likely bug: the suspicion's 0.5 given to every untimed test."""
    assert score(Status.WRONG, 10, 100, False, deceptive=True) == 0.0


def test_all_or_nothing_needs_every_test_and_graded_does_not():
    passed, slow = int(Status.PASSED), int(Status.OUT_OF_FUEL)
    status = jnp.array([[passed, passed], [passed, slow]])
    scores = jnp.array([[1.0, 0.5], [1.0, 0.1]])
    verdict, solved = judging.verdict_of_suite(status, scores, graded=False)
    np.testing.assert_allclose(verdict, [0.75, 0.0])
    np.testing.assert_array_equal(solved, [True, False])
    graded, solved = judging.verdict_of_suite(status, scores, graded=True)
    np.testing.assert_allclose(graded, [0.75, 0.55])
    np.testing.assert_array_equal(solved, [True, False])


def test_costs_fall_with_the_level_and_never_below_nothing():
    charged = judging.charge(
        jnp.array([0.9, 0.9, 0.9, 0.1]),
        jnp.array([2, 2, 2, 3]),
        jnp.array([0.5, 0.5, 0.5, 1.0]),
        jnp.array([0, 2, 4, 0]),
        stage_cost=0.1,
        length_penalty=0.4,
        num_levels=5,
    )
    # 0.9 - 0.2 - 0.4 w 0.5 with w = 1, 0.5, 0; and 0.1 - 0.3 - 0.4, which is nothing
    np.testing.assert_allclose(charged, [0.5, 0.6, 0.7, 0.0], rtol=1e-6)


def test_verdict_vectors_are_numbered_without_collisions():
    every = np.stack(np.meshgrid(*[np.arange(5)] * 4), axis=-1).reshape(1, -1, 4)
    numbers = np.asarray(judging.state_id(jnp.asarray(every)))
    assert len(np.unique(numbers)) == 5**4
    assert judging.state_id(jnp.zeros((1, 1, 8), jnp.int32)) == 0
