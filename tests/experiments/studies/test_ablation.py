"""An ablation from its file to its folder, with runs that are made up."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import fake_runs
import pytest
from tiny_suite import FAST, SLOW, TINY

from experiments.config import optimizer
from experiments.configs import smoke
from experiments.studies import (
    ablation,
    results,
    search,
    suites,
)
from experiments.sweeps import planning, scheduler
from experiments.sweeps.scheduler import State

REPOSITORY = pathlib.Path(__file__).parents[3]


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
    # All settings are alike, so the first is best, and five of its neighbours are new.
    assert len(tuned) == 2 * 2 * (2 * 3 + 5)
    assert len(made) - len(tuned) == 2 * (2 + 1)
    settings = json.loads((tmp_path / "tiny" / "settings.json").read_text())
    assert set(settings["settings"]) == {"outcome", "agentic"}
    suite = results.read(tmp_path / "tiny")
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
    assert len(results.read(tmp_path / "other").results) == 6


def test_what_is_damaged_is_found_again(laboratory_of_fakes, tmp_path, caplog):
    ablation.ablate("tiny", options(tmp_path))
    made, folder = len(laboratory_of_fakes), tmp_path / "tiny"
    before = (folder / "settings.json").read_bytes()
    for name in ("settings.json", "suite.json"):
        (folder / name).write_text("")
    assert ablation.ablate("tiny", options(tmp_path))
    assert (folder / "settings.json").read_bytes() == before
    assert len(results.read(folder).results) == 6
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


def test_tuned_rates_move_with_the_model_and_nothing_else_does(tmp_path, monkeypatch):
    suite = dataclasses.replace(
        TINY, search=None, settings_of="credit", rate_factor=0.5
    )
    monkeypatch.setattr(
        suites, "load", lambda name: (smoke.get_config(), suite, "Claim.")
    )
    committed = tmp_path / "results" / "credit" / "settings.json"
    committed.parent.mkdir(parents=True)
    tuned = {"learner.learning_rate": 6e-4, "algorithm.clip": 0.8}
    committed.write_text(json.dumps({"settings": {"outcome": tuned}}))
    settings, _ = ablation.Ablation("later", options(tmp_path)).settings()
    assert settings == {
        "outcome": {"learner.learning_rate": 3e-4, "algorithm.clip": 0.8}
    }


def test_a_larger_model_is_trained_at_the_rate_of_the_default_rule():
    factors = {}
    for name in ("credit", "larger"):
        config, suite, _ = suites.load(name)
        rate = optimizer.peak_rate(config.learner, config.model)
        factors[name] = rate / suite.rate_factor
    assert factors["larger"] == pytest.approx(factors["credit"])


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
    suite = suites.load("credit")[1]
    runs = sum(len(point.seeds) for point in search.first_points(suite))
    assert "search" in found and f"{runs} runs x " in found
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
