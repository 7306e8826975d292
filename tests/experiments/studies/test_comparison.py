"""What the runs of a suite say, and what is claimed of them."""

import dataclasses
import json
import re

import fake_runs
import numpy as np
import pytest
import scipy.stats
from tiny_suite import FAST, NEVER, SLOW

from experiments.config import fields
from experiments.configs import smoke
from experiments.studies import (
    comparison,
    report,
    results,
)
from experiments.studies.statistics import Estimate
from experiments.studies.suites import Claim


def test_what_a_run_has_spent_is_counted_from_averages_per_tick(tmp_path):
    config = fields.change(smoke.get_config(), {"rollout.group_size": 4})
    fake_runs.write(
        tmp_path, [0.1, 0.9, 0.9, 0.9], config=config, tokens=100.0, groups=2.0
    )
    curve = results.read_curve(tmp_path)
    np.testing.assert_array_equal(curve.ticks, [0, 5, 10, 15])
    # 5 ticks x 2 groups x 4 members; 5 ticks x 100 tokens.
    np.testing.assert_array_equal(curve.episodes, [0, 40, 80, 120])
    np.testing.assert_array_equal(curve.gradient_tokens, [0, 500, 1000, 1500])
    result = results.read_result(tmp_path, "open", "agentic", 1)
    assert result.to_80 == {
        "ticks_to_80": 5,
        "ticks_after_pilot_to_80": 5,
        "episodes_to_80": 40,
        "gradient_tokens_to_80": 500,
    }


def test_ticks_of_the_pilot_can_be_left_out(tmp_path):
    lines = [
        {"tick": 0, "eval/solve_rate": 0.1},
        {"tick": 5, "eval/solve_rate": 0.1, "pilot_ticks": 5},
        {"tick": 10, "eval/solve_rate": 0.9, "pilot_ticks": 7},
        {"tick": 15, "eval/solve_rate": 0.9, "pilot_ticks": 7},
    ]
    config = smoke.get_config()
    (tmp_path / "config.json").write_text(config.to_json())
    (tmp_path / "metrics.jsonl").write_text(
        "".join(f"{json.dumps(x)}\n" for x in lines)
    )
    curve = results.read_curve(tmp_path)
    np.testing.assert_array_equal(curve.ticks, [0, 5, 10, 15])
    np.testing.assert_array_equal(curve.ticks_after_pilot, [0, 0, 3, 8])


#: 80% at tick 25.
LATE = [0.1] * 5 + [0.9] * 3


@pytest.fixture
def suite_folder(tmp_path):
    claim = Claim(
        text="faster",
        metric="ticks_to_80",
        cell="open",
        candidate="agentic",
        reference="outcome",
        at_most=0.5,
        high_below=0.75,
    )
    level = dataclasses.replace(
        claim, text="no worse", metric="solve_rate", at_most=None, high_below=None
    )
    claims = [
        claim,
        dataclasses.replace(claim, cell="blind"),
        dataclasses.replace(level, low_above=-0.05),
        dataclasses.replace(level, cell="blind", low_above=-0.05),
    ]
    return fake_runs.write_suite(
        tmp_path,
        "tiny",
        {
            ("open", "outcome"): {key: [*SLOW, 0.9] for key in (1, 2, 4)}
            | dict.fromkeys((3, 5), LATE),
            ("open", "agentic"): {key: [*FAST, 0.9] for key in (1, 2, 4)}
            | {key: [*FAST, 0.92] for key in (3, 5)},
            ("blind", "outcome"): {1: SLOW, 2: SLOW},
            ("blind", "agentic"): {1: NEVER, 2: FAST},
        },
        claims=[dataclasses.asdict(one) for one in claims],
        identical=[["outcome", "agentic"]],
    )


def test_arms_are_compared_with_the_reference_by_seed(suite_folder):
    found = comparison.compare_all(results.read(suite_folder))
    ratio = next(c for c in found if (c.cell, c.metric) == ("open", "ticks_to_80"))
    # Three seeds 10 against 20, two 10 against 25.
    assert ratio.pairs == 5 and not ratio.is_censored
    assert ratio.estimate.value == pytest.approx((0.5**3 * 0.4**2) ** 0.2)
    level = next(c for c in found if (c.cell, c.metric) == ("blind", "solve_rate"))
    assert level.estimate.value == pytest.approx(-0.4)  # of -0.8 and 0
    assert {c.arm for c in found} == {"agentic"}
    assert len(found) == 2 * len(results.METRICS)


def test_who_never_arrives_stays_in_the_ratio_and_is_counted(suite_folder):
    suite = results.read(suite_folder)
    lost = comparison.compare(suite, "blind", "agentic", "outcome", "ticks_to_80")
    # 30, the end of the run, against 20, and 10 against 20.
    assert lost.estimate.value == pytest.approx((1.5 * 0.5) ** 0.5)
    assert (lost.arrived, lost.reference_arrived, lost.pairs) == (1, 2, 2)
    assert lost.is_censored


def test_the_area_under_a_curve_is_of_trapezoids(suite_folder):
    suite = results.read(suite_folder)
    # 0.1 up to tick 20, then up to 0.9 at 25, and 0.9 to 35: (2 + 2.5 + 9) / 35.
    late = suite.of("open", "outcome")[3]
    assert late.mean_solve_rate == pytest.approx(13.5 / 35)
    area = comparison.compare(suite, "blind", "agentic", "outcome", "mean_solve_rate")
    # Never: 0.1. Slow: (1.5 + 2.5 + 9) / 30. Fast: (0.5 + 2.5 + 18) / 30.
    assert area.estimate.value == pytest.approx((0.1 + 21 / 30) / 2 - 13 / 30)


