"""Runs side by side: only what differs, whatever state they are in."""

import json
import re

import pytest
import rich.console

from agentic_grpo.training import json_files, metrics, run_folder
from experiments.runs import workdir
from scripts import compare_runs
from scripts.viewing import charts, comparing, runs


@pytest.fixture
def write_run(tmp_path, small_config):
    """A function that puts a run on disk without having run it."""

    def write(name, values=(), *, finished=False, **changes):
        folder = tmp_path / name
        run_folder.claim(folder, workdir.settings_of(small_config(**changes)))
        with metrics.MetricsWriter(folder) as writer:
            for tick, value in enumerate(values, start=1):
                line = {"eval/solve_rate": value, "stage_reward/plan": value / 2}
                writer.write(tick, line)
        if finished:
            summary = {"solve_rate_before": 0.05, "solve_rate_after": 0.95, "ticks": 8}
            json_files.write_json(folder / "summary.json", summary)
        return folder

    return write


@pytest.fixture
def two(write_run):
    one = {"algorithm.credit": "agentic", "learner.learning_rate": 3e-4}
    two = {"algorithm.credit": "outcome", "learner.learning_rate": 1e-3, "seed": 3}
    return [
        write_run("one", [0.1, 0.5, 0.9], finished=True, **one),
        write_run("two", [0.1, 0.2], **two),
    ]


def test_only_what_differs_is_shown(two):
    assert runs.differing(runs.read(two)) == {
        "algorithm.credit": ["agentic", "outcome"],
        "learner.learning_rate": [3e-4, 1e-3],
        "seed": [0, 3],
    }


def test_a_field_that_one_run_does_not_have_differs(two):
    config = json.loads((two[0] / "config.json").read_text())
    del config["seed"]
    (two[0] / "config.json").write_text(json.dumps(config))
    assert runs.differing(runs.read(two))["seed"] == [None, 3]


def test_names_are_the_shortest_ends_that_differ(write_run):
    folders = [
        write_run(f"{group}/seed0", seed=index)
        for index, group in enumerate(("a", "b"))
    ]
    assert [run.name for run in runs.read(folders)] == ["a/seed0", "b/seed0"]
    assert [run.name for run in runs.read([folders[0]])] == ["seed0"]
    assert [run.name for run in runs.read([folders[0]] * 2)] == ["seed0", "seed0"]


def test_the_state_of_a_run_is_said(two, write_run):
    begun = write_run("begun")
    finished, unfinished, new = runs.read([*two, begun])
    assert finished.progress == "finished, 8 ticks"
    assert unfinished.progress == "not finished, tick 2 of 8"
    assert new.progress == "not finished, tick 0 of 8"


def test_long_curves_are_averaged_down(write_run):
    long = write_run("long", [0.0, 1.0] * 200)
    points = runs.curve(runs.read([long])[0], "eval/solve_rate")
    assert len(points) == runs.MAX_POINTS
    assert min(v for _, v in points) >= 1 / 3  # of two or three in turn, never one
    assert points[0][0] >= 1.0 and points[-1][0] <= 400.0


def test_curves_come_in_the_order_of_their_importance(two):
    assert runs.curve_names(runs.read(two)) == ["eval/solve_rate", "stage_reward/plan"]


def test_the_terminal_and_the_page_tell_the_same(two, tmp_path, capsys):
    path = tmp_path / "pages" / "comparison.html"
    compare_runs.main([*map(str, two), f"--html={path}", "--width=120"])
    printed, text = capsys.readouterr().out, path.read_text(encoding="utf-8")
    for words in (
        "learner.learning_rate",
        "0.0003",
        "not finished, tick 2 of 8",
        "0.950",
    ):
        assert words in printed and words in text
    assert "▁" in printed and "<polyline" in text
    assert "http" not in text and "<script" not in text


def test_texts_of_others_stay_text(capsys):
    # rich ate [draft] and raised on [/b]; a terminal obeys what follows an escape
    wild = "<script>[draft][/b]\x1b[2J"
    told = [
        runs.Run(
            name=f"{name}{wild}",
            config={f"field{wild}": name + wild, "num_ticks": wild},
            lines=[{"tick": 1, f"stage_reward/{wild}": 0.5}],
            summary={"ticks": wild, "seed": wild},
        )
        for name in ("one", "two")
    ]
    comparing.show(told, rich.console.Console(width=300))
    printed, text = capsys.readouterr().out, comparing.render(told)
    spelled = wild.replace("\x1b", "\\x1b")
    assert printed.count(spelled) > 10 and "\x1b" not in printed
    assert "<script" not in text and "&lt;script&gt;[draft]" in text


def test_equal_configs_are_said_to_be_equal(two, capsys):
    compare_runs.main([str(two[0]), str(two[0]), "--width=100"])
    assert "the same in every field" in capsys.readouterr().out
    assert "the same in every field" in comparing.render(runs.read([two[0]] * 2))


def test_a_folder_without_a_run_is_an_error_by_name(two, tmp_path):
    with pytest.raises(SystemExit, match=r"compare_runs: .*nowhere.*no run is there"):
        compare_runs.main([str(two[0]), str(tmp_path / "nowhere")])


def test_the_folder_of_a_sweep_stands_for_its_runs(two, tmp_path, capsys):
    (tmp_path / "base_models").mkdir()
    compare_runs.main([str(tmp_path), "--width=100"])
    told = capsys.readouterr().out
    assert "agentic" in told and "outcome" in told and "finished, 8 ticks" in told


def test_a_damaged_summary_is_told_and_its_run_is_unfinished(two, capsys):
    (two[0] / "summary.json").write_text("{")
    compare_runs.main([str(two[0]), "--width=100"])
    told = capsys.readouterr()
    assert "summary.json cannot be read" in told.err
    assert "not finished, tick 3 of 8" in told.out


def test_blocks_follow_the_curve():
    assert charts.sparkline([(0, 0.0), (1, 0.5), (2, 1.0)], 8) == "▁▅█"
    assert charts.sparkline([(t, t / 7) for t in range(8)], 4) == "▁▃▅▇"
    assert charts.sparkline([(0, -1.0), (1, 9.0)], 8) == "▁█"  # never outside
    assert charts.sparkline([], 8) == ""


def test_labels_of_curves_that_end_together_are_moved_apart():
    curves = [[(0, 0.0), (9, 0.50)], [(0, 0.0), (9, 0.51)], []]
    text = charts.svg("a < b", curves)
    assert "a &lt; b" in text and text.count("<polyline") == 2
    heights = [float(y) for y in re.findall(r'y="([\d.]+)" style="fill:#', text)]
    assert len(heights) == 2 and abs(heights[0] - heights[1]) >= 12.0
