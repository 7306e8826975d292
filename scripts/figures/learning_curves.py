"""Learning curves of runs: solve rate on held-out problems, rewards of every stage."""

import json
import math
import os
import pathlib
import sys
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import scipy.stats

from agentic_grpo.training import metrics
from experiments.runs import finding
from scripts.figures.style import COLOURS, STYLE, End, label_ends, look_of

SOLVE_RATE = "eval/solve_rate"
GREEDY = "eval/greedy_solve_rate"
STAGE = "stage_reward/"
VERDICT = "verdict"


class Arm(NamedTuple):
    """Seeds of one setting: the lines of each run."""

    label: str
    runs: list[list[dict[str, float]]]


class Curve(NamedTuple):
    """A mean over seeds with its band, by tick; arrays of one length."""

    ticks: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def read_arms(argument: str) -> list[Arm]:
    """The arms of LABEL=FOLDER,FOLDER or of one folder, whatever its name.

    A folder that holds no run stands for the runs below it. Runs of one arm differ in
    their seed alone: those of a folder are one arm per setting, those of a label must
    be of one.

    Raises:
      ValueError: no run is there, one has no metrics, or a label's settings differ.
    """
    label, equals, folders = argument.partition("=")
    if equals and not pathlib.Path(argument).exists():
        runs = [run for folder in folders.split(",") for run in _read(folder)]
        _require_one_setting(label, runs)
        return [_arm(label, runs)]
    base = pathlib.Path(argument).resolve()
    settings: dict[str, list[_Run]] = {}
    for run in _read(base):
        settings.setdefault(json.dumps(run.setting, sort_keys=True), []).append(run)
    if len(settings) == 1:
        return [_arm(base.name, *settings.values())]
    return [_arm(_name_within(base, runs), runs) for runs in settings.values()]


class _Run(NamedTuple):
    """A run on disk, with what its config says but for the seed."""

    folder: pathlib.Path
    setting: dict[str, Any]
    lines: list[dict[str, float]]


def _read(folder) -> list[_Run]:
    """The runs within a folder; one whose files are damaged is told and left out."""
    runs, damaged = [], []
    for path in finding.runs_within(pathlib.Path(folder)):
        try:
            lines, setting = metrics.read(path), finding.setting_of(path)
            if not lines:
                raise ValueError(f"{path}: its metrics have no line yet")
        except (ValueError, FileNotFoundError) as error:  # it has only just begun
            damaged.append(str(error))
            print(f"plot_runs: {error}; left out", file=sys.stderr)
            continue
        runs.append(_Run(path, setting, lines))
    if not runs:
        raise ValueError(f"{folder}: no run there can be read: {damaged[0]}")
    return runs


def _require_one_setting(label, runs):
    first, *others = runs
    for other in others:
        names = sorted(first.setting.keys() | other.setting.keys())
        for name in names:
            one, two = first.setting.get(name), other.setting.get(name)
            if one != two:
                raise ValueError(
                    f"{label}: {first.folder} and {other.folder} are no seeds of one "
                    f"setting: {name} is {one!r} and {two!r}. Give each its own label"
                )


def _name_within(base, runs):
    """The folder that the seeds of a setting share, as seen from the one given."""
    common = pathlib.Path(os.path.commonpath([run.folder for run in runs]))
    return common.relative_to(base).as_posix()


def _arm(label, runs) -> Arm:
    ends = sorted({int(run.lines[-1]["tick"]) for run in runs})
    if len(ends) > 1:
        print(f"plot_runs: seeds of {label} end at ticks {ends}; drawn up to {ends[0]}")
    return Arm(label, [run.lines for run in runs])


def curve(arm: Arm, name: str, *, smoothing: float = 0.0) -> Curve | None:
    """One metric over the ticks that all runs of the arm have; None without any."""
    series = []
    for run in arm.runs:
        points = {int(line["tick"]): line.get(name, math.nan) for line in run}
        series.append({t: v for t, v in points.items() if math.isfinite(v)})
    ticks = sorted(set.intersection(*map(set, series)))
    if not ticks:
        return None
    values = np.array([[points[tick] for tick in ticks] for points in series])
    window = max(1, round(smoothing * len(ticks)))
    smooth = np.stack([running_mean(row, window) for row in values])
    return Curve(np.array(ticks), *mean_and_band(smooth))


def mean_and_band(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean over seeds of [seeds, ticks], and band: t interval, range, or nothing."""
    seeds, mean = len(values), values.mean(axis=0)
    if seeds < 3:
        return mean, values.min(axis=0), values.max(axis=0)
    error = values.std(axis=0, ddof=1) / np.sqrt(seeds)
    half = scipy.stats.t.ppf(0.975, seeds - 1) * error
    return mean, mean - half, mean + half


def running_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Centred; at the ends over what there is."""
    kernel = np.ones(window)
    total = np.convolve(values, kernel, mode="same")
    return total / np.convolve(np.ones_like(values), kernel, mode="same")


def names_of(arms: list[Arm], prefix: str) -> list[str]:
    """Every metric whose name starts so, in the order of first appearance."""
    lines = (line for arm in arms for run in arm.runs for line in run)
    return list(
        dict.fromkeys(
            name for line in lines for name in line if name.startswith(prefix)
        )
    )


def draw(arms: list[Arm], *, smoothing: float) -> plt.Figure:
    """The whole figure: solve rates on the left, rewards of the stages on the right."""
    if all(curve(arm, SOLVE_RATE) is None for arm in arms):
        raise ValueError(f"no evaluation in these runs yet ({SOLVE_RATE})")
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(10.0, 3.7), layout="constrained")
        if len(arms) == 1:
            left, right = figure.subplots(1, 2, sharex=True)
            draw_one_solve_rate(left, arms[0])
            draw_one_arms_stages(right, arms[0], smoothing)
        else:
            left, right = figure.subfigures(1, 2, width_ratios=(1.0, 1.15))
            draw_solve_rates(left.subplots(), arms)
            draw_stages(right, arms, smoothing)
        figure.supxlabel(footnote(arms, smoothing), fontsize=7, color="0.35")
    return figure


