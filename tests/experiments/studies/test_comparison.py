"""What the runs of a suite say, and what is claimed of them."""

import dataclasses
import json
import re

import fake_runs
import numpy as np
import pytest
from tiny_suite import FAST, NEVER, SLOW

from experiments.config import fields
from experiments.configs import smoke
from experiments.studies import (
    comparison,
    report,
)
from experiments.studies.statistics import Estimate
from experiments.studies.suites import Claim


def test_what_a_run_has_spent_is_counted_from_averages_per_tick(tmp_path):
    config = fields.change(smoke.get_config(), {"rollout.group_size": 4})
    fake_runs.write(
        tmp_path, [0.1, 0.9, 0.9, 0.9], config=config, tokens=100.0, groups=2.0
    )
    curve = comparison.read_curve(tmp_path)
    np.testing.assert_array_equal(curve.ticks, [0, 5, 10, 15])
    # 5 ticks x 2 groups x 4 members; 5 ticks x 100 tokens.
    np.testing.assert_array_equal(curve.episodes, [0, 40, 80, 120])
    np.testing.assert_array_equal(curve.gradient_tokens, [0, 500, 1000, 1500])
    result = comparison.read_result(tmp_path, "open", "agentic", 1)
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
    curve = comparison.read_curve(tmp_path)
    np.testing.assert_array_equal(curve.ticks, [0, 5, 10, 15])
    np.testing.assert_array_equal(curve.ticks_after_pilot, [0, 0, 3, 8])


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
            ("open", "outcome"): dict.fromkeys((1, 2, 3), SLOW),
            ("open", "agentic"): dict.fromkeys((1, 2, 3), FAST),
            ("blind", "outcome"): {1: SLOW, 2: SLOW},
            ("blind", "agentic"): {1: NEVER, 2: FAST},
        },
        claims=[dataclasses.asdict(one) for one in claims],
        identical=[["outcome", "agentic"]],
    )


def test_arms_are_compared_with_the_reference_by_seed(suite_folder):
    found = comparison.compare_all(comparison.read(suite_folder))
    ratio = next(c for c in found if (c.cell, c.metric) == ("open", "ticks_to_80"))
    assert ratio.pairs == 3 and ratio.estimate.value == pytest.approx(0.5)
    level = next(c for c in found if (c.cell, c.metric) == ("blind", "solve_rate"))
    assert level.estimate.value == pytest.approx(-0.4)  # of -0.8 and 0
    assert {c.arm for c in found} == {"agentic"}
    assert len(found) == 2 * len(comparison.METRICS)


def test_claims_hold_fail_or_stay_open(suite_folder):
    suite = comparison.read(suite_folder)
    faster, lost, no_worse, worse = suite.manifest["claims"]
    assert comparison.check(suite, faster)[0] is True
    holds, numbers = comparison.check(suite, lost)
    assert holds is False and "not reached by every seed" in numbers
    assert comparison.check(suite, no_worse)[0] is True
    assert comparison.check(suite, worse)[0] is False
    nobody = {**faster, "candidate": "nobody"}
    assert comparison.check(suite, nobody) == (None, "no pairs yet")
    single = comparison.SuiteResults(suite.manifest, suite.results[:1] * 1)
    assert comparison.check(single, {**faster, "candidate": "outcome"})[0] is None


@pytest.mark.parametrize(
    ("estimate", "holds"),
    [
        ((0.5, 0.4, 0.74), True),
        ((0.51, 0.4, 0.74), False),  # the estimate itself
        ((0.45, 0.3, 0.75), False),  # its upper end
    ],
)
def test_every_part_of_a_claim_must_hold(suite_folder, monkeypatch, estimate, holds):
    suite = comparison.read(suite_folder)
    found = comparison.compare(suite, "open", "agentic", "outcome", "ticks_to_80")
    other = dataclasses.replace(found, estimate=Estimate(*estimate, 0.1, 0.1))
    monkeypatch.setattr(comparison, "compare", lambda *arguments: other)
    assert comparison.check(suite, suite.manifest["claims"][0])[0] is holds


def test_runs_that_are_not_finished_are_left_out_and_told(suite_folder):
    summary = suite_folder / "runs" / "open" / "agentic" / "seed=2" / "summary.json"
    summary.unlink()
    suite = comparison.read(suite_folder)
    assert len(suite.results) == 9 and sorted(suite.of("open", "agentic")) == [1, 3]
    page = report.to_markdown(suite, comparison.compare_all(suite))
    assert "**Incomplete: 9 of 10 runs are finished.**" in page


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
    suite = comparison.read(suite_folder)
    assert len(suite.results) == 9 and sorted(suite.of("open", "agentic")) == [1, 3]
    assert str(path) in caplog.text


@pytest.mark.parametrize("content", ["", "[]", '{"name": "tiny"}'])
def test_a_damaged_manifest_is_named(suite_folder, content):
    path = suite_folder / "suite.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=re.escape(str(path))):
        comparison.read(suite_folder)


def test_the_page_says_what_was_found(suite_folder):
    suite = comparison.read(suite_folder)
    page = report.to_markdown(suite, comparison.compare_all(suite))
    for text in (
        "| faster | agentic against outcome, open |",
        "**holds**",
        "**fails**",
        "| agentic | 3 | 0.100 | 0.900 [0.900, 0.900] | 10 (3/3) |",
        "never (0/",
        "| outcome = agentic | 0.8 |",
    ):
        assert (text in page) == (text != "never (0/"), text
    assert "(1/2)" in page  # one of two seeds of the blind cell got there


def test_the_csv_has_one_line_per_run(suite_folder):
    suite = comparison.read(suite_folder)
    lines = comparison.to_csv(suite.results).splitlines()
    assert len(lines) == 11 and lines[0].startswith("cell,arm,seed,solve_rate_before")
    assert lines[4].startswith("open,agentic,1,0.1,0.9,10,10,40,")
    assert "blind,agentic,1,0.1,0.1,inf,inf,inf" in lines[9]


def test_a_folder_without_a_suite_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"no suite\.json"):
        comparison.read(tmp_path)
