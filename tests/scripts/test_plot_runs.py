"""The pictures' numbers: means, bands, ticks; and what is said when there are none."""

import csv
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import fake_runs
import numpy as np
import pytest

from agentic_grpo.training import metrics
from experiments.config import fields
from experiments.configs import smoke
from experiments.studies.suites import Claim

pytest.importorskip("matplotlib", reason="an extra: plots")

from scripts import plot_runs
from scripts.figures import learning_curves, style, suites

ROOT = Path(__file__).parents[2]
PNG = b"\x89PNG"


def write_run(folder, values, *, every=10):
    with metrics.MetricsWriter(folder) as writer:
        for index, value in enumerate(values, start=1):
            writer.write(
                index * every,
                {
                    "verdict": value,
                    "stage_reward/code": value / 2,
                    "eval/solve_rate": value,
                    "eval/solve_rate/loops": value,
                    "eval/greedy_solve_rate": value,
                },
            )
    return folder


def test_three_seeds_have_the_t_interval_of_the_mean():
    mean, low, high = learning_curves.mean_and_band(np.array([[0.2], [0.4], [0.6]]))
    # s = 0.2, t(0.975, 2) = 4.3027, half width 4.3027 * 0.2 / sqrt(3) = 0.49683;
    # the normal quantile would give 0.2263
    np.testing.assert_allclose(
        [mean[0], low[0], high[0]], [0.4, -0.09683, 0.89683], atol=1e-4
    )


def test_two_seeds_have_their_range_and_one_has_no_band():
    mean, low, high = learning_curves.mean_and_band(np.array([[0.2], [0.6]]))
    np.testing.assert_allclose([mean[0], low[0], high[0]], [0.4, 0.2, 0.6])
    mean, low, high = learning_curves.mean_and_band(np.array([[0.2]]))
    assert mean == low == high == 0.2


def test_a_running_mean_does_not_sink_at_the_ends():
    np.testing.assert_allclose(learning_curves.running_mean(np.ones(5), 3), np.ones(5))
    np.testing.assert_allclose(
        learning_curves.running_mean(np.array([0.0, 3.0, 6.0]), 3), [1.5, 3.0, 4.5]
    )


def test_seeds_are_compared_on_the_ticks_they_share(tmp_path, capsys):
    long = write_run(tmp_path / "long", [0.0, 0.5, 1.0])
    short = write_run(tmp_path / "short", [0.2, 0.7])
    (arm,) = learning_curves.read_arms(f"both={long},{short}")
    curve = learning_curves.curve(arm, "eval/solve_rate")
    assert arm.label == "both" and "[20, 30]" in capsys.readouterr().out
    np.testing.assert_array_equal(curve.ticks, [10, 20])
    np.testing.assert_allclose(curve.mean, [0.1, 0.6])
    assert learning_curves.curve(arm, "no such metric") is None


def test_a_folder_may_have_an_equals_sign_in_its_name(tmp_path):
    folder = write_run(tmp_path / "lr=3e-4", [0.5])
    assert learning_curves.read_arms(str(folder))[0].label == "lr=3e-4"
    assert learning_curves.read_arms(f"arm={folder}")[0].label == "arm"


def test_labels_are_moved_apart_and_stay_within():
    moved = style.move_apart([0.5, 0.5, 0.99, 1.0], gap=0.1, top=1.0)
    np.testing.assert_allclose(moved, [0.5, 0.6, 0.9, 1.0])


@pytest.mark.parametrize("arms", [1, 2])
def test_a_picture_is_drawn(tmp_path, arms):
    runs = [write_run(tmp_path / f"run{i}", [0.1, 0.5, 0.9]) for i in range(3)]
    arguments = [f"a={runs[0]},{runs[1]},{runs[2]}", f"b={runs[0]}"][:arms]
    output = tmp_path / "pictures" / "curve.png"
    plot_runs.main([*arguments, f"--output={output}"])
    assert output.read_bytes().startswith(PNG)


