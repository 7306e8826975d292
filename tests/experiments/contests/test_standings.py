"""Standings: what was handed in, the table, ranks over contests, JSON and back."""

import types

import numpy as np

from agentic_grpo.records import NEVER
from experiments.contests import standings
from experiments.contests.standings import Contest


def contest(solved_at, wrong=None, **changes):
    solved_at = np.array(solved_at)
    fields = {
        "names": [f"c{number}" for number in range(len(solved_at))],
        "levels": np.arange(solved_at.shape[1]),
        "num_ticks": 100,
        "solved_at": solved_at,
        "wrong": np.zeros_like(solved_at) if wrong is None else np.array(wrong),
    }
    return Contest(**fields | changes)


def test_submissions_count_until_the_first_that_is_accepted():
    desk = types.SimpleNamespace(
        tick=np.array([[3, 5, 5], [2, 9, NEVER], [NEVER] * 3]),
        accepted=np.array([[False, True, False], [False, False, True], [True] * 3]),
    )
    solved_at, wrong = standings.of_desk(desk)
    # wrong at 3, right at 5, and what came after it; two wrong; an empty desk
    assert solved_at.tolist() == [5, NEVER, NEVER]
    assert wrong.tolist() == [1, 2, 0]


def test_the_table_reads_as_people_know_it():
    text = standings.table(contest([[50, NEVER], [0, 10]], [[2, 3], [0, 1]]))
    header, first, second = text.splitlines()
    assert header.split() == [
        "rank",
        "contestant",
        "points",
        "A",
        "(500)",
        "B",
        "(1000)",
    ]
    assert first.split() == ["1", "c1", "1402", "+", "@0", "+1", "@10"]  # 500 + 902
    assert second.split() == ["2", "c0", "280", "+2", "@50", "-3"]  # 380 - 100


def test_the_table_shows_the_top_and_whom_it_must():
    many = contest([[tick] for tick in range(30)])
    shown = standings.table(many, most=2, always=(20,)).splitlines()[1:]
    assert [line.split()[:2] for line in shown] == [
        ["1", "c0"],
        ["2", "c1"],
        ["21", "c20"],
    ]


def test_a_record_counts_ranks_over_contests():
    ahead, behind = contest([[1, 1], [2, NEVER]]), contest([[9, NEVER], [2, NEVER]])
    record = standings.record([ahead, behind, behind], 0)
    assert record.ranks.tolist() == [1, 2, 2]
    assert record.median == 2 and record.firsts == 1 / 3
    assert 1 <= record.low <= 2 <= record.high
    assert record.solved.tolist() == [2, 1, 1]
    alone = standings.record([ahead], 0)
    assert alone.low == alone.median == alone.high == 1


def test_ranks_over_the_clock_end_with_the_standings():
    one = contest([[50, NEVER], [60, 10], [NEVER, NEVER]])
    ranks = one.ranks_over_the_clock()
    assert ranks.shape == (100, 3)
    assert ranks[0].tolist() == [1, 1, 1]
    assert ranks[10].tolist() == [2, 1, 2]
    assert ranks[-1].tolist() == one.ranking().rank.tolist() == [2, 1, 3]
    for tick in (0, 30, 99):
        assert one.until(tick).ranking().rank.tolist() == ranks[tick].tolist()


def test_wrong_submissions_show_with_what_they_cost_or_at_the_end():
    one = contest([[50, NEVER]], [[2, 3]])
    assert one.until(49).wrong.tolist() == [[0, 0]]
    assert one.until(50).wrong.tolist() == [[2, 0]]
    assert one.until(99).wrong.tolist() == [[2, 3]]


def test_json_and_back_is_the_same_contest():
    one = contest([[50, NEVER], [0, 10]], [[2, 3], [0, 1]])
    back = standings.from_json(standings.as_json(one))
    for name in ("solved_at", "wrong", "levels"):
        np.testing.assert_array_equal(getattr(back, name), getattr(one, name))
    assert back.names == one.names and back.num_ticks == 100
