"""Ablations: every point can be built, tuning is fair, claims are checked as stated."""

import dataclasses
import json
import math
import os
import pathlib
import re
import subprocess
import sys

import fake_runs
import numpy as np
import pytest

from experiments.config import build, fields
from experiments.configs import smoke
from experiments.configs.ablations import laboratory
from experiments.studies import (
    ablation,
    comparison,
    report,
    search,
    suites,
)
from experiments.studies.statistics import Estimate
from experiments.studies.suites import Arm, Claim, Search, Suite
from experiments.sweeps import cost, planning, scheduler
from experiments.sweeps.scheduler import State

REPOSITORY = pathlib.Path(__file__).parents[3]
ASKED_FOR = {
    "anchor",
    "baseline",
    "credit",
    "divisor",
    "group_size",
    "map",
    "phase_weights",
    "prior",
    "stages",
    "staleness",
    "tool_workflow",
}
HOURS = 8.0
CORES = 2


# The files --------------------------------------------------------------------------


def test_every_suite_that_was_asked_for_is_there():
    assert set(suites.names()) == ASKED_FOR | {"quick"}
    with pytest.raises(ValueError, match="did you mean 'divisor'"):
        suites.load("divisr")


@pytest.mark.parametrize("name", sorted(ASKED_FOR | {"quick"}))
def test_every_point_of_a_suite_can_be_built(name):
    config, suite, docstring = suites.load(name)
    for line in ("--suite=" + name, "Wall time: ", "Outcome: "):
        assert line in docstring
    points = suites.points(suite, {})
    if suite.search:
        points = points + search.first_points(suite)
    for point in points:
        json.dumps(dict(point.overrides))
        seed = {"seed": point.seeds[0]}
        build.build(fields.change(config, {**point.overrides, **seed}))
    assert len({point.name for point in points}) == len(points)


@pytest.mark.parametrize("name", sorted(ASKED_FOR))
def test_there_are_enough_seeds_and_problems(name):
    config, suite, _ = suites.load(name)
    for cell in suite.cells:
        assert len(suite.seeds_of(cell)) >= 5
    assert config.evaluation.every == 5 and config.evaluation.num_problems >= 512
    for point in suites.points(suite, {}):
        assert point.overrides["evaluation.split"] == "test"


def test_arms_share_all_but_what_they_are_about():
    config, suite, _ = suites.load("credit")
    cell = laboratory.TRUTHFUL
    shared = ("optimizer", "schedule", "rollout", "num_rows", "update_slots")
    for name in suite.arms:
        overrides = suites.overrides_of(suite, cell, name, {})
        own = build.build(fields.change(config, overrides)).program
        plain = build.build(fields.change(config, suite.cells[cell])).program
        for field in shared[2:]:
            assert getattr(own, field) == getattr(plain, field), (name, field)
        assert own.learner.entropy_weight == plain.learner.entropy_weight
        tokens = [
            float(p.learner.aggregate(np.ones((4, 3)), np.ones((4, 3), bool)).count)
            for p in (own, plain)
        ]
        assert tokens[0] == tokens[1]  # the normaliser


def test_the_headline_regimes_are_as_demanded():
    config, suite, _ = suites.load("credit")
    for cell in (laboratory.TRUTHFUL, laboratory.BLIND):
        assert len(suite.seeds_of(cell)) >= 10
    for cell, overrides in suite.cells.items():
        env = fields.change(config, overrides).env.code_execution
        assert env.verdict_latency.minimum >= 16 and env.verdict == "all_or_nothing"
        if cell == laboratory.TRUTHFUL:
            assert len({share for _, share in env.fidelity_of_family}) > 1
        else:
            assert env.visible_fidelity == 0.0
    modes = {o.get("env.code_execution.fidelity_mode") for o in suite.cells.values()}
    assert "deceptive" in modes


