"""The benchmark's report and what it rests on. Nothing here is about speed."""

import json
import sys

import numpy as np
import pytest

from scripts import benchmark, benchmark_peers
from scripts.benchmarks import (
    measuring,
    plain_machine,
    reporting,
    scaling,
    virtual_environments,
    workloads,
)
from scripts.fuzzing import random_programs, reference_machine

FIELDS = {
    "suite",
    "name",
    "value",
    "unit",
    "spread",
    "reference",
    "reference_value",
    "ratio",
}


@pytest.fixture
def no_cache(monkeypatch):
    monkeypatch.setattr(benchmark.compile_cache, "enable", lambda: None)


def check(path, suite):
    report = json.loads(path.read_text())
    assert set(report) == {"machine", "versions", "results"}
    assert report["versions"]["jax"] and "load_before" in report["machine"]
    assert report["results"]
    for row in report["results"]:
        assert set(row) >= FIELDS and row["suite"] == suite
        assert np.isfinite(row["value"]) and row["value"] >= 0
        assert (row["ratio"] is None) == (row["reference_value"] is None)
    page = path.with_suffix(".md").read_text()
    assert all(row["name"] in page for row in report["results"])
    return {row["name"]: row for row in report["results"]}


def run(suite, tmp_path, *flags):
    path = tmp_path / "b.json"
    benchmark.main([f"--suite={suite}", "--tiny", f"--json={path}", *flags])
    return check(path, suite)


def test_the_report_of_a_suite(tmp_path, no_cache):
    rows = run("rollout", tmp_path)
    assert rows["decoding, V=32"]["unit"] == "tokens/s"


@pytest.mark.slow
def test_the_learner_compares_both_forms_of_layers(tmp_path, no_cache):
    rows = run("learner", tmp_path)
    assert rows["layers unrolled, V=32, time"]["ratio"] == 1.0
    assert rows["layers scanned, V=32, temporary memory"]["value"] > 0


@pytest.mark.slow
def test_the_environment_names_its_share_of_a_tick(tmp_path, no_cache):
    # An empty folder: Numba is left out and not installed.
    rows = run("environment", tmp_path, f"--environments={tmp_path}")
    assert rows["environment_share_of_tick"]["unit"] == "percent"


@pytest.mark.slow
def test_scaling_has_exponents_a_figure_and_one_compilation(tmp_path, no_cache):
    rows = run("scaling", tmp_path)
    assert "exponent of time, lanes 2 .. 4" in rows
    assert rows["compilations of a tick, texts of any length"]["value"] == 1
    assert (tmp_path / "b.scaling.png").stat().st_size > 0


@pytest.mark.slow
def test_the_shares_of_a_tick_add_up(tmp_path, no_cache):
    rows = run("end_to_end", tmp_path)
    for name in ("small job", "default model"):
        shares = [
            row["value"]
            for key, row in rows.items()
            if key.startswith(f"{name}, share of")
        ]
        assert len(shares) == 7 and sum(shares) == pytest.approx(100, abs=0.5)
        assert rows[f"{name}, share of generation"]["value"] > 0
    for kind in ("decoder", "head"):
        assert rows[f"default model, ticks with a critic, {kind}"]["ratio"] > 0


@pytest.mark.parametrize(("lower", "ratio"), [(False, 0.5), (True, 2.0)])
def test_a_ratio_says_how_many_times_better(lower, ratio):
    # 2 against 4: half as good where more is better, twice where less is.
    row = measuring.result(
        "s", "n", 2.0, "u", reference="r", reference_value=4.0, lower_is_better=lower
    )
    assert row["ratio"] == ratio
    assert measuring.result("s", "n", 2.0, "u")["ratio"] is None


def test_medians_and_quartiles_by_hand():
    timing = measuring.summarise([5.0, 1.0, 2.0, 4.0, 3.0])
    assert timing == (3.0, 2.0, 4.0)
    assert timing.rate(6) == (2.0, pytest.approx(2 / 3))
    assert measuring.summarise([7.0]) == (7.0, 7.0, 7.0)


def test_exponents_by_hand():
    assert scaling.exponent([1, 2, 4], [3, 12, 48]) == pytest.approx(2.0)


def test_the_plain_machine_is_the_same_machine():
    # Else the environment suite would compare two different things.
    programs, inputs, fuel = random_programs.jobs(0, 500, 16)
    for program, (n, m), allowed in zip(
        programs.tolist(), inputs.tolist(), fuel.tolist(), strict=True
    ):
        got = plain_machine.run(program, n, m, allowed)
        assert got == reference_machine.run(program, n, m, allowed)


@pytest.mark.slow
def test_peers_take_turns_and_a_broken_one_is_named(tmp_path, monkeypatch, capsys):
    broken = {"trl": tmp_path / "python"}
    broken["trl"].write_text(f"#!{sys.executable}\nraise SystemExit('no such thing')\n")
    broken["trl"].chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rows = benchmark_peers.hold(
        "decoding",
        benchmark_peers.Contest(
            work="decoding",
            vocabulary=32,
            entrants=("agentic_grpo", "transformers", "Tunix"),
        ),
        workloads.TINY,
        rounds=2,
        pythons=broken,
    )
    said = capsys.readouterr().out
    assert "transformers failed:\nno such thing" in said
    assert "Tunix is not installed" in said
    path = tmp_path / "peers.json"
    reporting.write(
        path, reporting.report(reporting.describe_machine(), rows), title="Peers"
    )
    check(path, "peers")


def test_an_unknown_contest_is_refused(capsys):
    with pytest.raises(SystemExit):
        benchmark_peers.parse_arguments(["--json=x", "--contests=chess"])
    assert "'chess' is none of learner" in capsys.readouterr().err


def test_an_environment_counts_only_when_complete_and_current(tmp_path):
    home = tmp_path / "numba"
    home.mkdir()
    assert virtual_environments.python_of("numba", tmp_path) is None
    (home / "complete").write_text("numba==0.1\n")  # of another version
    assert virtual_environments.python_of("numba", tmp_path) is None
    wanted = "\n".join(virtual_environments.PACKAGES["numba"]) + "\n"
    (home / "complete").write_text(wanted)
    python = virtual_environments.python_of("numba", tmp_path)
    assert python == home / "bin" / "python"


@pytest.mark.slow
def test_the_real_clock_is_measured_against_waiting(tmp_path, no_cache):
    rows = run("real_clock", tmp_path)
    assert set(rows) == {"judged episodes", "share of the time blocked"}
    assert all(row["reference_value"] is not None for row in rows.values())
