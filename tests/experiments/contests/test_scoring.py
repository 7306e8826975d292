"""Points, penalties and ties, by hand."""

import numpy as np
import pytest

from agentic_grpo.records import NEVER
from experiments.contests import scoring

LEVELS = np.array([0, 2])  # worth 500 and 1500


def test_points_fall_with_time_and_with_wrong_submissions():
    solved_at = np.array([[0, 50], [25, NEVER], [100, 100]])
    wrong = np.array([[0, 2], [1, 7], [0, 20]])
    got = scoring.points(solved_at, wrong, LEVELS, 100)
    expected = [
        [500.0, 1500 * 0.76 - 100],  # 0.48 * 50 / 100 = 0.24 is gone, two wrong
        [500 * 0.88 - 50, 0.0],  # what is not solved costs nothing
        [500 * 0.52, 0.3 * 1500],  # 1500 * 0.52 - 1000 would be negative: 0.3 is left
    ]
    np.testing.assert_allclose(got, expected)


def test_ranks_share_a_tie_and_count_on_behind_it():
    solved_at = np.array([[10, NEVER], [0, NEVER], [10, NEVER], [NEVER, NEVER]])
    wrong = np.zeros((4, 2), int)
    ranking = scoring.rank(solved_at, wrong, LEVELS, 100)
    assert ranking.rank.tolist() == [2, 1, 2, 4]
    assert ranking.last.tolist() == [10, 0, 10, 0]


def test_equal_points_are_ranked_by_the_time_of_the_last_solution():
    # both floors: 150 + 450, reached at tick 90 and at tick 80
    solved_at, wrong = np.array([[90, 20], [80, 70]]), np.full((2, 2), 40)
    ranking = scoring.rank(solved_at, wrong, LEVELS, 100)
    assert ranking.points.tolist() == [600.0, 600.0]
    assert ranking.rank.tolist() == [2, 1]


def test_what_comes_after_a_tick_does_not_count_yet():
    solved_at, wrong = np.array([[10, 60], [20, NEVER]]), np.zeros((2, 2), int)
    at = [
        scoring.rank(solved_at, wrong, LEVELS, 100, tick=tick).rank.tolist()
        for tick in (0, 10, 20, 60)
    ]
    assert at == [[1, 1], [1, 2], [1, 2], [1, 2]]
    early = scoring.rank(solved_at, wrong, LEVELS, 100, tick=20)
    np.testing.assert_allclose(early.points, [500 * 0.952, 500 * 0.904])


@pytest.mark.parametrize("tick", [0, NEVER], ids=["everybody at once", "nobody"])
def test_nobody_and_everybody_share_the_first_place(tick):
    solved_at = np.full((5, 2), tick)
    ranking = scoring.rank(solved_at, np.zeros((5, 2), int), LEVELS, 30)
    assert ranking.rank.tolist() == [1] * 5
    assert ranking.points.tolist() == [2000.0 if tick == 0 else 0.0] * 5


def test_one_contestant_is_the_first():
    ranking = scoring.rank(np.array([[NEVER, 3]]), np.zeros((1, 2), int), LEVELS, 30)
    assert ranking.rank.tolist() == [1]