def test_claims_hold_fail_or_stay_open(suite_folder):
    suite = results.read(suite_folder)
    faster, lost, no_worse, worse = comparison.check_all(suite)
    assert faster.holds is True and no_worse.holds is True
    assert lost.holds is False and "1 arrive, 2 of the reference" in lost.found
    assert worse.holds is False
    claim = faster.claim
    nobody = comparison.check(suite, {**claim, "candidate": "nobody"})
    assert nobody.holds is None and nobody.found == "no pairs yet"
    single = results.SuiteResults(suite.manifest, suite.results[:1])
    itself = {**claim, "candidate": "outcome", "at_most": None}
    assert comparison.check(single, itself).holds is None  # one pair: no interval
    only_at_most = {**claim, "candidate": "outcome", "high_below": None}
    assert comparison.check(single, only_at_most).holds is False  # 1 is not a half


def test_claims_are_corrected_for_how_many_were_declared(suite_folder):
    faster, lost, no_worse, worse = comparison.check_all(results.read(suite_folder))
    # Logs of the ratios: three of log 0.5, two of log 0.4; tested against log 0.75.
    logs = np.log([0.5, 0.5, 0.4, 0.5, 0.4])
    expected = scipy.stats.ttest_1samp(logs, np.log(0.75)).pvalue
    assert faster.p == pytest.approx(expected)
    # The two on the wrong side have a chance of 1; no_worse has the smallest.
    assert lost.p == worse.p == 1.0
    assert no_worse.holm == pytest.approx(4 * no_worse.p)
    assert faster.holm == pytest.approx(3 * faster.p)


@pytest.mark.parametrize(
    ("estimate", "holds"),
    [
        ((0.5, 0.4, 0.74), True),
        ((0.51, 0.4, 0.74), False),  # the estimate itself
        ((0.45, 0.3, 0.75), False),  # its upper end
    ],
)
def test_every_part_of_a_claim_must_hold(suite_folder, monkeypatch, estimate, holds):
    suite = results.read(suite_folder)
    found = comparison.compare(suite, "open", "agentic", "outcome", "ticks_to_80")
    other = dataclasses.replace(found, estimate=Estimate(*estimate, 0.1, 0.1))
    monkeypatch.setattr(comparison, "compare", lambda *arguments: other)
    assert comparison.check(suite, suite.manifest["claims"][0]).holds is holds


def test_runs_that_are_not_finished_are_left_out_and_told(suite_folder):
    summary = suite_folder / "runs" / "open" / "agentic" / "seed=2" / "summary.json"
    summary.unlink()
    suite = results.read(suite_folder)
    assert len(suite.results) == 13 and sorted(suite.of("open", "agentic")) == [
        1,
        3,
        4,
        5,
    ]
    page = report.to_markdown(suite, comparison.compare_all(suite))
    assert "**Incomplete: 13 of 14 runs are finished.**" in page


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("summary.json", ""),
        ("summary.json", "{}"),
        ("config.json", "["),
        ("config.json", "{}"),
        ("metrics.jsonl", "{\n{\n"),
    ],
)
def test_a_damaged_run_is_named_and_left_out(suite_folder, name, content, caplog):
    path = suite_folder / "runs" / "open" / "agentic" / "seed=2" / name
    path.write_text(content)
    suite = results.read(suite_folder)
    assert len(suite.results) == 13 and sorted(suite.of("open", "agentic")) == [
        1,
        3,
        4,
        5,
    ]
    assert str(path) in caplog.text


@pytest.mark.parametrize("content", ["", "[]", '{"name": "tiny"}'])
def test_a_damaged_manifest_is_named(suite_folder, content):
    path = suite_folder / "suite.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=re.escape(str(path))):
        results.read(suite_folder)


def test_the_page_says_what_was_found(suite_folder):
    suite = results.read(suite_folder)
    page = report.to_markdown(suite, comparison.compare_all(suite))
    for text in (
        "| faster | agentic against outcome, open |",
        "**holds**",
        "**fails**",
        "| outcome = agentic | 0.8 |",
        # 20, 20, 25, 20, 25 and 10 everywhere; the end of the run and 10.
        "| 22 (5/5) |",
        "| 10 (5/5) |",
        "| 20 (1/2) |",
    ):
        assert text in page, text


def test_the_page_says_what_holm_took_away(suite_folder):
    suite = results.read(suite_folder)
    few = [r for r in suite.results if r.seed in (1, 3)]
    page = report.to_markdown(results.SuiteResults(suite.manifest, tuple(few)), [])
    # Ratios 0.5 and 0.4: [0.108, 1.84]; level: 0 and 0.02 have p 0.1 against -0.05.
    assert "**holds**" not in page
    looser = [{**claim, "high_below": None} for claim in suite.manifest["claims"]]
    many = suite.manifest | {"claims": [{**looser[2], "low_above": -0.006}] * 4}
    page = report.to_markdown(results.SuiteResults(many, suite.results), [])
    assert page.count("holds, not after Holm") == 4


def test_the_csv_has_one_line_per_run(suite_folder):
    suite = results.read(suite_folder)
    lines = results.to_csv(suite.results).splitlines()
    assert len(lines) == 15 and lines[0].startswith("cell,arm,seed,solve_rate_before")
    assert lines[6].startswith("open,agentic,1,0.1,0.9,0.728571,10,10,40,")
    assert "blind,agentic,1,0.1,0.1,0.1,inf,inf,inf" in lines[13]


def test_a_folder_without_a_suite_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"no suite\.json"):
        results.read(tmp_path)
