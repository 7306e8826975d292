"""What the runs of a suite left: one ``Result`` per run, read from its files.

Reads the ``suite.json`` that ``experiments.ablate`` writes and the folders it names.
"""

import csv
import dataclasses
import io
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from absl import logging

from agentic_grpo.training import metrics
from agentic_grpo.training.json_files import read_json
from experiments.config import fields
from experiments.studies import statistics

MANIFEST = "suite.json"
MANIFEST_FIELDS = (
    "name",
    "docstring",
    "cells",
    "arms",
    "reference",
    "rows",
    "columns",
    "claims",
    "identical",
    "search",
    "runs",
    "provenance",
)
SUMMARY_FIELDS = ("solve_rate_before", "solve_rate_after", "wall_seconds")
GROUP_SIZE = "rollout.group_size"
LEVEL = 0.8
SOLVE_RATE, AREA = "solve_rate", "mean_solve_rate"
TICKS, EPISODES, TOKENS = "ticks", "episodes", "gradient_tokens"
AFTER_PILOT = "ticks_after_pilot"
SPENT = (TICKS, AFTER_PILOT, EPISODES, TOKENS)
LEVELS = (SOLVE_RATE, AREA)
#: What arms are compared in: the level at the end and on the way (the area under the
#: curve), and how soon they reach 80%.
METRICS = (*LEVELS, *(f"{spent}_to_80" for spent in SPENT))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curve:
    """The evaluations of one run, and what it had spent by each; arrays [E].

    Attributes:
      ticks, episodes, gradient_tokens: spent, since the warm start.
      ticks_after_pilot: ticks less those of the pilot, in which nothing is trained.
      solve_rate: on held-out problems.
    """

    ticks: np.ndarray
    ticks_after_pilot: np.ndarray
    episodes: np.ndarray
    gradient_tokens: np.ndarray
    solve_rate: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """One finished run.

    Attributes:
      cell, arm, seed: which.
      curve: its evaluations.
      before, solve_rate: on the test problems, at the two ends.
      to_80: {"ticks_to_80": ...}; infinite where 80% was not reached and held.
      seconds: of wall time.
    """

    cell: str
    arm: str
    seed: int
    curve: Curve
    before: float
    solve_rate: float
    to_80: Mapping[str, float]
    seconds: float

    @property
    def mean_solve_rate(self) -> float:
        """The area under the curve over ticks, by trapezoids, per tick."""
        ticks, rates = self.curve.ticks, self.curve.solve_rate
        if len(ticks) == 1:
            return float(rates[0])
        return float(np.trapezoid(rates, ticks) / (ticks[-1] - ticks[0]))

    def value(self, metric: str) -> float:
        """A level, or what it took to 80%; infinite where it never got there."""
        return getattr(self, metric) if metric in LEVELS else self.to_80[metric]

    def horizon(self, metric: str) -> float:
        """The most it has spent, of what ``metric`` counts."""
        return float(getattr(self.curve, metric.removesuffix("_to_80"))[-1])


@dataclasses.dataclass(frozen=True)
class SuiteResults:
    """A suite with the runs that have finished.

    Attributes:
      manifest: as in ``suite.json``.
      results: in the order of the manifest.
    """

    manifest: Mapping[str, Any]
    results: tuple[Result, ...]

    def of(self, cell: str, arm: str) -> dict[int, Result]:
        """{seed: result} of an arm in a cell."""
        return {r.seed: r for r in self.results if (r.cell, r.arm) == (cell, arm)}


def read(folder: pathlib.Path) -> SuiteResults:
    """The suite in a folder; runs that are not finished, or damaged, are left out.

    Raises:
      ValueError: no suite is there, or its manifest cannot be read.
    """
    path = folder / MANIFEST
    if not path.exists():
        raise ValueError(f"{folder} has no {MANIFEST}: no ablation has been run there")
    manifest = _with_all(read_json(path), MANIFEST_FIELDS, path)
    results = []
    for run in manifest["runs"]:
        home = folder.parent / run["folder"]
        if not (home / "summary.json").exists():
            continue
        try:
            results.append(read_result(home, run["cell"], run["arm"], run["seed"]))
        except (ValueError, FileNotFoundError) as error:
            logging.warning("%s; the run counts as unfinished", error)
    return SuiteResults(manifest, tuple(results))


def _with_all(tree, names, path):
    """The object of a file, which must have these fields."""
    missing = [name for name in names if name not in tree]
    if missing:
        raise ValueError(f"{path} has no {missing[0]!r}")
    return tree


def read_result(folder: pathlib.Path, cell: str, arm: str, seed: int) -> Result:
    """One finished run.

    Raises:
      ValueError: one of its files is damaged; names it.
      FileNotFoundError: one of them is missing.
    """
    path = folder / "summary.json"
    summary = _with_all(read_json(path), SUMMARY_FIELDS, path)
    curve = read_curve(folder)
    return Result(
        cell=cell,
        arm=arm,
        seed=seed,
        curve=curve,
        before=summary["solve_rate_before"],
        solve_rate=summary["solve_rate_after"],
        to_80={
            f"{spent}_to_80": statistics.ticks_to(
                getattr(curve, spent), curve.solve_rate, level=LEVEL
            )
            for spent in SPENT
        },
        seconds=summary["wall_seconds"],
    )


def read_curve(folder: pathlib.Path) -> Curve:
    """The evaluations of a run, with what it had spent by each.

    Counts in the metrics are averages per tick since the line before.
    """
    config = dict(fields.flatten(read_json(folder / "config.json")))
    members = _with_all(config, [GROUP_SIZE], folder / "config.json")[GROUP_SIZE]
    spent = dict.fromkeys(SPENT, 0.0)
    rows = []
    for line in metrics.read(folder):
        passed = line["tick"] - spent[TICKS]
        spent[TICKS] = line["tick"]
        spent[AFTER_PILOT] = line["tick"] - line.get("pilot_ticks", 0.0)
        spent[EPISODES] += passed * line.get("groups_started", 0.0) * members
        spent[TOKENS] += passed * line.get("gradient_tokens", 0.0)
        if "eval/solve_rate" in line:
            rows.append((*spent.values(), line["eval/solve_rate"]))
    *columns, rates = np.array(rows, float).reshape(-1, len(SPENT) + 1).T
    return Curve(**dict(zip(SPENT, columns, strict=True)), solve_rate=rates)


def to_csv(results: Iterable[Result]) -> str:
    """One line per run."""
    out = io.StringIO()
    columns = ["cell", "arm", "seed", "solve_rate_before", *METRICS, *SPENT, "seconds"]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for r in results:
        values = [r.before, *(r.value(metric) for metric in METRICS)]
        values += [float(getattr(r.curve, spent)[-1]) for spent in SPENT]
        values.append(r.seconds)
        writer.writerow([r.cell, r.arm, r.seed, *(f"{v:.6g}" for v in values)])
    return out.getvalue()
