"""The scripted field: its documented distribution, and what follows from it."""

import dataclasses

import numpy as np
import pytest

from agentic_grpo.records import NEVER
from experiments.contests import contestants

LEVELS = np.arange(5)


def test_the_field_is_drawn_as_documented():
    field = contestants.draw(20_000, 0)
    assert abs(field.skill.mean()) < 0.03 and abs(field.skill.std() - 1) < 0.02
    assert abs(np.log(field.pace).std() - 0.35) < 0.01
    assert abs(field.slips.mean() - 0.25) < 0.01  # 2 / (2 + 6)


def test_equal_seeds_are_equal_fields_in_every_contest():
    one, other, third = (contestants.draw(8, seed) for seed in (3, 3, 4))
    for contest in (0, 7):
        ours, theirs = (
            contestants.play(field, LEVELS, 60, contest) for field in (one, other)
        )
        np.testing.assert_array_equal(ours, theirs)
    assert not np.array_equal(one.skill, third.skill)
    first, second = (contestants.play(one, LEVELS, 60, c)[0] for c in (0, 1))
    assert not np.array_equal(first, second)


def test_who_stands_at_a_level_solves_half_of_its_problems():
    field = dataclasses.replace(
        contestants.draw(20_000, 0), skill=np.zeros(20_000), slips=np.full(20_000, 0.25)
    )
    solved_at, wrong = contestants.play(field, np.array([2]), 60, 0)
    solved = solved_at[:, 0] != NEVER
    assert abs(solved.mean() - 0.5) < 0.01
    # geometric with e = 1/4: e / (1 - e) wrong ones before the right one
    assert abs(wrong[solved, 0].mean() - 1 / 3) < 0.02
    assert not wrong[~solved].any()


def test_skill_and_pace_make_a_contestant_better():
    field = contestants.draw(3000, 1)
    weak, strong = (
        contestants.play(
            dataclasses.replace(field, skill=np.full(3000, skill)), LEVELS, 60, 0
        )[0]
        for skill in (-1.0, 1.0)
    )
    assert (strong != NEVER).mean() > (weak != NEVER).mean() + 0.2
    slow = dataclasses.replace(field, pace=10 * field.pace)
    ticks, slow_ticks = (contestants.play(f, LEVELS, 60, 0)[0] for f in (field, slow))
    assert (slow_ticks != NEVER).sum() < (ticks != NEVER).sum()
    assert ticks.min() >= 0 and ticks[ticks != NEVER].max() < 60


def test_a_field_may_be_empty_but_not_less():
    solved_at, wrong = contestants.play(contestants.draw(0, 0), LEVELS, 60, 0)
    assert solved_at.shape == wrong.shape == (0, 5)
    with pytest.raises(ValueError, match=r"scripted=-1 must be at least 0"):
        contestants.draw(-1, 0)
