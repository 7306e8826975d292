"""The same search for every arm: a grid on the validation split, widened at ends."""

import dataclasses
import itertools
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from agentic_grpo.training import metrics
from experiments.config.checks import require
from experiments.studies import suites
from experiments.studies.suites import Suite
from experiments.sweeps.planning import Point

LEARNING_RATE = "learner.learning_rate"

#: Tuning looks at the validation split alone; its test at the end is a formality.
VALIDATION = {"evaluation.split": "validation", "evaluation.test_problems": 256}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """One setting of one arm.

    Attributes:
      arm: which.
      learning_rate, clip: the setting.
      score: mean solve rate over learning curves, seeds and cells; -inf if a run
        failed.
    """

    arm: str
    learning_rate: float
    clip: float
    score: float = math.nan


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
            "inside": is_inside(trials, trial),
            "settings_tried": sum(other.arm == arm for other in trials),
        }
    return chosen


def best(trials: Sequence[Trial], arm: str) -> Trial:
    """The setting of an arm with the highest score.

    Raises:
      ValueError: every setting of the arm has a run that failed.
    """
    own = [trial for trial in trials if trial.arm == arm]
    chosen = max(own, key=lambda trial: trial.score)
    require(chosen.score > -math.inf, "arm", arm, "one that some setting works for")
    return chosen


def is_inside(trials: Sequence[Trial], chosen: Trial) -> bool:
    """Whether smaller and larger values were tried on both axes."""
    return not widened(trials, chosen)


def widened(trials: Sequence[Trial], chosen: Trial) -> list[tuple[float, float]]:
    """Settings that continue an axis from a best trial that lies at its end.

    Returns:
      (learning rate, clip) pairs, none where the trial lies inside.
    """
    own = [trial for trial in trials if trial.arm == chosen.arm]
    rate = _beyond({trial.learning_rate for trial in own}, chosen.learning_rate)
    clip = _beyond({trial.clip for trial in own}, chosen.clip)
    further = [(rate, chosen.clip), (chosen.learning_rate, clip)]
    return [setting for setting in further if None not in setting]


def _beyond(values, chosen):
    """The next value in their ratio beyond the end that was chosen, or None."""
    first, second, *_ = ascending = sorted(values)
    ratio = second / first
    if first < chosen < ascending[-1]:
        return None
    return float(f"{chosen / ratio if chosen == first else chosen * ratio:.3g}")


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
    scores = []
    for cell, seed in itertools.product(suite.search.cells, suite.search.seeds):
        name = f"{_name(cell, trial)}/seed={seed}"
        if name not in failed:
            raise UnfinishedError(f"{folder / name} has not ended")
        scores.append(-math.inf if failed[name] else mean_solve_rate(folder / name))
    return dataclasses.replace(trial, score=float(np.mean(scores)))


def mean_solve_rate(folder: pathlib.Path) -> float:
    """Over all evaluations of a run: the area under its learning curve."""
    lines = metrics.read(folder)
    rates = [line["eval/solve_rate"] for line in lines if "eval/solve_rate" in line]
    return float(np.mean(rates))
