"""The torture sees what it should see, and real runs stand it."""

import json
import random
import subprocess
import sys

import pytest

from scripts import torture
from scripts.fault_injection import disturbances, trials

NAMES = {kind.name for kind in disturbances.ALL}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(101)))
    return path


def test_every_damage_changes_the_file(file):
    before = file.read_bytes()
    disturbances.corrupt(file)
    after = file.read_bytes()
    assert len(after) == len(before)
    assert sum(a != b for a, b in zip(after, before, strict=True)) == 1
    disturbances.truncate(file)
    assert file.read_bytes() == after[:50]
    disturbances.DAMAGES["removed"](file)
    assert not file.exists()


def test_a_difference_anywhere_is_told_by_name():
    wanted = {"state/w": "1", "line 3, verdict": "0.5", "summary": "{}"}
    assert trials.differences(dict(wanted), wanted) == []
    assert trials.differences(wanted | {"line 3, verdict": "0.25"}, wanted) == [
        "line 3, verdict: 0.25, not 0.5"
    ]
    # a line that is there twice, or not at all
    assert trials.differences(wanted | {"line 4, tick": "6"}, wanted) == [
        "line 4, tick: 6, not missing"
    ]
    del wanted["state/w"]
    assert trials.differences({**wanted, "state/w": "1"}, wanted) == [
        "state/w: 1, not missing"
    ]


class FakeTrial(trials.Trial):
    """A run that is one file, which says what became of it."""

    def finish(self):
        self.starts += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "outcome"
        if not path.exists():
            path.write_text("as it should be")


def fake(monkeypatch, apply):
    monkeypatch.setattr(trials, "Trial", FakeTrial)
    monkeypatch.setattr(
        trials, "outcome", lambda folder: {"text": (folder / "outcome").read_text()}
    )
    kind = disturbances.Disturbance(name="fake", apply=apply)
    monkeypatch.setattr(disturbances, "ALL", (kind,))


def test_rounds_without_a_difference_are_none(tmp_path, monkeypatch, capsys):
    fake(monkeypatch, lambda trial, choose: "did nothing")
    assert torture.torture(3, 0, tmp_path, None) == 0
    last = capsys.readouterr().out.strip().split("\n")[-1]
    assert last.startswith("3 rounds, 3 starts, no difference; tried: ")
    assert last.endswith(" x fake; seed 0")


def test_a_round_that_comes_out_otherwise_counts_and_is_kept(
    tmp_path, monkeypatch, capsys
):
    def apply(trial, choose):
        trial.folder.mkdir(parents=True, exist_ok=True)
        (trial.folder / "outcome").write_text("otherwise")
        return "wrote"

    fake(monkeypatch, apply)
    assert torture.torture(2, 0, tmp_path, None) == 2
    assert "text: otherwise, not as it should be" in capsys.readouterr().out
    kept = tmp_path / "different" / "round_1" / "outcome"
    assert kept.read_text() == "otherwise"


def test_a_broken_promise_is_a_difference(tmp_path, monkeypatch, capsys):
    def apply(trial, choose):
        trial.folder.mkdir(parents=True, exist_ok=True)
        raise trials.BrokenPromise("ended with code 7")

    fake(monkeypatch, apply)
    assert torture.torture(1, 0, tmp_path, None) == 1
    assert "DIFFERENT: ended with code 7" in capsys.readouterr().out


def test_what_a_process_says_and_how_it_ends_are_checked(tmp_path, monkeypatch):
    def process(code, text):
        return subprocess.Popen(
            [sys.executable, "-c", f"print({text!r}); raise SystemExit({code})"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def expect(code, text, **options):
        trial = trials.Trial(tmp_path)
        run = process(code, text)
        monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: run)
        running = trial.start()
        monkeypatch.undo()
        return trial.expect(running, **options)

    assert expect(0, "fine", codes=(0,), words=("fine",)) == 0
    with pytest.raises(trials.BrokenPromise, match="code 3"):
        expect(3, "", codes=(0,), words=())
    with pytest.raises(trials.BrokenPromise, match="words"):
        expect(0, "", codes=(0,), words=("is finished",))
    # whoever gives up says why
    with pytest.raises(trials.BrokenPromise, match="error: "):
        expect(1, "Traceback (most recent call last):", codes=(1,), words=())
    assert expect(1, "error: no room", codes=(1,), words=()) == 1


def test_the_last_tick_is_read_past_half_a_line(tmp_path):
    trial = trials.Trial(tmp_path)
    assert trial.last_tick() == -1
    lines = [json.dumps({"tick": tick}) for tick in (0, 2)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + '\n{"ti')
    assert trial.last_tick() == 2


def test_the_tick_to_wait_for_lies_ahead():
    for seed in range(20):
        trial = trials.Trial.__new__(trials.Trial)
        trial.last_tick = lambda: 10
        ended = subprocess.Popen([sys.executable, "-c", ""])
        ended.wait()
        wanted = disturbances._wait_for_some_tick(trial, random.Random(seed), ended)
        assert 10 <= wanted < trials.NUM_TICKS


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits processes from outside")
def test_real_runs_stand_a_few_rounds(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            trials.ROOT / "scripts" / "torture.py",
            "--rounds=3",
            "--seed=100",
            f"--folder={tmp_path}",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip().split("\n")[-1].startswith("3 rounds, ")
