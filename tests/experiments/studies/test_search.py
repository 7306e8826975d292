"""The search: the same effort for every arm, on problems of its own."""

import dataclasses
import math

import fake_runs
import numpy as np
import pytest
from tiny_suite import TINY

from experiments.studies import (
    search,
)


def tune(tmp_path, score, suite=TINY, fails=()):
    """Runs the search; ``score(arm, rate, clip)`` is the curve of each of its runs."""
    made = []

    def run(points):
        ended = {}
        for point in points:
            setting = {**point.overrides}
            arm, rate = setting["algorithm.credit"], setting["learner.learning_rate"]
            clip = setting["algorithm.clip_low"]
            for seed in point.seeds:
                name = f"{point.name}/seed={seed}"
                ended[name] = (arm, rate, clip, seed) in fails
                if name not in made:
                    made.append(name)
                    fake_runs.write(tmp_path / name, [0.0, score(arm, rate, clip)])
        return ended

    return *search.tune(suite, tmp_path, run), made


def test_the_best_setting_of_every_arm_is_taken(tmp_path):
    suite = dataclasses.replace(
        TINY,
        search=dataclasses.replace(TINY.search, learning_rates=(1e-4, 1e-3, 1e-2)),
    )

    def score(arm, rate, clip):
        return 0.9 if (rate == 1e-3 and clip == 0.2) else 0.5

    settings, trials, made = tune(tmp_path, score, suite)
    for arm in ("outcome", "agentic"):
        assert settings[arm] == {
            "learner.learning_rate": 1e-3,
            "algorithm.clip_low": 0.2,
            "algorithm.correction_clip_low": 0.2,
        }
    assert len(trials) == 2 * 3 * 3 and len(made) == 2 * len(trials)
    chosen = search.describe(trials)["agentic"]
    assert chosen["inside"] and chosen["settings_tried"] == 9
    assert chosen["score"] == pytest.approx(0.45)  # of 0.0 and 0.9: the whole curve


def distance(value, best):
    return 0.1 * abs(math.log10(value / best))


def test_a_best_rate_at_the_end_widens_the_grid_of_that_arm(tmp_path):
    def score(arm, rate, clip):
        best = 1e-2 if arm == "agentic" else 3e-4
        return 0.9 - distance(rate, best) - distance(clip, 0.2)

    settings, trials, _ = tune(tmp_path, score)
    rates = {
        arm: sorted({t.learning_rate for t in trials if t.arm == arm})
        for arm in ("agentic", "outcome")
    }
    np.testing.assert_allclose(rates["agentic"], [1e-4, 1e-3, 1e-2, 1e-1])
    assert settings["agentic"]["learner.learning_rate"] == pytest.approx(1e-2)
    np.testing.assert_allclose(rates["outcome"], [1e-5, 1e-4, 1e-3])
    assert all(found["inside"] for found in search.describe(trials).values())
    # A further rate is tried with the best clip and those beside it.
    assert {t.clip for t in trials if t.learning_rate == 1e-1} == {0.1, 0.2, 0.4}


def test_a_best_setting_in_the_corner_is_left_along_both_axes_at_once(tmp_path):
    """Score rises along rate x clip only: one axis at a time would stay for ever."""

    def score(arm, rate, clip):
        return 0.9 - abs(math.log2(clip / 1.6)) - abs(math.log10(rate * clip / 0.016))

    settings, trials, _ = tune(tmp_path, score)
    assert settings["outcome"]["learner.learning_rate"] == pytest.approx(1e-2)
    assert settings["outcome"]["algorithm.clip_low"] == pytest.approx(1.6)
    found = search.describe(trials)["outcome"]
    assert found["inside"]
    around = {(r, c) for r in (1e-3, 1e-2, 1e-1) for c in (0.8, 1.6, 3.2)}
    assert around <= {(t.learning_rate, t.clip) for t in trials if t.arm == "outcome"}


