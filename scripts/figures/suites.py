"""Figures of an ablation: curves per cell, effects with intervals, a map of cells."""

import math
from collections.abc import Sequence

import matplotlib.colors
import matplotlib.pyplot as plt
import numpy as np

from experiments.studies import suites
from experiments.studies.comparison import SIGNIFICANT, Comparison
from experiments.studies.results import (
    EPISODES,
    SOLVE_RATE,
    TICKS,
    TOKENS,
    SuiteResults,
)
from scripts.figures.learning_curves import mean_and_band
from scripts.figures.style import STYLE, label_ends, look_of

#: The axes that curves are drawn against.
SPENT_LABELS = {
    TICKS: "ticks",
    EPISODES: "thousand episodes",
    TOKENS: "thousand gradient tokens",
}
UNITS = {TICKS: 1.0, EPISODES: 1e3, TOKENS: 1e3}

#: As many cells side by side as can still be read.
MOST_PANELS = 4

#: What effects are drawn in: metric -> (title, what no effect is).
EFFECTS = {
    "ticks_to_80": ("Ticks to 80%, as a ratio", 1.0),
    SOLVE_RATE: ("Solve rate at the end, difference", 0.0),
}


def draw(
    suite: SuiteResults, comparisons: Sequence[Comparison]
) -> dict[str, plt.Figure]:
    """{name of the file: figure}."""
    with plt.rc_context(STYLE):
        figures = {
            f"curves_{suites.slug(cell)}": draw_curves(suite, cell)
            for cell in suite.manifest["cells"]
            if any(result.cell == cell for result in suite.results)
        }
        if len(suite.manifest["cells"]) <= MOST_PANELS:
            figures["curves"] = draw_cells(suite)
        if comparisons:
            figures["effects"] = draw_effects(suite, comparisons)
        if comparisons and suite.manifest["rows"]:
            figures["map"] = draw_map(suite, comparisons)
    return figures