def test_what_cannot_be_drawn_is_said_by_name(tmp_path):
    with pytest.raises(SystemExit, match="nowhere: no run is there"):
        plot_runs.main([str(tmp_path / "nowhere")])
    with metrics.MetricsWriter(tmp_path / "young") as writer:
        writer.write(1, {"verdict": 0.5})
    with pytest.raises(SystemExit, match="no evaluation in these runs yet"):
        plot_runs.main([str(tmp_path / "young")])


def test_a_folder_of_seeds_is_an_arm(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path / "credit=agentic" / f"seed={seed}", [0.1, 0.5])
    (arm,) = learning_curves.read_arms(str(tmp_path / "credit=agentic"))
    assert arm.label == "credit=agentic" and len(arm.runs) == 2
    (arm,) = learning_curves.read_arms(f"a={tmp_path}/credit=agentic")
    assert arm.label == "a" and len(arm.runs) == 2


@pytest.fixture
def sweep(tmp_path):
    """Two points of two seeds; what is no run lies beside them."""
    for rate in (1e-4, 3e-4):
        for seed in (0, 1):
            changes = {"learner.learning_rate": rate, "seed": seed}
            config = fields.change(smoke.get_config(), changes)
            folder = tmp_path / "sweep" / f"learning_rate={rate}" / f"seed={seed}"
            fake_runs.write(folder, [0.1, 0.5], config=config)
    (tmp_path / "sweep" / "base_models").mkdir()
    return tmp_path / "sweep"


def test_the_points_of_a_sweep_are_arms_and_never_averaged(sweep):
    arms = learning_curves.read_arms(str(sweep))
    assert [arm.label for arm in arms] == [
        "learning_rate=0.0001",
        "learning_rate=0.0003",
    ]
    assert [len(arm.runs) for arm in arms] == [2, 2]
    with pytest.raises(
        ValueError, match=r"all: .*no seeds of one setting: learner\.lea"
    ):
        learning_curves.read_arms(f"all={sweep}")


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl"])
def test_a_run_whose_files_are_damaged_is_told_and_left_out(sweep, name, capsys):
    damaged = sweep / "learning_rate=0.0001" / "seed=1" / name
    damaged.write_text("[" if name == "config.json" else "[\n[\n")
    first, second = learning_curves.read_arms(str(sweep))
    assert len(first.runs) == 1 and len(second.runs) == 2
    assert str(damaged.parent) in capsys.readouterr().err


def test_more_arms_than_colours_differ_by_their_line():
    looks = [tuple(style.look_of(index).values()) for index in range(16)]
    assert len(set(looks)) == 16


RISING = [0.1, 0.5, 0.9, 0.9, 0.9]


@pytest.fixture
def suite(tmp_path):
    cells = [f"fidelity {f}, latency {t}" for t in (4, 24) for f in (0.0, 1.0)]
    runs = {
        (cell, arm): {seed: [0.1] * 5 if arm == "lost" else RISING for seed in (1, 2)}
        for cell in cells
        for arm in ("outcome", "agentic", "lost")
    }
    grid = {"rows": ["latency", [4, 24]], "columns": ["fidelity", [0.0, 1.0]]}
    return fake_runs.write_suite(tmp_path, "tiny", runs, **grid)


