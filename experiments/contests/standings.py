"""Standings of contests: the table as people know it, ranks over many, ranks over time.

Letters: M contestants, Q problems, C contests.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from agentic_grpo.records import NEVER
from experiments.contests import scoring
from experiments.contests.desk import Desk

CONFIDENCE = 0.95
RESAMPLES = 4000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contest:
    """One contest of M contestants on Q problems, when it is over.

    Attributes:
      names: of the contestants.
      levels: int [Q], from 0.
      num_ticks: T.
      solved_at: int [M, Q]; ``NEVER`` where it was not solved.
      wrong: int [M, Q]; wrong submissions before that, or at all.
    """

    names: Sequence[str]
    levels: np.ndarray
    num_ticks: int
    solved_at: np.ndarray
    wrong: np.ndarray

    def ranking(self, tick: int | None = None) -> scoring.Ranking:
        return scoring.rank(
            self.solved_at, self.wrong, self.levels, self.num_ticks, tick=tick
        )

    def until(self, tick: int) -> "Contest":
        """The contest as it stood after a tick.

        Wrong submissions show with the solution that they cost, or at the end.
        """
        solved_at = np.where(self.solved_at > tick, NEVER, self.solved_at)
        shown = (solved_at != NEVER) | (tick >= self.num_ticks - 1)
        wrong = np.where(shown, self.wrong, 0)
        return dataclasses.replace(self, solved_at=solved_at, wrong=wrong)

    def ranks_over_the_clock(self) -> np.ndarray:
        """int [T, M]; after each tick."""
        return np.stack([self.ranking(tick).rank for tick in range(self.num_ticks)])


def of_desk(desk: Desk) -> tuple[np.ndarray, np.ndarray]:
    """(solved_at int [..., Q], wrong int [..., Q]) of what was handed in.

    Submissions count from the tick at which they were handed in, however late their
    verdict is; those after the first accepted one count as nothing.

    Args:
      desk: [..., Q, M] of M submissions.
    """
    there = np.asarray(desk.tick) != NEVER
    accepted = there & np.asarray(desk.accepted)
    before = np.cumsum(accepted, axis=-1) == 0
    ticks = np.where(accepted, desk.tick, NEVER)
    return ticks.min(axis=-1), (there & before).sum(axis=-1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """What one contestant reached over C contests.

    Attributes:
      name: of the contestant.
      ranks: int [C].
      points: float [C].
      solved: int [C]; problems.
      median: of the ranks.
      low, high: 95% bootstrap interval of the median; equal to it with one contest.
      firsts: share of first places, shared ones included.
    """

    name: str
    ranks: np.ndarray
    points: np.ndarray
    solved: np.ndarray
    median: float
    low: float
    high: float
    firsts: float


def record(contests: Sequence[Contest], contestant: int) -> Record:
    """The record of a contestant, by its number."""
    rankings = [contest.ranking() for contest in contests]
    ranks = np.array([ranking.rank[contestant] for ranking in rankings])
    low, high = median_interval(ranks)
    return Record(
        name=contests[0].names[contestant],
        ranks=ranks,
        points=np.array([ranking.points[contestant] for ranking in rankings]),
        solved=np.array(
            [int((c.solved_at[contestant] != NEVER).sum()) for c in contests]
        ),
        median=float(np.median(ranks)),
        low=low,
        high=high,
        firsts=float(np.mean(ranks == 1)),
    )


def median_interval(values: np.ndarray) -> tuple[float, float]:
    """The 95% percentile bootstrap interval of a median; contests are resampled."""
    values = np.asarray(values, float)
    draws = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    medians = np.median(values[draws], axis=1)
    tail = (1 - CONFIDENCE) / 2
    return tuple(float(x) for x in np.quantile(medians, [tail, 1 - tail]))


def table(contest: Contest, *, most: int = 12, always: Sequence[int] = ()) -> str:
    """The final standings of one contest, as text.

    A problem's cell reads ``+2 @17``: solved at tick 17 after two wrong submissions;
    ``-3``: not solved, three wrong; empty: nothing handed in.

    Args:
      contest: which.
      most: places that are shown from the top.
      always: contestants that are shown wherever they stand.
    """
    ranking = contest.ranking()
    order = np.lexsort((np.arange(len(ranking.rank)), ranking.rank))
    shown = [m for place, m in enumerate(order) if place < most or m in always]
    header = ["rank", "contestant", "points"]
    header += [
        f"{chr(ord('A') + number)} ({worth})"
        for number, worth in enumerate(scoring.worth(contest.levels))
    ]
    rows = [
        [
            str(ranking.rank[m]),
            contest.names[m],
            f"{ranking.points[m]:.0f}",
            *(
                _cell(solved, wrong)
                for solved, wrong in zip(
                    contest.solved_at[m], contest.wrong[m], strict=True
                )
            ),
        ]
        for m in shown
    ]
    return columns([header, *rows])


def _cell(solved_at, wrong) -> str:
    if solved_at == NEVER:
        return f"-{wrong}" if wrong else ""
    return f"+{wrong or ''} @{solved_at}"


def overview(records: Sequence[Record]) -> str:
    """Records side by side, as text."""
    header = ["contestant", "median rank", "95%", "first", "points", "solved"]
    rows = [
        [
            one.name,
            f"{one.median:g}",
            f"{one.low:g} to {one.high:g}",
            f"{one.firsts:.0%}",
            f"{one.points.mean():.0f}",
            f"{one.solved.mean():.2f}",
        ]
        for one in records
    ]
    return columns([header, *rows])


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells, aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    )


def as_json(contest: Contest) -> dict[str, Any]:
    """A contest as JSON values; null for what was not solved."""
    ranking = contest.ranking()
    return {
        "levels": (1 + contest.levels).tolist(),
        "ticks": contest.num_ticks,
        "names": list(contest.names),
        "rank": ranking.rank.tolist(),
        "points": ranking.points.round(3).tolist(),
        "solved_at": [
            [None if tick == NEVER else int(tick) for tick in row]
            for row in contest.solved_at
        ],
        "wrong": contest.wrong.tolist(),
    }


def from_json(tree: dict[str, Any]) -> Contest:
    """The contest that ``as_json`` wrote."""
    ticks = [
        [NEVER if tick is None else tick for tick in row] for row in tree["solved_at"]
    ]
    shape = (len(tree["names"]), len(tree["levels"]))
    return Contest(
        names=tree["names"],
        levels=np.array(tree["levels"]) - 1,
        num_ticks=tree["ticks"],
        solved_at=np.array(ticks, np.int64).reshape(shape),
        wrong=np.array(tree["wrong"], np.int64).reshape(shape),
    )