def draw_cells(suite: SuiteResults) -> plt.Figure:
    """Solve rate against ticks and episodes, a column per cell; the arms in all."""
    manifest = suite.manifest
    cells = [c for c in manifest["cells"] if any(r.cell == c for r in suite.results)]
    spents = (TICKS, EPISODES)
    figure, panels = plt.subplots(
        len(spents),
        len(cells),
        figsize=(0.5 + 3.7 * len(cells), 6.2),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for column, cell in zip(panels.T, cells, strict=True):
        ends = []
        for index, arm in enumerate(manifest["arms"]):
            if all(suite.of(each, arm) for each in cells):
                curves = [result.curve for result in suite.of(cell, arm).values()]
                mean = _draw_arm(column, spents, curves, look_of(index))
                ends.append((arm, float(mean[-1]), look_of(index)["color"]))
        for panel, spent in zip(column, spents, strict=True):
            panel.axhline(0.8, color="0.6", linewidth=0.8, linestyle=":")
            panel.set(xlabel=SPENT_LABELS[spent], ylim=(-0.02, 1.02))
            panel.set_xlim(left=0)
        column[0].set(title=cell)
        label_ends(column[0], ends, gap=0.065)
    for panel in panels[:, 0]:
        panel.set_ylabel("solve rate on held-out problems")
    _say_what_bands_are(figure, {len(suite.of(r.cell, r.arm)) for r in suite.results})
    return figure


def draw_curves(suite: SuiteResults, cell: str) -> plt.Figure:
    """Solve rate against ticks, episodes and gradient tokens, all arms of a cell."""
    figure, panels = plt.subplots(
        1, 3, figsize=(11.0, 3.6), sharey=True, layout="constrained"
    )
    ends, counts = [], set()
    for index, arm in enumerate(suite.manifest["arms"]):
        results = list(suite.of(cell, arm).values())
        if not results:
            continue
        counts.add(len(results))
        mean = _draw_arm(
            panels, tuple(SPENT_LABELS), [r.curve for r in results], look_of(index)
        )
        ends.append((arm, float(mean[-1]), look_of(index)["color"]))
    for panel, spent in zip(panels, SPENT_LABELS, strict=True):
        panel.axhline(0.8, color="0.6", linewidth=0.8, linestyle=":")
        panel.set(xlabel=SPENT_LABELS[spent], ylim=(-0.02, 1.02))
        panel.set_xlim(left=0)
    panels[0].set_ylabel("solve rate on held-out problems")
    label_ends(panels[-1], ends, gap=0.065)
    figure.suptitle(f"{suite.manifest['name']}: {cell}", x=0.01, ha="left", fontsize=10)
    _say_what_bands_are(figure, counts)
    return figure


def _draw_arm(panels, spents, curves, look):
    """The mean of some seeds with its band, a panel for each kind of cost; the mean."""
    length = min(len(curve.ticks) for curve in curves)
    mean, low, high = mean_and_band(
        np.array([curve.solve_rate[:length] for curve in curves])
    )
    for panel, spent in zip(panels, spents, strict=True):
        costs = [getattr(curve, spent)[:length] for curve in curves]
        across = np.mean(costs, axis=0) / UNITS[spent]
        panel.plot(across, mean, **look)
        if len(curves) > 1:
            panel.fill_between(
                across, low, high, color=look["color"], alpha=0.15, linewidth=0
            )
    return mean


def _say_what_bands_are(figure, counts):
    seeds = "/".join(str(count) for count in sorted(counts))
    figure.supxlabel(
        f"mean over {seeds} seeds; band: 95% t interval of the mean (two seeds: range)"
        "; ticks and episodes from the first of training, a pilot's included",
        fontsize=7,
        color="0.35",
    )


def draw_effects(suite: SuiteResults, comparisons: Sequence[Comparison]) -> plt.Figure:
    """Every arm against the reference: estimates with 95% intervals, cell by cell."""
    manifest = suite.manifest
    arms = [arm for arm in manifest["arms"] if arm != manifest["reference"]]
    present = {(c.cell, c.arm) for c in comparisons}
    rows = [(c, a) for c in manifest["cells"] for a in arms if (c, a) in present]
    height = 1.1 + 0.23 * len(rows) + 0.25 * len(manifest["cells"])
    figure, panels = plt.subplots(
        1, 2, figsize=(9.0, height), sharey=True, layout="constrained"
    )
    places = _places(rows)
    for panel, (metric, (title, neutral)) in zip(panels, EFFECTS.items(), strict=True):
        found = {(c.cell, c.arm): c for c in comparisons if c.metric == metric}
        panel.axvline(neutral, color="0.5", linewidth=0.8)
        if neutral == 1.0:
            panel.set_xscale("log")
        for row, place in places.items():
            colour = look_of(manifest["arms"].index(row[1]))["color"]
            _draw_effect(panel, found[row], place, colour)
        panel.set(title=title)
        panel.grid(axis="y", visible=False)
    first_of_cell = {}
    for cell, arm in rows:
        first_of_cell.setdefault(cell, places[cell, arm])
    for cell, place in first_of_cell.items():
        panels[0].annotate(
            cell,
            xy=(0.0, place - 0.75),
            xycoords=panels[0].get_yaxis_transform(),
            fontweight="bold",
            fontsize=8,
            va="center",
        )
    panels[0].set_yticks(list(places.values()), [arm for _, arm in rows])
    panels[0].set_ylim(max(places.values()) + 0.6, -1.2)
    _ratio_ticks(panels[0])
    figure.supxlabel(
        f"against {manifest['reference']}, paired by seed; bars: 95% t intervals; "
        "open mark: a seed of either side never reached 80%, its time is restricted",
        fontsize=7,
        color="0.35",
    )
    return figure


def draw_map(suite: SuiteResults, comparisons: Sequence[Comparison]) -> plt.Figure:
    """The grid of cells for every arm: colour and number are the effect.

    A star marks what is significant after Holm; grey cells have no number to compare.
    """
    manifest = suite.manifest
    (row_name, rows), (column_name, columns) = manifest["rows"], manifest["columns"]
    arms = [arm for arm in manifest["arms"] if arm != manifest["reference"]]
    figure, panels = plt.subplots(
        len(EFFECTS),
        len(arms),
        figsize=(0.8 + 2.6 * len(arms), 0.6 + 2.3 * len(EFFECTS)),
        squeeze=False,
        layout="constrained",
    )
    for line, (metric, (title, neutral)) in zip(panels, EFFECTS.items(), strict=True):
        for panel, arm in zip(line, arms, strict=True):
            values = np.full((len(rows), len(columns)), math.nan)
            for comparison in comparisons:
                if (comparison.metric, comparison.arm) == (metric, arm):
                    place = _place_in_grid(manifest, comparison.cell)
                    value, low, high = comparison.estimate[:3]
                    significant = comparison.holm < SIGNIFICANT
                    values[place] = math.log2(value) if neutral == 1.0 else value
                    text = f"{value:.2f}" + " *" * significant
                    if not math.isnan(low):
                        text += f"\n[{low:.2f}, {high:.2f}]"
                    if comparison.is_censored:
                        arrived = comparison.arrived, comparison.reference_arrived
                        text += "\n{} and {} of {}".format(*arrived, comparison.pairs)
                    panel.annotate(
                        text,
                        place[::-1],
                        ha="center",
                        va="center",
                        fontsize=7,
                        fontweight="bold" if significant else "normal",
                    )
            limit = 2.0 if neutral == 1.0 else 1.0
            better = "PuOr" if neutral == 1.0 else "PuOr_r"
            panel.imshow(
                np.clip(values, -limit, limit),
                cmap=_pale(better),
                norm=matplotlib.colors.Normalize(-limit, limit),
                aspect="auto",
            )
            panel.set(title=f"{arm}\n{title}")
            panel.title.set_fontsize(8)
            panel.set_xticks(range(len(columns)), columns)
            panel.set_yticks(range(len(rows)), rows)
            panel.grid(visible=False)
            panel.set(xlabel=column_name, ylabel=row_name)
    figure.supxlabel(
        f"against {manifest['reference']}; brown: better, violet: worse; "
        f"95% t intervals; *: p < {SIGNIFICANT} after Holm; k and l of n: seeds that "
        "reach 80%, and of the reference",
        fontsize=7,
        color="0.35",
    )
    return figure


def _places(rows):
    """{(cell, arm): height}, with room for a heading before every cell."""
    places, place, last = {}, -1.0, None
    for cell, arm in rows:
        place += 1.0 if cell == last else 2.0
        places[cell, arm], last = place - 1.0, cell
    return places


def _draw_effect(panel, found, place, colour):
    value, low, high = found.estimate[:3]
    if not math.isnan(low):
        panel.plot([low, high], [place, place], color=colour, linewidth=1.4)
    fill = "none" if found.is_censored else colour
    panel.plot(
        value, place, marker="o", markersize=4, color=colour, markerfacecolor=fill
    )


def _ratio_ticks(panel):
    """Plain numbers on a log axis of ratios, as many as fit."""
    low, high = panel.get_xlim()
    low, high = min(low, 0.45), max(high, 1.2)
    panel.set_xlim(low, high)
    ticks = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
    ticks = [tick for tick in ticks if low <= tick <= high]
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.minorticks_off()


def _place_in_grid(manifest, cell):
    rows, columns = manifest["rows"], manifest["columns"]
    for r, row in enumerate(rows[1]):
        for c, column in enumerate(columns[1]):
            if suites.grid_cell(rows, columns, row, column) == cell:
                return r, c
    raise ValueError(f"cell={cell!r} must be one of the grid {rows} x {columns}")


def _pale(name):
    """The middle of a colour map, so that black text can be read on all of it."""
    colours = matplotlib.colormaps[name](np.linspace(0.2, 0.8, 256))
    return matplotlib.colors.ListedColormap(colours).with_extremes(bad="0.88")
