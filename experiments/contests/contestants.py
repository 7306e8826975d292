"""The scripted field: a stand-in for people, drawn from one documented distribution.

It is made so that a rank means the same wherever it is measured, and is nothing more:
no person behaved like this, and no claim about people follows from it. A contestant has

    skill     s ~ Normal(0, 1), in levels: the middle contestant (s = 0) solves a
              problem of level 3 with probability 1/2
    pace      v ~ LogNormal(0, 0.35); the time for a problem at one's own level is
              0.14 v of the contest
    slips     e ~ Beta(2, 6); the chance that a submission is wrong, 1/4 on average

and, in each contest, problem after problem in their order until the time is up:

    solves    with probability 1 / (1 + exp(-2 (s - d))), d = level - 3, level 1 .. 5
    time      0.14 v 2^((d - s) / 2) exp(0.3 z) of the contest, z ~ Normal(0, 1), at
              least 0.01 and at most 0.5; who will not solve it leaves it after that
    wrong     w ~ Geometric: P(w = k) = e^k (1 - e) before the right one, at most 9;
              each costs a fifth of the problem's time more

Everything is drawn from ``numpy.random.Generator`` (PCG64) of the field's seed: first
the contestants, which are the same in all contests, then each contest from a stream of
its own. Letters: M contestants, Q problems.
"""

import dataclasses

import numpy as np

from agentic_grpo.errors import require
from agentic_grpo.records import NEVER

SKILL_SPREAD = 1.0
PACE_SPREAD = 0.35
SLIPS = (2.0, 6.0)  # of the Beta distribution
STEEPNESS = 2.0
MIDDLE_LEVEL = 3
TIME_AT_LEVEL = 0.14
TIME_SPREAD = 0.3
SHORTEST, LONGEST = 0.01, 0.5
MOST_WRONG = 9
COST_OF_WRONG = 0.2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Field:
    """M scripted contestants.

    Attributes:
      skill: float [M]; in levels from the middle one.
      pace: float [M]; above 0, larger is slower.
      slips: float [M]; chance that a submission is wrong.
      seed: of what they do in each contest.
    """

    skill: np.ndarray
    pace: np.ndarray
    slips: np.ndarray
    seed: int

    @property
    def names(self) -> list[str]:
        return [f"scripted {number + 1}" for number in range(len(self.skill))]


def draw(size: int, seed: int) -> Field:
    """The contestants of a seed.

    Raises:
      ValueError: the size is negative.
    """
    require(size >= 0, "scripted", size, "at least 0: a number of contestants")
    random = np.random.default_rng([seed, 0])
    return Field(
        skill=random.normal(0.0, SKILL_SPREAD, size),
        pace=np.exp(random.normal(0.0, PACE_SPREAD, size)),
        slips=random.beta(*SLIPS, size),
        seed=seed,
    )


def play(
    field: Field, levels: np.ndarray, num_ticks: int, contest: int
) -> tuple[np.ndarray, np.ndarray]:
    """What the field does in one contest.

    Args:
      field: the contestants.
      levels: int [Q], from 0; problems are worked on in this order.
      num_ticks: T of the clock.
      contest: its number; equal numbers are equal contests.

    Returns:
      (solved_at int [M, Q], wrong int [M, Q]), as in ``scoring.points``; ticks are 0 ..
      T - 1, wrong ones before a solution that came too late count as none.
    """
    random = np.random.default_rng([field.seed, 1, contest])
    shape = (len(field.skill), len(levels))
    level, skill = np.asarray(levels)[None, :] + 1, field.skill[:, None]
    distance = level - MIDDLE_LEVEL - skill
    able = random.uniform(size=shape) < 1 / (1 + np.exp(STEEPNESS * distance))
    noise = np.exp(TIME_SPREAD * random.normal(size=shape))
    time = TIME_AT_LEVEL * field.pace[:, None] * 2 ** (distance / 2) * noise
    time = np.clip(time, SHORTEST, LONGEST)
    right = np.broadcast_to(1 - field.slips[:, None], shape)
    wrong = np.minimum(random.geometric(right) - 1, MOST_WRONG) * able
    finished = np.cumsum(time * (1 + COST_OF_WRONG * wrong), axis=1)
    solved = able & (finished < 1)
    tick = np.minimum(np.floor(finished * num_ticks), num_ticks - 1).astype(np.int64)
    return np.where(solved, tick, NEVER), np.where(solved, wrong, 0)