def test_the_search_is_as_large_as_demanded_and_apart_from_what_is_compared():
    _, suite, _ = suites.load("credit")
    found = suite.search
    assert len(found.learning_rates) >= 4 and len(found.clips) >= 2
    assert len(found.seeds) >= 3 and found.widenings >= 1
    fresh = {seed for cell in suite.cells for seed in suite.seeds_of(cell)}
    assert not fresh & set(found.seeds)
    for point in search.first_points(suite):
        assert point.overrides["evaluation.split"] == "validation"
    ratios = np.diff(np.log(found.learning_rates))
    np.testing.assert_allclose(ratios, ratios[0], rtol=0.15)


def test_the_controls_are_what_they_control_for():
    _, suite, _ = suites.load("credit")
    settings = {"outcome": {"algorithm.clip_low": 0.4}}
    cell = laboratory.TRUTHFUL
    control = suites.overrides_of(suite, cell, "calibrated, beta 0", settings)
    assert control["algorithm.clip_low"] == 0.4
    assert control["algorithm.calibrated.fixed_worth"] == 0.0
    twice = suites.overrides_of(suite, cell, "outcome, two steps", {})
    assert twice["learner.passes"] == 2
    assert suite.tuned_arms() == [*laboratory.RULES, "returns", "turn_mix"]


def test_everything_fits_into_a_night_on_two_cores():
    total, keys = 0.0, {}
    for name in ASKED_FOR:
        config, suite, _ = suites.load(name)
        points = suites.points(suite, {})
        if suite.search:
            points = points + search.first_points(suite)
        for point in points:
            own = fields.change(config, {**point.overrides, "seed": point.seeds[0]})
            experiment = build.build(own)
            total += cost.of_run(experiment, own) * len(point.seeds)
            total += cost.COMPILE_SECONDS
            warm = cost.of_warm_start(experiment, own)
            env = json.dumps([own.env.to_json(), own.agent.to_json()])
            keys |= {(env, seed): warm for seed in point.seeds}
    total += sum(keys.values())
    assert total / 3600 / CORES < HOURS


def test_the_quick_suite_takes_a_quarter_of_an_hour(tmp_path):
    config, suite, docstring = suites.load("quick")
    jobs = planning.make_jobs(config, suites.points(suite, {}), tmp_path)
    assert set(suite.cells) == set(laboratory.HEADLINE)
    assert sum(job.seconds for job in jobs) / CORES < 15 * 60
    assert "signs without significance" in docstring


# Suites -----------------------------------------------------------------------------

TINY = Suite(
    cells={"open": {}, "blind": {"env.code_execution.visible_fidelity": 0.0}},
    arms={
        "outcome": Arm(overrides={"algorithm.credit": "outcome"}),
        "agentic": Arm(overrides={"algorithm.credit": "agentic"}),
    },
    reference="outcome",
    seeds={"open": (10, 11), "blind": (10,)},
    search=Search(
        cells=("open",),
        learning_rates=(1e-4, 1e-3),
        clips=(0.1, 0.2, 0.4),
        clip=lambda value: {
            "algorithm.clip_low": value,
            "algorithm.correction_clip_low": value,
        },
        seeds=(0, 1),
    ),
)


def test_an_arm_overrides_its_setting_which_overrides_the_cell():
    suite = dataclasses.replace(
        TINY, cells={"open": {"seed": 1, "num_ticks": 2}}, seeds=(10,)
    )
    settings = {"agentic": {"num_ticks": 4, "algorithm.credit": "returns"}}
    found = suites.overrides_of(suite, "open", "agentic", settings)
    assert found == {"seed": 1, "num_ticks": 4, "algorithm.credit": "agentic"}


@pytest.mark.parametrize(
    "changes",
    [
        {"reference": "outcom"},
        {"identical": (("outcome", "nobody"),)},
        {"claims": (Claim(text="", metric="", cell="x", candidate="", reference=""),)},
    ],
)
def test_a_suite_that_names_nobody_is_refused(changes):
    with pytest.raises(ValueError, match="must be"):
        dataclasses.replace(TINY, **changes)


# The search -------------------------------------------------------------------------


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
    # Further rates are tried with the best clip alone.
    assert {t.clip for t in trials if t.learning_rate == 1e-1} == {0.2}


