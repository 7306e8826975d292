"""The results of a suite as a page: tables of arms, comparisons, claims, where from."""

import math
from collections.abc import Sequence

import numpy as np

from experiments.studies import comparison, statistics
from experiments.studies.comparison import SIGNIFICANT, Comparison
from experiments.studies.results import (
    AREA,
    LEVELS,
    METRICS,
    SOLVE_RATE,
    SPENT,
    SuiteResults,
)

TITLES = {
    SOLVE_RATE: "solve rate at the end",
    AREA: "mean solve rate over the run",
    "ticks_to_80": "ticks to 80%",
    "ticks_after_pilot_to_80": "ticks after the pilot to 80%",
    "episodes_to_80": "episodes to 80%",
    "gradient_tokens_to_80": "gradient tokens to 80%",
}

NOTES = """\
Solve rates at the end are of {problems} test problems, as interquartile mean over seeds
with a bootstrap interval; the mean over the run is the area under the curve of its
evaluations. *To 80%*: the first of three consecutive evaluations at or above 0.80, as
restricted mean (a seed that never got there counts with all that it spent), and in
brackets how many got there. Comparisons are paired by seed: mean difference, or
geometric mean of the ratio of restricted times, with the 95% t interval. Where one side
arrives less often its ratio is drawn towards 1, so read it with the brackets; a claim
about times also fails where the candidate arrives less often. *p*: of the paired t test
on that scale, after Holm over all cells and arms of the suite (of claims: over the
claims declared); *flip*: of the sign-flip test, as it is, never below 2 / 2^pairs. An
interval with a dagger is contradicted by the bootstrap: one of them leaves out "no
difference", the other does not. Pairs without any spread have no interval, and the p of
the sign-flip test. Ticks, episodes and gradient tokens count from the first of
training, the pilot's included (*after the pilot*: without its ticks); episodes of
evaluations are not counted, for all arms alike.
"""


