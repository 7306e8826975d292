"""Statistics of paired runs: how soon, how much, and how sure. Pure, in NumPy.

Runs are paired by seed: two arms with one seed share the base model, the problems of
the evaluation, and the key of the run. Letters: N pairs, M comparisons.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.stats

#: Up to so many pairs every pattern of signs is tried; above, this many random ones.
EXACT_PAIRS = 14
RANDOM_FLIPS = 20_000
RESAMPLES = 20_000
CONFIDENCE = 0.95

#: Pairs whose differences spread by less than this share of their size do not spread.
NO_SPREAD = 1e-9


class Estimate(NamedTuple):
    """A number with its interval and the p-values of "there is no difference".

    Attributes:
      value: the estimate.
      low, high: its 95% t interval; NaN where there is nothing to base one on: one
        pair, or pairs without spread.
      p: of the paired t test, two-sided; without spread that of the sign-flip test,
        which needs none; NaN with one pair.
      sign_flip_p: of the sign-flip test.
      bootstrap_low, bootstrap_high: the interval by bootstrap; NaN as the other.
    """

    value: float
    low: float
    high: float
    p: float
    sign_flip_p: float
    bootstrap_low: float = math.nan
    bootstrap_high: float = math.nan

    def intervals_agree(self, neutral: float) -> bool:
        """Whether both intervals say the same of "there is no difference"."""
        ours = self.low <= neutral <= self.high
        return ours == (self.bootstrap_low <= neutral <= self.bootstrap_high)


def ticks_to(
    ticks: Sequence[float],
    rates: Sequence[float],
    *,
    level: float = 0.8,
    consecutive: int = 3,
) -> float:
    """The first of ``consecutive`` evaluations in a row at or above a level.

    Args:
      ticks: of the evaluations, ascending; or episodes, or tokens spent by then.
      rates: what was measured there.
      level: to reach, and to hold.
      consecutive: a single lucky evaluation does not count.

    Returns:
      The entry of ``ticks``; infinity if the level is not held before the end.
    """
    if len(ticks) != len(rates):
        raise ValueError(f"ticks: {len(ticks)} of them for {len(rates)} rates")
    above = np.asarray(rates, float) >= level  # NaN is not above
    for first in range(len(above) - consecutive + 1):
        if above[first : first + consecutive].all():
            return float(ticks[first])
    return math.inf


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """Mean of ours - theirs over N pairs, with its paired t interval."""
    differences = _paired(ours, theirs)
    differences = differences[0] - differences[1]
    return _mean_of_pairs(differences)


def paired_log_ratio(
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    horizon: float | Sequence[float],
) -> Estimate:
    """Geometric mean of restricted times ours / theirs over N pairs, on the log scale.

    A time is restricted to the horizon of its pair: min(T, tau), which all pairs have,
    so none is dropped (the restricted mean survival time; Royston and Parmar 2013,
    doi 10.1186/1471-2288-13-152). Where one side never arrives the ratio is drawn
    towards 1: in its favour, so say beside it how many arrived.

    Args:
      ours, theirs: times, above 0; infinite where it was not reached.
      horizon: how long both were watched; one number, or one per pair.

    Returns:
      ``Estimate`` of the ratio, below 1 where ours is quicker.
    """
    ours, theirs = _paired(ours, theirs)
    horizon = np.asarray(horizon, float)
    if not all(np.all(times > 0) for times in (ours, theirs, horizon)):
        raise ValueError("ours, theirs, horizon: times must be above 0 for a ratio")
    of_logs = _mean_of_pairs(
        np.log(np.minimum(ours, horizon)) - np.log(np.minimum(theirs, horizon))
    )
    return of_logs._replace(
        **{
            name: math.exp(getattr(of_logs, name))
            for name in ("value", "low", "high", "bootstrap_low", "bootstrap_high")
        }
    )


def chance_of(bound: float, estimate: Estimate, *, pairs: int, is_ratio: bool) -> float:
    """Two-sided p-value of "the truth is ``bound``", by the t interval of an estimate.

    Below 0.05 exactly where the interval leaves the bound out; NaN where there is none.

    Args:
      bound: on the scale of the estimate.
      estimate: of N pairs.
      pairs: N.
      is_ratio: whether its interval is one of logarithms.
    """
    if math.isnan(estimate.low):
        return math.nan
    scale = math.log if is_ratio else float
    value, low, high = (scale(x) for x in estimate[:3])
    error = (high - low) / (2 * _t(pairs))
    return float(2 * scipy.stats.t.sf(abs(value - scale(bound)) / error, pairs - 1))


def sign_flip_test(differences: Sequence[float]) -> float:
    """Two-sided p-value of "the N differences are symmetric around 0".

    The share of the 2^N patterns of signs whose mean is at least as far from 0 as the
    one observed; beyond ``EXACT_PAIRS`` of random patterns, the observed one included.
    It cannot be below 2 / 2^N: five pairs never give less than 0.0625.
    """
    differences = np.asarray(differences, float)
    count = len(differences)
    if count == 0:
        return math.nan
    if count <= EXACT_PAIRS:
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=count)))
    else:
        draws = np.random.default_rng(0).integers(0, 2, (RANDOM_FLIPS, count))
        signs = np.concatenate([2.0 * draws - 1.0, np.ones((1, count))])
    sums, observed = np.abs(signs @ differences), abs(differences.sum())
    tolerance = 1e-12 * np.abs(differences).sum()  # equal sums in another order
    return float(np.mean(sums >= observed - tolerance))


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Holm's adjusted p-values of M comparisons, in their order.

    The k-th smallest is multiplied by M - k + 1, never less than a smaller one's, at
    most 1 (Holm 1979). NaN stays and does not count as a comparison.
    """
    p_values = np.asarray(p_values, float)
    adjusted = np.full(p_values.shape, math.nan)
    tested = np.flatnonzero(~np.isnan(p_values))
    ascending = tested[np.argsort(p_values[tested], kind="stable")]
    factors = np.arange(len(ascending), 0, -1)
    stepped = np.maximum.accumulate(factors * p_values[ascending])
    adjusted[ascending] = np.minimum(stepped, 1.0)
    return adjusted


