"""How a contest is scored: one rule, that of the common rated rounds online.

A problem of level l = 1 .. 5 is worth x = 500 l points. Who solves it by a submission
at tick t of a contest of T ticks, after w wrong ones to it, gets

    max(0.3 x, x (1 - 0.48 t / T) - 50 w)

so that half of the worth is left at the end, every wrong submission costs 50, and a
solved problem is never worth less than 0.3 x. An unsolved problem gives nothing and
costs nothing. This is the rule of Codeforces' rounds, x - x t / 250 - 50 w with t in
minutes, for a contest of 120 of them. Equal points: who reached them earlier, by the
tick of the last solving submission, stands before; equal in that too: a shared rank.

Letters: M contestants, Q problems. Pure, in NumPy.
"""

from typing import NamedTuple

import numpy as np

from agentic_grpo.records import NEVER

POINTS_PER_LEVEL = 500
LOST_OVER_THE_CLOCK = 0.48
WRONG_PENALTY = 50
LEAST_SHARE = 0.3


class Ranking(NamedTuple):
    """The standings at one tick.

    Attributes:
      points: float [M].
      last: int [M]; tick of the last solving submission, 0 without any.
      rank: int [M]; from 1; equals share one, and the next ones count them all.
    """

    points: np.ndarray
    last: np.ndarray
    rank: np.ndarray


def worth(levels: np.ndarray) -> np.ndarray:
    """Points of problems at once; levels from 0."""
    return POINTS_PER_LEVEL * (1 + np.asarray(levels))


def points(
    solved_at: np.ndarray, wrong: np.ndarray, levels: np.ndarray, num_ticks: int
) -> np.ndarray:
    """Points of every problem, float [..., Q].

    Args:
      solved_at: int [..., Q]; tick of the first accepted submission, ``NEVER`` without.
      wrong: int [..., Q]; wrong submissions before it.
      levels: int [Q], from 0.
      num_ticks: T.
    """
    solved_at, whole = np.asarray(solved_at), worth(levels)
    elapsed = np.where(solved_at == NEVER, 0, solved_at) / num_ticks
    left = whole * (1 - LOST_OVER_THE_CLOCK * elapsed) - WRONG_PENALTY * wrong
    return np.where(
        solved_at == NEVER, 0.0, np.maximum(LEAST_SHARE * whole, left)
    ).astype(float)


def rank(
    solved_at: np.ndarray,
    wrong: np.ndarray,
    levels: np.ndarray,
    num_ticks: int,
    *,
    tick: int | None = None,
) -> Ranking:
    """The standings of M contestants.

    Args:
      solved_at, wrong: int [M, Q]; as in ``points``.
      levels: int [Q], from 0.
      num_ticks: T.
      tick: of the clock; what is submitted later does not count yet. None: the end.
    """
    solved_at = np.asarray(solved_at)
    if tick is not None:
        solved_at = np.where(solved_at > tick, NEVER, solved_at)
    total = points(solved_at, wrong, levels, num_ticks).sum(axis=1)
    last = np.where(solved_at == NEVER, 0, solved_at).max(axis=1, initial=0)
    # to the thousandth: sums of equal points in another order are equal points
    thousandths = np.rint(1000 * total).astype(np.int64)
    ahead = (thousandths[:, None] < thousandths[None, :]) | (
        (thousandths[:, None] == thousandths[None, :]) & (last[:, None] > last[None, :])
    )
    return Ranking(points=total, last=last, rank=1 + ahead.sum(axis=1))
