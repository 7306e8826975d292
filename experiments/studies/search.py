"""The same search for every arm: a grid on the validation split, and around its best.

A best setting is believed once its eight neighbours have been tried: rate and clip act
together (a smaller step stands a wider clip), so neither is widened alone.
"""

import dataclasses
import itertools
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from experiments.config.checks import require
from experiments.studies import results, suites
from experiments.studies.suites import Suite
from experiments.sweeps.planning import Point

LEARNING_RATE = "learner.learning_rate"

#: Tuning looks at the validation split alone; its test at the end is a formality.
VALIDATION = {"evaluation.split": "validation", "evaluation.test_problems": 256}


#: A curve that falls by more than this from its best so far is not steady.
LARGEST_FALL = 0.15

#: What a steady setting may score less than one that falls, and still be taken.
FALL_COSTS = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """One setting of one arm.

    Attributes:
      arm: which.
      learning_rate, clip: the setting.
      score: mean solve rate over learning curves, seeds and cells; -inf if a run
        failed.
      fall: the largest fall of any of these curves from its best so far.
    """

    arm: str
    learning_rate: float
    clip: float
    score: float = math.nan
    fall: float = math.nan


class UnfinishedError(RuntimeError):
    """Runs of the search are missing: interrupted, or another share of the work."""


def tune(
    suite: Suite,
    folder: pathlib.Path,
    run: Callable[[Sequence[Point]], Mapping[str, bool]],
) -> tuple[dict[str, suites.Overrides], list[Trial]]:
    """Searches the best setting of every arm.

    Args:
      suite: with a search.
      folder: of the runs.
      run: runs points; returns {folder of a run, within ``folder``: has it failed},
        for every run that has ended.

    Returns:
      ({arm: overrides}, every trial). The best of an arm may still lie at an end after
      all widenings; ``is_inside`` tells.

    Raises:
      UnfinishedError: not all runs have ended.
      ValueError: no setting of an arm works.
    """
    search = suite.search
    grid = list(itertools.product(search.learning_rates, search.clips))
    tried = {arm: list(grid) for arm in suite.tuned_arms()}
    for widening in range(search.widenings + 1):
        trials = [
            Trial(arm=arm, learning_rate=rate, clip=clip)
            for arm, settings in tried.items()
            for rate, clip in settings
        ]
        points = [point for trial in trials for point in _points(suite, trial)]
        failed = run(points)
        trials = [_scored(suite, folder, failed, trial) for trial in trials]
        chosen = {arm: best(trials, arm) for arm in tried}
        further = {arm: widened(trials, chosen[arm]) for arm in tried}
        if not any(further.values()) or widening == search.widenings:
            break
        for arm, settings in further.items():
            tried[arm] += settings
    settings = {
        arm: {LEARNING_RATE: trial.learning_rate, **search.clip(trial.clip)}
        for arm, trial in chosen.items()
    }
    return settings, trials


def first_points(suite: Suite) -> list[Point]:
    """What the search begins with, before any widening."""
    search = suite.search
    settings = itertools.product(
        suite.tuned_arms(), search.learning_rates, search.clips
    )
    return [
        point
        for arm, rate, clip in settings
        for point in _points(suite, Trial(arm=arm, learning_rate=rate, clip=clip))
    ]


def describe(trials: Sequence[Trial]) -> dict[str, dict]:
    """What was chosen for each arm, as JSON values."""
    chosen = {}
    for arm in dict.fromkeys(trial.arm for trial in trials):
        trial = best(trials, arm)
        chosen[arm] = {
            "learning_rate": trial.learning_rate,
            "clip": trial.clip,
            "score": trial.score,
            "largest_fall": trial.fall,
            "inside": is_inside(trials, trial),
            "settings_tried": sum(other.arm == arm for other in trials),
        }
    return chosen


def best(trials: Sequence[Trial], arm: str) -> Trial:
    """The setting of an arm with the highest score that is steady.

    One whose curves fall by more than ``LARGEST_FALL`` is not taken while a steady one
    scores within ``FALL_COSTS`` of it: a fall in three seeds is a collapse in thirty.

    Raises:
      ValueError: every setting of the arm has a run that failed.
    """
    own = [trial for trial in trials if trial.arm == arm]
    highest = max(own, key=lambda trial: trial.score)
    require(highest.score > -math.inf, "arm", arm, "one that some setting works for")
    steady = [
        trial
        for trial in own
        if trial.score >= highest.score - FALL_COSTS and trial.fall <= LARGEST_FALL
    ]
    return max(steady, key=lambda trial: trial.score, default=highest)


def is_inside(trials: Sequence[Trial], chosen: Trial) -> bool:
    """Whether all eight neighbours of a setting were tried."""
    return not widened(trials, chosen)


def widened(trials: Sequence[Trial], chosen: Trial) -> list[tuple[float, float]]:
    """The neighbours of a best trial that have not been tried: (rate, clip) pairs."""
    tried = [(t.learning_rate, t.clip) for t in trials if t.arm == chosen.arm]
    rates, clips = (set(axis) for axis in zip(*tried, strict=True))
    around = itertools.product(
        _around(rates, chosen.learning_rate), _around(clips, chosen.clip)
    )
    return [setting for setting in around if setting not in tried]


def _around(values, chosen):
    """The value below, itself and the one above; past an end in the ratio found there.

    >>> _around({1.0, 2.0, 4.0}, 4.0)
    (2.0, 4.0, 8.0)
    """
    ascending = sorted(values)
    place = ascending.index(chosen)
    first, second, *_ = ascending
    *_, before, last = ascending
    below = ascending[place - 1] if place else _rounded(first * first / second)
    above = (*ascending, _rounded(last * last / before))[place + 1]
    return below, chosen, above


def _rounded(value):
    """To three digits, so that a value reached in two ways is one."""
    return float(f"{value:.3g}")


def _points(suite, trial):
    search = suite.search
    setting = {LEARNING_RATE: trial.learning_rate, **search.clip(trial.clip)}
    return [
        Point(
            name=_name(cell, trial),
            overrides={
                **suites.overrides_of(suite, cell, trial.arm, {trial.arm: setting}),
                **VALIDATION,
            },
            seeds=search.seeds,
        )
        for cell in search.cells
    ]


def _name(cell, trial):
    setting = f"learning_rate={trial.learning_rate:g}__clip={trial.clip:g}"
    return f"{suites.slug(cell)}/{suites.slug(trial.arm)}/{setting}"


def _scored(suite, folder, failed, trial):
    curves = []
    for cell, seed in itertools.product(suite.search.cells, suite.search.seeds):
        name = f"{_name(cell, trial)}/seed={seed}"
        if name not in failed:
            raise UnfinishedError(f"{folder / name} has not ended")
        if failed[name]:
            return dataclasses.replace(trial, score=-math.inf, fall=math.inf)
        curves.append(results.read_curve(folder / name).solve_rate)
    return dataclasses.replace(
        trial,
        score=float(np.mean([np.mean(curve) for curve in curves])),
        fall=max(largest_fall(curve) for curve in curves),
    )


def largest_fall(curve: Sequence[float]) -> float:
    """How far a curve ever lies below its best so far.

    >>> largest_fall([0.25, 0.75, 0.5, 1.0])
    0.25
    """
    return float(np.max(np.maximum.accumulate(curve) - curve))
