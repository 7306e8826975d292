"""What the runs of a suite say: comparisons by pairs of seeds, and claims checked."""

import dataclasses
import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.studies import statistics
from experiments.studies.results import LEVELS, METRICS, SuiteResults
from experiments.studies.statistics import Estimate

#: 10 ticks against 20 are half of them, whatever exp(log) says.
ROUNDING = 1e-9

#: Chance after Holm below which something is said to be so.
SIGNIFICANT = 0.05


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """An arm against another, over the seeds that both have.

    Attributes:
      cell, arm, reference, metric: what is compared.
      pairs: how many seeds.
      estimate: difference (of levels) or ratio (of restricted times to 80%).
      arrived, reference_arrived: seeds that reached 80%; all, of levels.
      holm: the p-value of the paired t test after Holm, over all cells and arms of the
        suite in this metric; NaN where it is not one of them.
    """

    cell: str
    arm: str
    reference: str
    metric: str
    pairs: int
    estimate: Estimate
    arrived: int
    reference_arrived: int
    holm: float = math.nan

    @property
    def neutral(self) -> float:
        """What the estimate is where there is no difference."""
        return 0.0 if self.metric in LEVELS else 1.0

    @property
    def is_censored(self) -> bool:
        """Whether a seed of either side never reached 80%."""
        return min(self.arrived, self.reference_arrived) < self.pairs


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checked:
    """A claim and what was found.

    Attributes:
      claim: its fields, see ``suites.Claim``.
      holds: every part of its rule; None while there is nothing to judge by.
      found: the numbers, in words.
      p: two-sided, of the bound that is nearest; NaN where it has no bound.
      holm: that after Holm, over the claims of the suite.
    """

    claim: Mapping[str, Any]
    holds: bool | None
    found: str
    p: float = math.nan
    holm: float = math.nan


def compare(
    suite: SuiteResults, cell: str, arm: str, reference: str, metric: str
) -> Comparison | None:
    """One comparison; None while they share no seed."""
    ours, theirs = suite.of(cell, arm), suite.of(cell, reference)
    seeds = sorted(ours.keys() & theirs.keys())
    if not seeds:
        return None
    values = [[side[seed].value(metric) for seed in seeds] for side in (ours, theirs)]
    if metric in LEVELS:
        estimate = statistics.paired_difference(*values)
    else:
        # At tick 0 nothing is spent yet: a rate that is there from the start took one.
        values = [[max(value, 1.0) for value in side] for side in values]
        # Both are watched for as long as the one that was watched less.
        watched = [
            max(min(ours[seed].horizon(metric), theirs[seed].horizon(metric)), 1.0)
            for seed in seeds
        ]
        estimate = statistics.paired_log_ratio(*values, horizon=watched)
    arrived, theirs_arrived = (int(np.isfinite(side).sum()) for side in values)
    return Comparison(
        cell=cell,
        arm=arm,
        reference=reference,
        metric=metric,
        pairs=len(seeds),
        estimate=estimate,
        arrived=arrived,
        reference_arrived=theirs_arrived,
    )


def compare_all(suite: SuiteResults) -> list[Comparison]:
    """Every arm with the reference in every cell and metric, Holm's p-values added."""
    reference = suite.manifest["reference"]
    comparisons = []
    for metric in METRICS:
        pairs = itertools.product(suite.manifest["cells"], suite.manifest["arms"])
        family = [
            comparison
            for cell, arm in pairs
            if arm != reference
            and (comparison := compare(suite, cell, arm, reference, metric))
        ]
        adjusted = statistics.holm([c.estimate.p for c in family])
        comparisons += [
            dataclasses.replace(c, holm=float(p))
            for c, p in zip(family, adjusted, strict=True)
        ]
    return comparisons


def check_all(suite: SuiteResults) -> list[Checked]:
    """Every claim of a suite, their p-values after Holm over what was declared."""
    checked = [check(suite, claim) for claim in suite.manifest["claims"]]
    adjusted = statistics.holm([one.p for one in checked])
    return [
        dataclasses.replace(one, holm=float(p))
        for one, p in zip(checked, adjusted, strict=True)
    ]


def check(suite: SuiteResults, claim: Mapping[str, Any]) -> Checked:
    """One claim. It stays open while there are too few pairs for the interval it needs.

    A ratio of times is of *restricted* times, which flatter a candidate that does not
    arrive: it must also have arrived at least as often as the reference.

    Args:
      suite: the results.
      claim: the fields of a ``suites.Claim``.
    """
    found = compare(
        suite,
        claim["cell"],
        claim["candidate"],
        claim["reference"],
        claim["metric"],
    )
    if found is None:
        return Checked(claim=claim, holds=None, found="no pairs yet")
    value, low, high = found.estimate[:3]
    words = f"{value:.3f} [{low:.3f}, {high:.3f}], {found.pairs} pairs"
    if found.is_censored:
        words += f"; {found.arrived} arrive, {found.reference_arrived} of the reference"
    needs_interval = claim["high_below"] is not None or claim["low_above"] is not None
    if found.arrived < found.reference_arrived:
        holds = False
    elif needs_interval and math.isnan(low):
        holds = None
    else:
        holds = all(
            [
                claim["at_most"] is None or value <= claim["at_most"] + ROUNDING,
                claim["high_below"] is None or high < claim["high_below"],
                claim["low_above"] is None or low > claim["low_above"],
                claim.get("at_least") is None or value >= claim["at_least"] - ROUNDING,
            ]
        )
    chances = []
    if (bound := claim["high_below"]) is not None:
        chances.append(_chance(found, bound) if value < bound else 1.0)
    if (bound := claim["low_above"]) is not None:
        chances.append(_chance(found, bound) if value > bound else 1.0)
    return Checked(
        claim=claim, holds=holds, found=words, p=max(chances, default=math.nan)
    )


def _chance(found, bound):
    """Of "the truth is at the bound"; NaN without an interval."""
    return statistics.chance_of(
        bound, found.estimate, pairs=found.pairs, is_ratio=found.metric not in LEVELS
    )


def largest_difference(suite: SuiteResults, one: str, other: str) -> float | None:
    """Between the learning curves of two arms that should be the same run by run."""
    found = [
        float(np.max(np.abs(a.curve.solve_rate - b.curve.solve_rate)))
        for cell in suite.manifest["cells"]
        for seed, a in suite.of(cell, one).items()
        if (b := suite.of(cell, other).get(seed))
    ]
    return max(found, default=None)