def draw_one_solve_rate(axes: plt.Axes, arm: Arm) -> None:
    """Solve rate, greedy beside sampled, and thinly each level of difficulty."""
    ends = []
    levels = names_of([arm], SOLVE_RATE + "/")
    for index, name in enumerate(levels):
        grey = str(0.35 + 0.3 * index / max(1, len(levels) - 1))
        label = name.removeprefix(SOLVE_RATE + "/")
        ends += draw_curve(axes, arm, name, label, grey, linewidth=0.9, band=False)
    ends += draw_curve(
        axes, arm, GREEDY, "greedy", COLOURS[0], linestyle=(0, (4, 2)), band=False
    )
    ends += draw_curve(axes, arm, SOLVE_RATE, "solve rate", COLOURS[0], linewidth=2.2)
    finish(axes, "Solve rate on held-out problems", ends)


def draw_one_arms_stages(axes: plt.Axes, arm: Arm, smoothing: float) -> None:
    """The reward of each stage, and the verdict."""
    ends = []
    for index, name in enumerate(names_of([arm], STAGE)):
        colour = COLOURS[index % len(COLOURS[:-1])]
        label = name.removeprefix(STAGE)
        ends += draw_curve(axes, arm, name, label, colour, smoothing=smoothing)
    ends += draw_curve(
        axes, arm, VERDICT, "verdict", COLOURS[-1], smoothing=smoothing, linewidth=2.2
    )
    finish(axes, "Mean reward of each stage in training", ends)


def draw_solve_rates(axes: plt.Axes, arms: list[Arm]) -> None:
    """One curve per arm, labelled at its end."""
    ends = []
    for index, arm in enumerate(arms):
        look = look_of(index)
        colour = look.pop("color")
        ends += draw_curve(axes, arm, SOLVE_RATE, arm.label, colour, **look)
    finish(axes, "Solve rate on held-out problems", ends)


def draw_stages(figure: plt.Figure, arms: list[Arm], smoothing: float) -> None:
    """One small panel per stage and one for the verdict, arms by colour."""
    names = [*names_of(arms, STAGE), VERDICT]
    columns = min(3, len(names))
    rows = math.ceil(len(names) / columns)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for panel in grid.flat[len(names) :]:
        panel.set_axis_off()
    for panel, name in zip(grid.flat, names, strict=False):
        for index, arm in enumerate(arms):
            look = look_of(index) | {"linewidth": 1.3}
            colour = look.pop("color")
            draw_curve(panel, arm, name, "", colour, smoothing=smoothing, **look)
        panel.set_title(name.removeprefix(STAGE), fontsize=9)
        panel.set_ylim(-0.02, 1.02)
    for panel in grid[-1]:
        panel.set_xlabel("tick")
    figure.suptitle("Mean reward in training", x=0.02, ha="left", fontsize=10)


def draw_curve(
    axes: plt.Axes,
    arm: Arm,
    name: str,
    label: str,
    colour: str,
    *,
    smoothing: float = 0.0,
    band: bool = True,
    **style,
) -> list[tuple[End, float]]:
    """Draws one curve; returns its end and last tick, nothing without the metric."""
    points = curve(arm, name, smoothing=smoothing)
    if points is None:
        return []
    alone = {"marker": "."} if len(points.ticks) == 1 else {}
    axes.plot(points.ticks, points.mean, color=colour, **style, **alone)
    if band and len(arm.runs) > 1:
        axes.fill_between(
            points.ticks, points.low, points.high, color=colour, alpha=0.18, linewidth=0
        )
    return [((label, float(points.mean[-1]), colour), float(points.ticks[-1]))]


def finish(axes: plt.Axes, title: str, ends: list[tuple[End, float]]) -> None:
    """Limits, title, and the labels beside the ends of the curves."""
    axes.set(title=title, xlabel="tick", ylim=(-0.02, 1.02))
    axes.set_xlim(0, max((tick for _, tick in ends), default=1) or 1)
    label_ends(axes, [end for end, _ in ends])


def footnote(arms: list[Arm], smoothing: float) -> str:
    """What the figure is made of."""
    counts = {len(arm.runs) for arm in arms}
    parts = []
    if counts != {1}:
        seeds = "/".join(str(count) for count in sorted(counts))
        parts.append(f"mean over {seeds} seeds")
    if any(count >= 3 for count in counts):
        parts.append("band: 95% t interval of the mean")
    if 2 in counts:
        parts.append("band of two seeds: their range")
    if smoothing:
        parts.append(f"training rewards: running mean over {smoothing:.0%} of the run")
    return "; ".join(parts)
