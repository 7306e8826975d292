"""One command leads to every program, and says what it does not know."""

import os
import pathlib
import subprocess
import sys

import pytest

import agentic_grpo
from experiments import door

ROOT = pathlib.Path(door.__file__).resolve().parents[1]


def type_in(*words, cwd):
    return subprocess.run(
        [sys.executable, "-m", "experiments.door", *words],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_command_that_does_not_exist_tells_the_nearest(tmp_path):
    done = type_in("trian", cwd=tmp_path)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("error: 'trian' must be one of train, evaluate,")
    assert done.stderr.endswith("did you mean 'train'?\n")


def test_without_a_word_it_tells_all_of_them(tmp_path):
    done = type_in(cwd=tmp_path)
    assert done.returncode == 0
    assert all(f"agentic-grpo {name} " in done.stdout for name in door.MODULES)
    assert all(f"agentic-grpo {name} " in done.stdout for name in door.SCRIPTS)
    assert type_in("--version", cwd=tmp_path).stdout == f"{agentic_grpo.__version__}\n"


def test_flags_go_to_the_program(tmp_path):
    done = type_in("train", "--config=quickstrat", "--workdir=run", cwd=tmp_path)
    assert done.returncode == 1
    assert "did you mean 'quickstart'?" in done.stderr
    done = type_in("sweep", "--config=smoke", "--workdir=s", "--dry_run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path / 's' / 'all' / 'seed=0'}" in done.stdout


def test_a_script_runs_from_anywhere_in_a_clone(tmp_path):
    done = type_in("compare", "none", "other", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("compare_runs: ")


def test_what_needs_a_clone_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(door, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["agentic-grpo", "plot"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit, match=r"plot needs a clone of the repository"):
        door.main()