def interquartile_mean(values: Sequence[float]) -> float:
    """The mean of the middle half of N values, fractions of values included.

    The i-th smallest covers [i / N, (i + 1) / N]; its weight is what of that lies in
    [1/4, 3/4] (Agarwal et al. 2021, arXiv 2108.13264, recommend it for few runs).
    """
    ascending = np.sort(np.asarray(values, float))
    count = len(ascending)
    if count == 0:
        return math.nan
    edges = np.arange(count + 1) / count
    inside = np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25)
    weights = np.maximum(inside, 0.0)
    return float(ascending @ weights / weights.sum())


def interquartile_interval(
    values: Sequence[float], *, resamples: int = 2000
) -> tuple[float, float]:
    """95% percentile bootstrap of the interquartile mean; the same at every call."""
    values = np.asarray(values, float)
    if len(values) < 2:
        return math.nan, math.nan
    draws = np.random.default_rng(0).integers(0, len(values), (resamples, len(values)))
    means = [interquartile_mean(row) for row in values[draws]]
    tail = (1.0 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return float(low), float(high)


def _paired(ours, theirs):
    ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
    if ours.shape != theirs.shape or ours.ndim != 1 or not ours.size:
        raise ValueError(
            f"ours, theirs: {ours.shape} and {theirs.shape}; one value each per seed"
        )
    return ours, theirs


def _mean_of_pairs(differences):
    """Mean, intervals and p-values of what the pairs differ by."""
    count, mean = len(differences), float(np.mean(differences))
    flip = sign_flip_test(differences)
    if count < 2:
        return Estimate(mean, math.nan, math.nan, math.nan, flip)
    spread = float(np.std(differences, ddof=1))
    if spread <= NO_SPREAD * np.max(np.abs(differences)):
        return Estimate(mean, math.nan, math.nan, flip, flip)
    error = spread / math.sqrt(count)
    half = _t(count) * error
    p = float(2 * scipy.stats.t.sf(abs(mean) / error, count - 1))
    return Estimate(mean, mean - half, mean + half, p, flip, *_bootstrap(differences))


def _bootstrap(differences):
    """95% expanded percentile interval of the mean (Hesterberg 2015).

    "What teachers should know about the bootstrap", The American Statistician 69(4).
    Percentiles of resampled means are too narrow for few pairs: they know neither the
    n / (n - 1) of a variance nor Student's t. Its tails are therefore taken at
    Phi(-sqrt(n / (n - 1)) t), not at 0.025. The same at every call.
    """
    count = len(differences)
    draws = np.random.default_rng(0).integers(0, count, (RESAMPLES, count))
    means = differences[draws].mean(axis=1)
    tail = scipy.stats.norm.cdf(-math.sqrt(count / (count - 1)) * _t(count))
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return float(low), float(high)


def _t(count):
    """Student's t at the 95% interval of N pairs."""
    return float(scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, count - 1))