def to_markdown(suite: SuiteResults, comparisons: Sequence[Comparison]) -> str:
    """The whole page."""
    manifest = suite.manifest
    planned, finished = len(manifest["runs"]), len(suite.results)
    problems = sorted({run["test_problems"] for run in manifest["runs"]})
    parts = [f"# {manifest['name']}", f"```\n{manifest['docstring'].strip()}\n```"]
    if finished < planned:
        parts.append(f"**Incomplete: {finished} of {planned} runs are finished.**")
    if manifest["claims"]:
        parts += ["## Claims", _claims(suite)]
    for cell in manifest["cells"]:
        parts += [f"## {cell[0].upper()}{cell[1:]}", _arms(suite, cell)]
        parts.append(_comparisons(suite, cell, comparisons))
    if manifest["identical"]:
        parts += ["## Controls", _identical(suite)]
    if manifest["search"]:
        parts += ["## Search", _search(manifest)]
    notes = NOTES.format(problems=" or ".join(f"{n:,}" for n in problems))
    parts += ["## How to read it", notes.strip(), "## Where from", _provenance(suite)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _claims(suite):
    rows = []
    for one in comparison.check_all(suite):
        claim = one.claim
        rule = [
            f"{words} {claim[field]}"
            for field, words in (
                ("at_most", "estimate at most"),
                ("high_below", "upper end below"),
                ("low_above", "lower end above"),
                ("at_least", "estimate at least"),
            )
            if claim.get(field) is not None
        ]
        versus = f"{claim['candidate']} against {claim['reference']}, {claim['cell']}"
        rows.append(
            [
                claim["text"],
                versus,
                ", ".join(rule),
                one.found,
                chance(one.holm),
                _verdict(one),
            ]
        )
    return table(["claim", "compared", "rule", "found", "p", ""], rows)


def _verdict(checked):
    if checked.holds is None:
        return "open"
    if checked.holds and checked.holm >= SIGNIFICANT:
        return "holds, not after Holm"
    return "**holds**" if checked.holds else "**fails**"


def _arms(suite, cell):
    header = ["arm", "seeds", "before", TITLES[SOLVE_RATE], TITLES[AREA]]
    header += [TITLES[f"{spent}_to_80"] for spent in SPENT]
    rows = []
    for arm in suite.manifest["arms"]:
        results = list(suite.of(cell, arm).values())
        if not results:
            continue
        levels = [r.solve_rate for r in results]
        low, high = statistics.interquartile_interval(levels)
        row = [arm, str(len(results)), f"{np.mean([r.before for r in results]):.3f}"]
        level = f"{statistics.interquartile_mean(levels):.3f}"
        row.append(f"{level} [{number(low)}, {number(high)}]")
        row.append(f"{np.mean([r.mean_solve_rate for r in results]):.3f}")
        for metric in (f"{spent}_to_80" for spent in SPENT):
            needed = [min(r.value(metric), r.horizon(metric)) for r in results]
            reached = sum(math.isfinite(r.value(metric)) for r in results)
            row.append(f"{np.mean(needed):,.0f} ({reached}/{len(results)})")
        rows.append(row)
    return table(header, rows)


def _comparisons(suite, cell, comparisons):
    reference = suite.manifest["reference"]
    header = [f"against {reference}", "pairs"]
    for metric in METRICS:
        kind = "difference" if metric in LEVELS else "ratio"
        header += [f"{TITLES[metric]}: {kind}", "p", "flip"]
    rows = []
    for arm in suite.manifest["arms"]:
        found = {c.metric: c for c in comparisons if (c.cell, c.arm) == (cell, arm)}
        if not found:
            continue
        row = [arm, str(next(iter(found.values())).pairs)]
        for metric in METRICS:
            estimate = found[metric].estimate
            interval = f"[{number(estimate.low)}, {number(estimate.high)}]"
            dagger = (
                "" if estimate.intervals_agree(found[metric].neutral) else " \u2020"
            )
            row.append(f"{number(estimate.value)} {interval}{dagger}")
            row += [chance(found[metric].holm), chance(estimate.sign_flip_p)]
        rows.append(row)
    return table(header, rows) if rows else ""


def _identical(suite):
    rows = []
    for one, other in suite.manifest["identical"]:
        found = comparison.largest_difference(suite, one, other)
        shown = "no pairs yet" if found is None else f"{found:.4g}"
        rows.append([f"{one} = {other}", shown])
    return table(["should be the same", "largest difference of solve rates"], rows)


def _search(manifest):
    rows = []
    for name, chosen in manifest["search"].items():
        inside = "yes" if chosen["inside"] else "**no**"
        rows.append(
            [
                name,
                f"{chosen['learning_rate']:g}",
                f"{chosen['clip']:g}",
                f"{chosen['score']:.3f}",
                f"{chosen['largest_fall']:.3f}",
                inside,
                str(chosen["settings_tried"]),
            ]
        )
    header = ["arm", "learning rate", "clip", "mean of the validation curve"]
    header += ["largest fall", "neighbours tried", "settings tried"]
    return table(header, rows)


def _provenance(suite):
    lines = []
    for one in suite.manifest["provenance"]:
        changed = " (with changes)" if one["changed_since"] else ""
        versions = ", ".join(
            f"{name} {value}"
            for name, value in one.items()
            if name not in ("commit", "changed_since", "processor", "processors")
        )
        lines.append(
            f"* commit {one['commit']}{changed}; {versions}; {one['processors']} "
            f"processors {one['processor']}"
        )
    hours = sum(r.seconds for r in suite.results) / 3600
    lines.append(f"* {len(suite.results)} runs, {hours:.1f} h of wall time in all")
    return "\n".join(lines)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def number(value: float) -> str:
    """ "0.813", "inf", "n/a" for what is not known."""
    if math.isnan(value):
        return "n/a"
    return "inf" if math.isinf(value) else f"{value:.3f}"


def chance(p: float) -> str:
    """A p-value: "0.031", "< 0.001", "n/a"."""
    return "< 0.001" if p < 0.001 else number(p)