def test_a_suite_becomes_a_page_a_table_and_pictures(suite, tmp_path):
    (suite / "settings.json").write_text("{}")
    output = tmp_path / "results" / "tiny"
    plot_runs.main([f"--suite={suite}", f"--output={output}"])
    page = (output / "table.md").read_text()
    assert page.startswith("# tiny") and "![map](map.png)" in page
    with (output / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 24 and rows[0]["ticks_to_80"] == "10"
    pictures = sorted(path.name for path in output.glob("*.png"))
    assert len(pictures) == 4 + 3
    assert {"curves.png", "effects.png", "map.png"} <= set(pictures)
    assert all((output / name).read_bytes().startswith(PNG) for name in pictures)
    assert (output / "settings.json").exists()


def test_cells_have_their_place_in_the_map(suite):
    manifest = plot_runs.results.read(suite).manifest
    assert suites._place_in_grid(manifest, "fidelity 1.0, latency 4") == (0, 1)
    with pytest.raises(ValueError, match="must be one of the grid"):
        suites._place_in_grid(manifest, "fidelity 2.0, latency 4")


def test_arms_that_never_arrive_are_drawn_as_such(suite):
    found = plot_runs.results.read(suite)
    comparisons = plot_runs.comparison.compare_all(found)
    lost = [c for c in comparisons if c.arm == "lost" and c.metric == "ticks_to_80"]
    # Ticks 10 against the end of the run, 20, at which its time is restricted.
    assert [c.estimate.value for c in lost] == [pytest.approx(2.0)] * 4
    figure = suites.draw_map(found, comparisons)
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert sum("0 and 2 of 2" in text for text in texts) == 4
    style.plt.close(figure)
    figure = suites.draw_effects(found, comparisons)
    open_marks = [
        line for line in figure.axes[0].lines if line.get_markerfacecolor() == "none"
    ]
    assert len(open_marks) == 4
    style.plt.close(figure)


@pytest.mark.parametrize(("chance", "stars"), [(0.01, True), (0.2, False)])
def test_the_map_stars_what_survives_holm(suite, chance, stars):
    found = plot_runs.results.read(suite)
    comparisons = [
        dataclasses.replace(comparison, holm=chance)
        for comparison in plot_runs.comparison.compare_all(found)
        if comparison.metric == "solve_rate"
    ]
    figure = suites.draw_map(found, comparisons)
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert len(texts) == 8 and all(("*" in text) is stars for text in texts)
    style.plt.close(figure)


@pytest.mark.parametrize(("limit", "words"), [(0.0, "holds: "), (-0.1, "FAILS: ")])
def test_claims_can_be_required(suite, tmp_path, limit, words, capsys):
    path = suite / "suite.json"
    manifest = json.loads(path.read_text())
    claim = Claim(
        text="no better",
        metric="solve_rate",
        cell=manifest["cells"][0],
        candidate="agentic",
        reference="outcome",
        at_most=limit,  # they are alike: 0
    )
    manifest["claims"] = [dataclasses.asdict(claim)]
    path.write_text(json.dumps(manifest))
    arguments = [f"--suite={suite}", f"--output={tmp_path / 'out'}"]
    plot_runs.main(arguments)  # a claim that fails is a result
    try:
        plot_runs.main([*arguments, "--require_claims"])
        assert limit == 0.0
    except SystemExit as error:
        assert limit < 0.0 and "not as claimed: no better" in str(error)
    assert words + "no better: 0.000" in capsys.readouterr().out


def test_a_suite_without_runs_is_said_by_name(suite, tmp_path):
    for summary in suite.rglob("summary.json"):
        summary.unlink()
    with pytest.raises(SystemExit, match="tiny: no run is finished yet"):
        plot_runs.main([f"--suite={suite}", f"--output={tmp_path / 'out'}"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give folders of runs, or --suite"),
        (["runs/a", "--suite=runs/b"], "give folders of runs, or --suite"),
        (["--suite=runs/b"], "--suite needs a folder"),
        (["runs/a", "--require_claims"], "--require_claims is of a suite"),
        (["runs/a", "--smoothing=2"], "must be in"),
    ],
)
def test_wrong_arguments_are_refused(arguments, words, capsys):
    with pytest.raises(SystemExit):
        plot_runs.main(arguments)
    assert words in capsys.readouterr().err


def test_it_runs_as_a_script_from_anywhere(tmp_path):
    run = write_run(tmp_path / "run", [0.1, 0.5])
    script = ROOT / "scripts" / "plot_runs.py"
    done = subprocess.run(
        [sys.executable, str(script), str(run)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "learning_curve.png").exists()