def test_a_best_clip_at_the_end_widens_the_clips_at_its_rate(tmp_path):
    def score(arm, rate, clip):
        return 0.9 - distance(rate, 1e-3) - distance(clip, 0.8)

    suite = dataclasses.replace(
        TINY,
        search=dataclasses.replace(TINY.search, learning_rates=(1e-4, 1e-3, 1e-2)),
    )
    settings, trials, _ = tune(tmp_path, score, suite)
    assert settings["agentic"]["algorithm.clip_low"] == 0.8
    wide = {(t.learning_rate, t.clip) for t in trials if t.clip > 0.4}
    assert wide == {(1e-3, 0.8), (1e-3, 1.6)}
    assert search.describe(trials)["agentic"]["inside"]


def test_a_grid_is_not_widened_for_ever_and_says_so(tmp_path):
    def score(arm, rate, clip):
        return 0.9 - distance(rate, 1e-9) - distance(clip, 0.2)

    _, trials, _ = tune(tmp_path, score)
    found = search.describe(trials)["outcome"]
    assert not found["inside"]
    assert found["settings_tried"] == 2 * 3 + TINY.search.widenings


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


# Comparisons ------------------------------------------------------------------------


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
        "episodes_to_80": 40,
        "gradient_tokens_to_80": 500,
    }


SLOW = [0.1, 0.1, 0.1, 0.1, 0.9, 0.9, 0.9]  # 80% at tick 20
FAST = [0.1, 0.1, 0.9, 0.9, 0.9, 0.9, 0.9]  # at tick 10
NEVER = [0.1] * 7


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
    assert lines[4].startswith("open,agentic,1,0.1,0.9,10,40,")
    assert "blind,agentic,1,0.1,0.1,inf,inf,inf" in lines[9]


def test_a_folder_without_a_suite_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"no suite\.json"):
        comparison.read(tmp_path)


# ablate -----------------------------------------------------------------------------


@pytest.fixture
def laboratory_of_fakes(tmp_path, monkeypatch):
    """ablate on the tiny suite; runs finish at once, agentic ones sooner."""
    config = smoke.get_config()
    monkeypatch.setattr(suites, "load", lambda name: (config, TINY, "Claim: tiny."))
    started = []

    def execute(jobs, folder, **options):
        ended = []
        for job in jobs:
            for run in () if job.is_finished else job.runs:
                started.append(run.folder)
                rates = FAST if run.config.algorithm.credit == "agentic" else SLOW
                fake_runs.write(run.folder, rates, config=run.config)
            ended.append(scheduler.Progress(job, State.DONE))
        return ended

    monkeypatch.setattr(planning, "execute", execute)
    return started


def options(tmp_path, **changes):
    return ablation.Options(root=tmp_path, results=tmp_path / "results", **changes)


def test_ablate_tunes_freezes_and_compares(laboratory_of_fakes, tmp_path):
    assert ablation.ablate("tiny", options(tmp_path))
    made = list(laboratory_of_fakes)
    tuned = [folder for folder in made if "search" in folder.parts]
    # All settings are alike, so the first is best and both axes are widened downwards.
    assert len(tuned) == 2 * 2 * (2 * 3 + 2)
    assert len(made) - len(tuned) == 2 * (2 + 1)
    settings = json.loads((tmp_path / "tiny" / "settings.json").read_text())
    assert set(settings["settings"]) == {"outcome", "agentic"}
    suite = comparison.read(tmp_path / "tiny")
    assert len(suite.results) == 6
    assert suite.manifest["provenance"][0]["jax"]
    assert suite.manifest["search"]["agentic"]["inside"] is True
    configs = json.loads((tmp_path / "tiny" / "configs.json").read_text())
    assert configs["arms"]["agentic"]["overrides"] == {"algorithm.credit": "agentic"}
    own = suite.results[0]
    run = json.loads(
        (tmp_path / suite.manifest["runs"][0]["folder"] / "config.json").read_text()
    )
    assert run["evaluation"]["split"] == "test" and run["seed"] == own.seed == 10
    assert (
        run["learner"]["learning_rate"]
        == (settings["settings"]["outcome"]["learner.learning_rate"])
    )