def test_a_best_clip_at_the_end_widens_the_clips_around_its_rate(tmp_path):
    def score(arm, rate, clip):
        return 0.9 - distance(rate, 1e-3) - distance(clip, 0.8)

    suite = dataclasses.replace(
        TINY,
        search=dataclasses.replace(TINY.search, learning_rates=(1e-4, 1e-3, 1e-2)),
    )
    settings, trials, _ = tune(tmp_path, score, suite)
    assert settings["agentic"]["algorithm.clip_low"] == 0.8
    wide = {(t.learning_rate, t.clip) for t in trials if t.clip > 0.4}
    assert wide == {(r, c) for r in (1e-4, 1e-3, 1e-2) for c in (0.8, 1.6)}
    assert search.describe(trials)["agentic"]["inside"]


def test_a_grid_is_not_widened_for_ever_and_says_so(tmp_path):
    def score(arm, rate, clip):
        return 0.9 - distance(rate, 1e-9) - distance(clip, 0.2)

    _, trials, _ = tune(tmp_path, score)
    found = search.describe(trials)["outcome"]
    assert not found["inside"]
    assert found["settings_tried"] == 3 * (2 + TINY.search.widenings)


def trial(rate, score, fall):
    return search.Trial(
        arm="outcome", learning_rate=rate, clip=0.2, score=score, fall=fall
    )


def test_a_setting_that_falls_gives_way_to_a_steady_one_as_good_to_a_hundredth():
    falls, steady, worse = (
        trial(1e-2, 0.9, 0.2),
        trial(1e-3, 0.895, 0.1),
        trial(1e-4, 0.88, 0.0),
    )
    assert search.best([falls, steady, worse], "outcome") == steady
    assert search.best([falls, worse], "outcome") == falls  # 0.02 is too dear
    also_falls = dataclasses.replace(steady, fall=0.19)
    assert search.best([falls, also_falls], "outcome") == falls


def test_the_fall_of_a_curve_is_from_its_best_so_far():
    assert search.largest_fall([0.1, 0.8, 0.3, 0.9, 0.85]) == pytest.approx(0.5)
    assert search.largest_fall([0.1, 0.2, 0.2]) == 0.0


def test_the_worst_seed_says_how_steady_a_setting_is(tmp_path):
    falls = {0: [0.0, 0.8, 0.4], 1: [0.0, 0.8, 0.7]}

    def run(points):
        names = {f"{p.name}/seed={s}": s for p in points for s in p.seeds}
        for name, seed in names.items():
            if not (tmp_path / name).exists():
                fake_runs.write(tmp_path / name, falls[seed])
        return dict.fromkeys(names, False)

    _, trials = search.tune(TINY, tmp_path, run)
    assert {round(trial.fall, 6) for trial in trials} == {0.4}
    assert {round(trial.score, 6) for trial in trials} == {0.45}


def test_a_search_needs_two_values_to_have_a_direction():
    with pytest.raises(ValueError, match="at least two"):
        dataclasses.replace(TINY.search, clips=(0.2,))


def test_a_setting_with_a_crash_is_never_chosen(tmp_path):
    suite = dataclasses.replace(
        TINY,
        search=dataclasses.replace(TINY.search, learning_rates=(1e-4, 1e-3, 1e-2)),
    )
    fails = [("agentic", 1e-3, 0.2, 1)]

    def score(arm, rate, clip):
        return (0.9 if clip == 0.2 else 0.8) if rate == 1e-3 else 0.1

    settings, trials, _ = tune(tmp_path, score, suite, fails)
    assert settings["agentic"]["algorithm.clip_low"] != 0.2
    assert settings["outcome"]["algorithm.clip_low"] == 0.2
    assert min(trial.score for trial in trials) == -math.inf


def test_a_search_with_missing_runs_is_not_decided(tmp_path):
    with pytest.raises(search.UnfinishedError, match="has not ended"):
        search.tune(TINY, tmp_path, lambda points: {})
