"""The pages for people with their own environment or model, followed to the letter.

Every block of code that a page says to save is saved in a fresh folder and run there.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from scripts import first_hour

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = (
    "outcome",
    "immediate",
    "agentic",
    "calibrated",
    "returns",
    "turn_mix",
    "state_groups",
)


def blocks(page):
    return first_hour.saved_files((ROOT / page).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A fresh folder with everything of both pages."""
    folder = tmp_path_factory.mktemp("fresh")
    pages = ("agentic_grpo/envs/README.md", "agentic_grpo/models/README.md")
    for page in pages:
        for name, code in blocks(page).items():
            if name:
                (folder / name).write_text(code)
    return folder


def run(folder, *arguments):
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_pages_name_every_file_that_they_use(folder):
    assert {path.name for path in folder.iterdir()} == {
        "my_environment.py",
        "my_host_environment.py",
        "test_my_environment.py",
        "train_mine.py",
        "my_policy.py",
        "test_my_policy.py",
    }
    code = (folder / "my_environment.py").read_text()
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) <= 65  # a whole environment is small


def test_the_checks_of_both_pages_pass(folder):
    run(folder, "-m", "pytest", "-q", "test_my_environment.py", "test_my_policy.py")


def test_the_environment_that_leaves_the_device_keeps_the_contract_and_trains(folder):
    checks = (
        "from agentic_grpo.envs import testing\n"
        "from my_host_environment import JudgedOnTheHost\n"
        "testing.check_environment(JudgedOnTheHost(), splits=('train', 'test'))\n"
    )
    run(folder, "-c", checks)
    code = (folder / "train_mine.py").read_text().replace("runs/", "on_the_host/")
    code = code.replace("my_environment", "my_host_environment")
    (folder / "train_there.py").write_text(
        code.replace("SumOfDigits", "JudgedOnTheHost")
    )
    run(folder, "train_there.py", "agentic", "10")


def test_the_environment_trains(folder):
    said = run(folder, "train_mine.py", "agentic", "10")
    assert re.fullmatch(r"solved \d\.\d\d\n", said)
    summary = json.loads((folder / "runs" / "agentic" / "summary.json").read_text())
    assert summary["ticks"] == 10


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_it_trains_under_every_credit_rule(folder, rule):
    assert run(folder, "train_mine.py", rule, "10")


@pytest.mark.slow
def test_the_recurrent_policy_trains_in_place_of_the_decoder(folder):
    page = blocks("agentic_grpo/models/README.md")[""]
    code = (folder / "train_mine.py").read_text()
    begin, end = (
        code.index("model = Transformer("),
        code.index("trained = agentic_grpo.train("),
    )
    code = code[:begin] + page + code[end:]
    (folder / "train_other.py").write_text(code.replace("runs/", "other/"))
    assert run(folder, "train_other.py", "agentic", "10")