def test_ablate_again_makes_nothing_again(laboratory_of_fakes, tmp_path, monkeypatch):
    ablation.ablate("tiny", options(tmp_path))
    count = len(laboratory_of_fakes)
    own = ablation.Ablation("tiny", options(tmp_path))
    settings, chosen = own.settings()
    assert len(laboratory_of_fakes) == count  # the search is frozen
    other = ablation.Ablation(
        "other", options(tmp_path)
    )  # the same config in another suite
    jobs = other.jobs(settings)
    assert other.run(jobs) == []
    other.write_manifest(settings, chosen, jobs)
    assert len(laboratory_of_fakes) == count
    assert len(comparison.read(tmp_path / "other").results) == 6


def test_what_is_damaged_is_found_again(laboratory_of_fakes, tmp_path, caplog):
    ablation.ablate("tiny", options(tmp_path))
    made, folder = len(laboratory_of_fakes), tmp_path / "tiny"
    before = (folder / "settings.json").read_bytes()
    for name in ("settings.json", "suite.json"):
        (folder / name).write_text("")
    assert ablation.ablate("tiny", options(tmp_path))
    assert (folder / "settings.json").read_bytes() == before
    assert len(comparison.read(folder).results) == 6
    assert len(laboratory_of_fakes) == made  # from the runs that are there
    for name in ("settings.json", "suite.json"):
        assert str(folder / name) in caplog.text


def test_a_damaged_twin_is_no_twin(laboratory_of_fakes, tmp_path, caplog):
    ablation.ablate("tiny", options(tmp_path))
    made = len(laboratory_of_fakes)
    summary, other = sorted((tmp_path / "tiny" / "runs").rglob("seed=*"))[:2]
    (summary / "summary.json").write_text("")
    (other / "config.json").write_text("{")
    settings, _ = ablation.Ablation("tiny", options(tmp_path)).settings()
    again = ablation.Ablation("other", options(tmp_path))
    again.run(again.jobs(settings))
    assert len(laboratory_of_fakes) == made + 2  # these two are made anew
    assert str(summary) in caplog.text and str(other) in caplog.text


def test_a_suite_waits_for_the_one_that_tunes_its_arms(
    laboratory_of_fakes, tmp_path, monkeypatch
):
    suite = dataclasses.replace(TINY, search=None, settings_of="credit")
    monkeypatch.setattr(
        suites, "load", lambda name: (smoke.get_config(), suite, "Claim.")
    )
    with pytest.raises(ValueError, match="after --suite=credit"):
        ablation.Ablation("later", options(tmp_path)).settings()
    later = ablation.Ablation("later", options(tmp_path, untuned=True))
    assert later.settings() == ({}, {})
    committed = tmp_path / "results" / "credit" / "settings.json"
    committed.parent.mkdir(parents=True)
    committed.write_text(json.dumps({"settings": {"outcome": {"seed": 5}}}))
    assert later.settings()[0] == {"outcome": {"seed": 5}}


def command(*arguments):
    return subprocess.run(
        arguments, cwd=REPOSITORY, capture_output=True, text=True, check=False
    )


def test_a_dry_run_says_what_it_would_cost(tmp_path):
    done = command(
        sys.executable,
        "-m",
        "experiments.ablate",
        "--suite=credit",
        "--dry_run",
        f"--workdir={tmp_path}",
    )
    assert done.returncode == 0, done.stderr
    found, compared = done.stdout.splitlines()
    assert "search" in found and "144 runs x " in found
    assert "compared" in compared and "170 runs x " in compared
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--help"], 0, "signs without significance"),
        (["--quik"], 2, "--quik is no option"),
        (["--quick", "credit"], 2, "--quick is a suite of its own"),
        (["nothing", "--dry-run"], 1, "suite='nothing' must be one of"),
        (["--quick", "--dry-run"], 0, "16 runs x "),
    ],
)
def test_the_script_says_what_it_does_and_what_it_does_not(arguments, status, words):
    script = REPOSITORY / "scripts" / "reproduce_ablations.sh"
    environment = {**os.environ, "AGENTIC_GRPO_PYTHON": sys.executable}
    done = subprocess.run(
        [str(script), *arguments],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert words in done.stdout + done.stderr
