"""What a sweep has found: one line per point, as a table and as ``results.csv``."""

import csv
import io
import math
import pathlib
import statistics
from collections.abc import Sequence
from typing import Any

import rich.console
import rich.table

from agentic_grpo.training import run_folder, whole_files
from experiments.runs import workdir
from experiments.sweeps.planning import Point

FILE_NAME = "results.csv"


def rows(folder: pathlib.Path, points: Sequence[Point]) -> list[dict[str, Any]]:
    """One row per point, the best first: what differs, then what came of its seeds.

    Args:
      folder: of the sweep.
      points: of the sweep.

    Returns:
      dicts with the fields of the points, "seeds" (finished), "solve_rate" (mean over
      them, on the test problems), "deviation" (over seeds; NaN of one), "before" (of
      the base models), "seconds" (mean) and "folder". Points without a finished seed
      come last, with NaN.
    """
    found = []
    for point in points:
        homes = [folder / point.name / f"seed={seed}" for seed in point.seeds]
        summaries = [summary for home in homes if (summary := _summary(home))]
        rates = [summary["solve_rate_after"] for summary in summaries]
        found.append(
            dict(point.overrides)
            | {
                "seeds": len(rates),
                "solve_rate": _mean(rates),
                "deviation": statistics.stdev(rates) if rates[1:] else math.nan,
                "before": _mean([s["solve_rate_before"] for s in summaries]),
                "seconds": _mean([s["wall_seconds"] for s in summaries]),
                "folder": point.name,
            }
        )
    return sorted(found, key=lambda row: -_or_worst(row["solve_rate"]))


def write(folder: pathlib.Path, found: Sequence[dict[str, Any]]) -> pathlib.Path:
    """Writes ``results.csv`` as a whole, and returns where."""
    text = io.StringIO()
    names = dict.fromkeys(name for row in found for name in row)
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    path = folder / FILE_NAME
    with whole_files.replacing(path) as file:
        file.write(text.getvalue())
    return path


def render(found: Sequence[dict[str, Any]], *, width: int = 100) -> str:
    """The rows as a table of plain text, without the folders."""
    names = [*dict.fromkeys(name for row in found for name in row if name != "folder")]
    table = rich.table.Table(box=None)
    for name in names:
        table.add_column(name.rpartition(".")[2], justify="right", overflow="fold")
    for row in found:
        table.add_row(*(_cell(row.get(name, "")) for name in names))
    console = rich.console.Console(file=io.StringIO(), width=width)
    console.print(table)
    return console.file.getvalue().rstrip()


def _summary(folder):
    """The summary of a run that is finished, as its folder says; None of others."""
    saved = run_folder.saved_settings(folder) if folder.is_dir() else None
    if saved is None:
        return None
    config = workdir.load_config(folder)
    return run_folder.finished(folder, workdir.settings_of(config))


def _mean(values):
    return statistics.fmean(values) if values else math.nan


def _or_worst(rate):
    return -math.inf if math.isnan(rate) else rate


def _cell(value):
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.4g}"
    return str(value)
