"""Runs side by side: what their configs differ in, their curves, their summaries."""

import dataclasses
import math
import pathlib
import sys

from agentic_grpo.training import metrics
from agentic_grpo.training.json_files import read_json
from experiments.config import fields

SOLVE_RATE = "eval/solve_rate"
GREEDY = "eval/greedy_solve_rate"
VERDICT = "verdict"
STAGE = "stage_reward/"

#: Of ``summary.json``, with the names that a person is shown.
SUMMARY = {
    "solve_rate_before": "solve rate before",
    "solve_rate_after": "solve rate after",
    "ticks": "ticks",
    "wall_seconds": "seconds",
    "seed": "seed",
}

#: Points of a curve; longer runs are averaged down to so many.
MAX_POINTS = 160


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One run on disk.

    Attributes:
      name: of its folder, made longer where two are the same.
      config: {"learner.learning_rate": 3e-4, ...}.
      lines: of its metrics; none, if it has not written any.
      summary: None while it is not finished.
    """

    name: str
    config: dict
    lines: list[dict]
    summary: dict | None

    @property
    def progress(self) -> str:
        """How far it has come."""
        ticks = self.config.get("num_ticks", "?")
        if self.summary is not None:
            return f"finished, {self.summary.get('ticks', ticks)} ticks"
        done = int(self.lines[-1]["tick"]) if self.lines else 0
        return f"not finished, tick {done} of {ticks}"


def read(folders: list[pathlib.Path]) -> list[Run]:
    """The runs in these folders.

    Raises:
      ValueError: a folder holds no run, or a file that cannot be read.
    """
    runs = []
    for folder, name in zip(folders, _names(folders), strict=True):
        try:
            lines = metrics.read(folder)
        except FileNotFoundError:
            lines = []  # it has only just begun
        runs.append(
            Run(
                name=name,
                config=dict(fields.flatten(read_json(folder / "config.json"))),
                lines=lines,
                summary=_summary(folder / "summary.json"),
            )
        )
    return runs


def _summary(path: pathlib.Path) -> dict | None:
    """None of a run that is not finished; a damaged summary is told, and is none."""
    try:
        return read_json(path)
    except FileNotFoundError:
        return None
    except ValueError as error:
        print(f"{error}; the run counts as unfinished", file=sys.stderr)
        return None


def differing(runs: list[Run]) -> dict[str, list]:
    """{field: its value in each run} of what is not the same in all; sorted.

    A field that a run does not have is ``None`` there.
    """
    names = sorted({name for run in runs for name in run.config})
    rows = {name: [run.config.get(name) for run in runs] for name in names}
    return {name: row for name, row in rows.items() if any(x != row[0] for x in row)}


def curve(run: Run, name: str) -> list[tuple[float, float]]:
    """(tick, value) of one metric, where it was measured; at most ``MAX_POINTS``."""
    points = [
        (line["tick"], line[name])
        for line in run.lines
        if name in line and math.isfinite(line[name])
    ]
    if len(points) <= MAX_POINTS:
        return points
    bins: dict[int, list[tuple[float, float]]] = {}
    for index, point in enumerate(points):
        bins.setdefault(index * MAX_POINTS // len(points), []).append(point)
    return [
        (sum(tick for tick, _ in part) / len(part), sum(v for _, v in part) / len(part))
        for part in bins.values()
    ]


def curve_names(runs: list[Run]) -> list[str]:
    """The metrics to draw, of those that some run has: the most important first."""
    known = dict.fromkeys(name for run in runs for line in run.lines for name in line)
    stages = [name for name in known if name.startswith(STAGE)]
    return [n for n in (SOLVE_RATE, GREEDY, VERDICT, *stages) if n in known]


def _names(folders: list[pathlib.Path]) -> list[str]:
    """The shortest ends of the paths that tell all folders apart."""
    parts = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(path[-length:]) for path in parts]
        if len(set(names)) == len(set(parts)):
            break
    return names
