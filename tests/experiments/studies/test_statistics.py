"""The statistics against numbers worked out by hand, SciPy, and brute force."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from experiments.studies import statistics


def test_a_level_is_reached_at_the_first_of_three_in_a_row():
    ticks = [0, 5, 10, 15, 20, 25, 30]
    rates = [0.1, 0.85, 0.7, 0.8, 0.81, 0.79, 0.9]
    # 0.85 at tick 5 is a lucky one; no three in a row follow.
    assert statistics.ticks_to(ticks, rates) == math.inf
    rates = [0.1, 0.85, 0.7, 0.8, 0.81, 0.82, 0.7]
    assert statistics.ticks_to(ticks, rates) == 15  # at the level counts
    assert statistics.ticks_to(ticks, rates, consecutive=1) == 5


def test_two_good_evaluations_at_the_end_are_no_three():
    assert statistics.ticks_to([0, 5, 10], [0.1, 0.9, 0.9]) == math.inf
    assert statistics.ticks_to([0, 5], [0.9, 0.9]) == math.inf
    assert statistics.ticks_to([], []) == math.inf


def test_a_rate_that_is_missing_breaks_the_row():
    rates = [0.9, math.nan, 0.9, 0.9, 0.9]
    assert statistics.ticks_to(range(5), rates) == 2


def test_ticks_and_rates_must_belong_together():
    with pytest.raises(ValueError, match="ticks: 2 of them for 1 rates"):
        statistics.ticks_to([0, 5], [0.9])


def test_a_paired_difference_is_that_of_scipy():
    generator = np.random.default_rng(0)
    ours, theirs = generator.normal(size=(2, 9))
    found = statistics.paired_difference(ours, theirs)
    expected = scipy.stats.ttest_rel(ours, theirs)
    interval = expected.confidence_interval(0.95)
    np.testing.assert_allclose(found.value, np.mean(ours - theirs))
    np.testing.assert_allclose([found.low, found.high], [interval.low, interval.high])
    np.testing.assert_allclose(found.p, expected.pvalue)


def test_pairing_removes_what_the_seeds_share():
    # Seeds differ by 0.1, the arms by 0.01 in each: unpaired, that would be noise.
    found = statistics.paired_difference([0.51, 0.612, 0.711], [0.5, 0.6, 0.7])
    assert found.value == pytest.approx(0.011) and found.p < 0.003
    assert found.low > 0.0085 and found.sign_flip_p == 0.25


@pytest.mark.parametrize(
    ("ours", "theirs", "value", "p"),
    [
        ([10.0, 10.0], [20.0, 20.0], 0.5, 0.5),  # a t test would say 2e-16
        ([30.0] * 3, [90.0] * 3, 1 / 3, 0.25),
        ([20.0] * 4, [20.0] * 4, 1.0, 1.0),
    ],
)
def test_pairs_without_spread_have_no_interval_and_no_p_of_zero(ours, theirs, value, p):
    found = statistics.paired_log_ratio(ours, theirs, horizon=100)
    assert found.value == pytest.approx(value)
    assert math.isnan(found.low) and math.isnan(found.high)
    assert math.isnan(found.bootstrap_low)
    assert found.p == found.sign_flip_p == p
    differences = statistics.paired_difference(ours, theirs)
    assert math.isnan(differences.low) and differences.p == p


def test_the_bootstrap_is_as_wide_as_few_pairs_ask_for():
    """Of 400 samples of five normal pairs, its interval holds the truth in 19 of 20.

    The plain percentile interval does so in 83 of 100.
    """
    samples = np.random.default_rng(0).normal(size=(400, 5))
    found = [statistics.paired_difference(row, np.zeros(5)) for row in samples]
    covered = np.mean([e.bootstrap_low <= 0.0 <= e.bootstrap_high for e in found])
    assert 0.9 < covered < 0.99
    t = np.mean([e.low <= 0.0 <= e.high for e in found])
    assert abs(covered - t) < 0.04


def test_the_bootstrap_says_where_it_contradicts():
    # Seven pairs at 1 and one at -5: the t interval holds 0; so does the bootstrap.
    both = statistics.paired_difference([1.0] * 7 + [-5.0], np.zeros(8))
    assert both.low < 0.0 < both.high and both.intervals_agree(0.0)
    apart = both._replace(bootstrap_low=0.1, bootstrap_high=0.4)
    assert not apart.intervals_agree(0.0)
    assert statistics.paired_difference([1.0], [0.0]).intervals_agree(0.0)


@pytest.mark.parametrize("is_ratio", [False, True])
def test_the_chance_of_a_bound_is_a_t_test_against_it(is_ratio):
    ours, theirs = [0.3, 0.5, 0.4, 0.45], [0.9, 0.8, 1.0, 0.7]
    if is_ratio:
        found = statistics.paired_log_ratio(ours, theirs, horizon=2)
        values, bound = np.log(ours) - np.log(theirs), math.log(0.75)
    else:
        found = statistics.paired_difference(ours, theirs)
        values, bound = np.subtract(ours, theirs), 0.75
    expected = scipy.stats.ttest_1samp(values, bound).pvalue
    chance = statistics.chance_of(0.75, found, pairs=4, is_ratio=is_ratio)
    np.testing.assert_allclose(chance, expected)
    at_the_end = statistics.chance_of(found.high, found, pairs=4, is_ratio=is_ratio)
    np.testing.assert_allclose(at_the_end, 0.05)
    nothing = statistics.paired_difference([1.0], [0.0])
    assert math.isnan(statistics.chance_of(0.0, nothing, pairs=1, is_ratio=False))


def test_a_ratio_is_geometric_with_its_interval_on_the_log_scale():
    # logs of the ratios: -log 2, -2 log 2, -3 log 2: mean -2 log 2, s = log 2,
    # half = t(0.975, 2) log 2 / sqrt 3 = 2.48414 log 2.
    found = statistics.paired_log_ratio([40, 20, 10], [80, 80, 80], horizon=200)
    np.testing.assert_allclose(found.value, 0.25)
    np.testing.assert_allclose([found.low, found.high], [2**-4.48414, 2**0.48414], 1e-4)
    # The arithmetic mean of the ratios would be 0.2917.


def test_swapping_the_arms_inverts_the_ratio():
    ours, theirs = [30.0, 25.0, 50.0], [60.0, 45.0, 70.0]
    one = statistics.paired_log_ratio(ours, theirs, horizon=100)
    other = statistics.paired_log_ratio(theirs, ours, horizon=100)
    np.testing.assert_allclose(
        [one.value, one.low, one.high],
        [1 / other.value, 1 / other.high, 1 / other.low],
    )


def test_who_never_arrives_counts_with_the_horizon_on_either_side():
    found = statistics.paired_log_ratio([50, 50], [math.inf, 100], horizon=200)
    np.testing.assert_allclose(found.value, math.sqrt(50 / 200 * 50 / 100))
    own = statistics.paired_log_ratio([50, 50], [math.inf, 100], horizon=[400, 200])
    np.testing.assert_allclose(own.value, math.sqrt(50 / 400 * 50 / 100))
    ours = statistics.paired_log_ratio([1, math.inf], [100, 100], horizon=200)
    np.testing.assert_allclose(ours.value, math.sqrt(1 / 100 * 200 / 100))
    # Leaving the second pair out would have given a ratio of 0.01.
    beyond = statistics.paired_log_ratio([50, 150], [100, 100], horizon=120)
    np.testing.assert_allclose(beyond.value, math.sqrt(50 / 100 * 120 / 100))


def test_times_of_zero_have_no_ratio():
    with pytest.raises(ValueError, match="above 0"):
        statistics.paired_log_ratio([0.0], [1.0], horizon=10)


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_sign_flips_are_all_tried(count):
    differences = np.random.default_rng(count).normal(size=count)
    observed = abs(differences.sum())
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=count)
    ]
    expected = np.mean([total >= observed - 1e-12 for total in sums])
    assert statistics.sign_flip_test(differences) == pytest.approx(expected)


def test_sign_flips_agree_with_scipy():
    differences = np.array([0.3, -0.1, 0.25, 0.4, 0.05, -0.02, 0.6])
    found = scipy.stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=np.inf
    )
    np.testing.assert_allclose(statistics.sign_flip_test(differences), found.pvalue)


def test_the_smallest_p_of_five_pairs_is_one_sixteenth():
    assert statistics.sign_flip_test([1, 2, 3, 4, 5]) == 2 / 2**5
    assert statistics.sign_flip_test([0.1] * 10) == 2 / 2**10
    assert statistics.sign_flip_test([0.0, 0.0]) == 1.0


def test_many_pairs_are_flipped_at_random_and_alike_every_time():
    differences = np.random.default_rng(1).normal(0.2, 1.0, size=20)
    found = statistics.sign_flip_test(differences)
    assert found == statistics.sign_flip_test(differences)
    exact = scipy.stats.ttest_1samp(differences, 0.0).pvalue
    assert abs(found - exact) < 0.03
    assert statistics.sign_flip_test(np.ones(40)) > 0.0  # never an impossible 0


def test_holm_by_hand():
    # Sorted 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1: 0.04, 0.06, 0.06, 0.04 -> 0.06
    found = statistics.holm([0.04, 0.01, 0.03, 0.02])
    np.testing.assert_allclose(found, [0.06, 0.04, 0.06, 0.06])
    np.testing.assert_allclose(statistics.holm([0.6, 0.9]), [1.0, 1.0])
    # Without "never less than a smaller one's" 0.04 would overtake 0.03.


def test_holm_counts_only_what_was_tested():
    found = statistics.holm([0.02, math.nan, 0.5])
    np.testing.assert_allclose(found, [0.04, math.nan, 0.5])
    assert statistics.holm([]).shape == (0,)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 10])
def test_the_interquartile_mean_cuts_a_quarter_off_each_side(count):
    values = np.random.default_rng(count).normal(size=count)
    # Each value four times: a quarter of them is then a whole number of values.
    expected = scipy.stats.trim_mean(np.repeat(values, 4), 0.25)
    np.testing.assert_allclose(statistics.interquartile_mean(values), expected)


def test_the_interquartile_mean_ignores_an_outlier():
    assert statistics.interquartile_mean([0.9, 0.9, 0.9, 0.0]) == pytest.approx(0.9)
    assert math.isnan(statistics.interquartile_mean([]))


def test_the_interval_of_the_interquartile_mean_is_around_it_and_repeatable():
    values = [0.7, 0.75, 0.8, 0.82, 0.9]
    low, high = statistics.interquartile_interval(values)
    assert 0.7 <= low < statistics.interquartile_mean(values) < high <= 0.9
    assert (low, high) == statistics.interquartile_interval(values)
    assert all(map(math.isnan, statistics.interquartile_interval([0.5])))


def test_one_pair_has_an_estimate_and_no_interval():
    found = statistics.paired_difference([0.9], [0.4])
    assert found.value == 0.5 and math.isnan(found.low) and math.isnan(found.p)


def test_equal_arms_differ_by_nothing():
    found = statistics.paired_difference([0.5, 0.5], [0.5, 0.5])
    assert (found.value, found.p, found.sign_flip_p) == (0.0, 1.0, 1.0)


@pytest.mark.parametrize("values", [([], []), ([1.0], [1.0, 2.0])])
def test_pairs_must_be_pairs(values):
    with pytest.raises(ValueError, match="one value each per seed"):
        statistics.paired_difference(*values)
