"""The whole program at smoke size: files, resume, and what a person gets wrong."""

import json
import pathlib
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest

from agentic_grpo.training import metrics, running
from agentic_grpo.training.checkpoints import CheckpointError, Checkpoints
from experiments import train
from experiments.configs import smoke

REPOSITORY = pathlib.Path(__file__).parents[2]


def config(**changes):
    built = smoke.get_config().lock()
    built.update_from_flattened_dict(changes)
    return built


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "smoke"
    return folder, train.run(config(), folder)


def test_a_run_leaves_its_config_metrics_checkpoints_and_summary(finished):
    folder, summary = finished
    assert json.loads((folder / "config.json").read_text())["num_ticks"] == 8
    lines = metrics.read(folder)
    assert [line["tick"] for line in lines] == [0, 2, 4, 6, 8]
    evaluated = [line["tick"] for line in lines if "eval/solve_rate" in line]
    assert evaluated == [0, 4, 8]
    with Checkpoints(folder / "checkpoints") as checkpoints:
        assert checkpoints.latest_step() == 8
    assert summary == json.loads((folder / "summary.json").read_text())
    assert {
        "solve_rate_before",
        "solve_rate_after",
        "ticks",
        "wall_seconds",
        "seed",
    } <= set(summary)
    assert summary["ticks"] == 8 and 0.0 <= summary["solve_rate_after"] <= 1.0


def test_sampled_log_probs_are_those_that_the_learner_scores(finished):
    folder, _ = finished
    gaps = [x["eval/log_prob_gap"] for x in metrics.read(folder) if x["tick"] in (0, 8)]
    assert max(gaps) < 1e-5


def test_a_finished_run_says_so_and_changes_nothing(finished, capsys):
    folder, summary = finished
    before = (folder / "metrics.jsonl").read_bytes()
    assert train.run(config(), folder) == summary
    assert "is finished" in capsys.readouterr().out
    assert (folder / "metrics.jsonl").read_bytes() == before


def test_a_run_that_learnt_nothing_says_so():
    told = types.SimpleNamespace(texts=[])
    told.message = told.texts.append
    runs = [types.SimpleNamespace(folder=name) for name in ("idle", "busy")]
    learner = types.SimpleNamespace(step=np.array([0, 3]))
    state = types.SimpleNamespace(learner=learner, tick=np.int32(8))
    running._tell_who_was_idle(state, runs, [0, 1], told)
    (text,) = told.texts
    assert text.startswith("idle: the learner took no step in 8 ticks")
    learner.step = np.int32(3)  # of one run
    running._tell_who_was_idle(state, runs[:1], [0], told)
    assert len(told.texts) == 1


def test_more_ticks_go_on_where_the_run_ended(finished, tmp_path):
    folder, _ = finished
    longer = tmp_path / "longer"
    shutil.copytree(folder, longer)
    summary = train.run(config(num_ticks=12), longer)
    assert summary["ticks"] == 12
    assert [x["tick"] for x in metrics.read(longer)] == [0, 2, 4, 6, 8, 10, 12]


def test_another_config_in_the_same_folder_is_refused_by_name(finished):
    folder, _ = finished
    before = (folder / "config.json").read_bytes()
    with pytest.raises(ValueError, match=r"learner\.learning_rate: 0\.0 there"):
        train.run(config(**{"learner.learning_rate": 1e-3}), folder)
    assert (folder / "config.json").read_bytes() == before


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match="has files but no config"):
        train.run(config(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_missing_checkpoints_are_an_error_not_a_fresh_start(finished, tmp_path):
    folder, _ = finished
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    shutil.rmtree(broken / "checkpoints")
    (broken / "summary.json").unlink()
    before = (broken / "metrics.jsonl").read_bytes()
    with pytest.raises(ValueError, match="has metrics but no checkpoint"):
        train.run(config(), broken)
    assert (broken / "metrics.jsonl").read_bytes() == before


def test_corrupt_checkpoints_are_an_error_that_names_them(finished, tmp_path):
    folder, _ = finished
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    (broken / "summary.json").unlink()
    for path in (broken / "checkpoints").rglob("*"):
        if path.is_file():
            path.write_bytes(b"")
    with pytest.raises(CheckpointError, match="checkpoints"):
        train.run(config(), broken)


def command(*flags):
    return subprocess.run(
        [sys.executable, "-m", *flags], cwd=REPOSITORY, capture_output=True, text=True
    )


CONFIG = "--config=experiments/configs/smoke.py"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--config.learner.learning_rat=1"], "learning_rate"),
        (["--confg.seed=1"], "confg.seed"),
        (["--config.rollout.group_size=1"], "rollout.group_size=1 must be at least 2"),
        (["--config.rollout.group_size=two"], "group_size='two' must be an int"),
        (["--config.learner=1"], "'learner' is a group of fields"),
        (["--config=none.py"], "config='none.py' must be a Python file"),
    ],
)
def test_a_mistyped_flag_is_refused_with_the_nearest_name(flags, words, tmp_path):
    folder = tmp_path / "run"
    done = command("experiments.train", CONFIG, f"--workdir={folder}", *flags)
    assert done.returncode != 0 and words in done.stderr
    assert "Traceback" not in done.stderr and done.stderr.count("\n") <= 3
    assert not folder.exists()


def test_evaluate_prints_the_rates_of_a_checkpoint(finished):
    folder, summary = finished
    done = command("experiments.evaluate", f"--workdir={folder}", "--problems=8")
    assert done.returncode == 0, done.stderr
    rates = json.loads(done.stdout)
    assert rates["solve_rate"] == pytest.approx(summary["solve_rate_after"])
    assert rates["tick"] == 8


def test_evaluate_names_the_flag_that_is_wrong(finished):
    folder, _ = finished
    done = command("experiments.evaluate", f"--workdir={folder}", "--pass_at=1,8")
    assert (
        done.returncode == 1 and "--pass_at='8' must be 1 to --samples=1" in done.stderr
    )


def test_evaluate_says_where_no_run_is(tmp_path):
    done = command("experiments.evaluate", f"--workdir={tmp_path}")
    assert done.returncode != 0 and "no run is there" in done.stderr
