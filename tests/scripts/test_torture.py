"""The torture sees what it should see, and real runs stand it."""

import contextlib
import itertools
import json
import random
import subprocess
import sys

import pytest

from experiments.config import build
from scripts import torture
from scripts.fault_injection import (
    catalogue,
    damages,
    disturbances,
    subjects,
    variants,
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(101)))
    return path


def test_every_damage_changes_the_file(file):
    before = file.read_bytes()
    damages.corrupt(file)
    after = file.read_bytes()
    assert len(after) == len(before)
    assert sum(a != b for a, b in zip(after, before, strict=True)) == 1
    damages.truncate(file)
    assert file.read_bytes() == after[:50]
    damages.DAMAGES["removed"](file)
    assert not file.exists()


def test_a_difference_anywhere_is_told_by_name():
    wanted = {"state/w": "1", "line 3, verdict": "0.5", "summary": "{}"}
    assert subjects.differences(dict(wanted), wanted) == []
    assert subjects.differences(wanted | {"line 3, verdict": "0.25"}, wanted) == [
        "line 3, verdict: 0.25, not 0.5"
    ]
    # a line that is there twice, or not at all
    assert subjects.differences(wanted | {"line 4, tick": "6"}, wanted) == [
        "line 4, tick: 6, not missing"
    ]
    del wanted["state/w"]
    assert subjects.differences({**wanted, "state/w": "1"}, wanted) == [
        "state/w: 1, not missing"
    ]


def test_of_seeds_that_were_parted_all_must_be_there_and_numbers_may_round():
    wanted = {"seed=0, line 3, tick": "6", "seed=0, line 3, loss": "0.5", "state": "1"}
    rounded = wanted | {"seed=0, line 3, loss": "0.50001", "state": "2"}
    assert subjects.differences(rounded, wanted, is_regrouped=True) == []
    assert len(subjects.differences(rounded, wanted)) == 2
    late = rounded | {"seed=0, line 3, tick": "8"}
    assert subjects.differences(late, wanted, is_regrouped=True) == [
        "seed=0, line 3, tick: 8, not 6"
    ]
    del rounded["state"]
    assert subjects.differences(rounded, wanted, is_regrouped=True) == [
        "state: there in one of them alone"
    ]


def test_seeds_that_stand_at_other_ticks_are_known_to_be_parted(tmp_path, monkeypatch):
    subject = subjects.Subject(tmp_path, variants.TOGETHER)
    monkeypatch.setattr(subject, "command", lambda: ["this"])
    for home, steps in zip(subject.homes, ((2, 4), (2, 4)), strict=True):
        for step in steps:
            (home.checkpoints / str(step)).mkdir(parents=True)
    subject.expect(subject.start(), codes=(0,), words=("Zen",))
    assert not subject.is_regrouped
    (subject.homes[1].checkpoints / "4").rmdir()
    subject.expect(subject.start(), codes=(0,), words=("Zen",))
    assert subject.is_regrouped


class FakeSubject(subjects.Subject):
    """A run that is one file, which says what became of it."""

    def finish(self):
        self.starts += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "outcome"
        if not path.exists():
            path.write_text("as it should be")


def fake(monkeypatch, apply):
    monkeypatch.setattr(subjects, "Subject", FakeSubject)
    monkeypatch.setattr(
        subjects,
        "outcome",
        lambda subject: {"text": (subject.folder / "outcome").read_text()},
    )
    kind = catalogue.Disturbance(name="fake", apply=apply)
    monkeypatch.setattr(catalogue, "ALL", (kind,))
    monkeypatch.setattr(variants, "ALL", (variants.ONE,))


def test_rounds_without_a_difference_are_none(tmp_path, monkeypatch, capsys):
    fake(monkeypatch, lambda subject, choose: "did nothing")
    assert torture.torture(3, 0, tmp_path, None) == 0
    last = capsys.readouterr().out.strip().split("\n")[-1]
    assert last.startswith("3 rounds, 3 starts, no difference; tried: ")
    assert last.endswith(" x fake, 3 x one run; seed 0")


def test_a_round_that_comes_out_otherwise_counts_and_is_kept(
    tmp_path, monkeypatch, capsys
):
    def apply(subject, choose):
        subject.folder.mkdir(parents=True, exist_ok=True)
        (subject.folder / "outcome").write_text("otherwise")
        return "wrote"

    fake(monkeypatch, apply)
    assert torture.torture(2, 0, tmp_path, None) == 2
    assert "text: otherwise, not as it should be" in capsys.readouterr().out
    kept = tmp_path / "different" / "round_1" / "outcome"
    assert kept.read_text() == "otherwise"


def test_a_broken_promise_is_a_difference(tmp_path, monkeypatch, capsys):
    def apply(subject, choose):
        subject.folder.mkdir(parents=True, exist_ok=True)
        raise subjects.BrokenPromise("ended with code 7")

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
        subject = subjects.Subject(tmp_path, variants.ONE)
        run = process(code, text)
        monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: run)
        running = subject.start()
        monkeypatch.undo()
        return subject.expect(running, **options)

    assert expect(0, "fine", codes=(0,), words=("fine",)) == 0
    with pytest.raises(subjects.BrokenPromise, match="code 3"):
        expect(3, "", codes=(0,), words=())
    with pytest.raises(subjects.BrokenPromise, match="words"):
        expect(0, "", codes=(0,), words=("is finished",))
    # whoever gives up says why
    with pytest.raises(subjects.BrokenPromise, match="error: "):
        expect(1, "Traceback (most recent call last):", codes=(1,), words=())
    assert expect(1, "error: no room", codes=(1,), words=()) == 1


@pytest.mark.parametrize(
    ("said", "gives_a_reason"),
    [
        ("error: no room\n", True),
        ("warm start: 1/2\nerror: no room\n", True),
        # a thread of Orbax dies at the same moment, and its line is cut in two
        ("Exception in thread T:\n  ...\nRuntimeErrorerror: no room\n: late\n", True),
        ("Exception in thread T:\n  ...\nRuntimeError: error: no room\nlate\n", True),
        ("Exception in thread T:\n  ...\nRuntimeError: late\n", False),
        ("Traceback (most recent call last):\n  ...\nValueError: error: x\n", False),
        ("", False),
    ],
)
def test_a_reason_is_one_whoever_writes_between(said, gives_a_reason):
    assert subjects._gives_a_reason(said) is gives_a_reason


def test_files_of_a_round_that_went_wrong_outlive_the_program(
    tmp_path, monkeypatch, capsys
):
    # they were kept within a temporary folder, which was then deleted
    def apply(subject, choose):
        raise subjects.BrokenPromise("ended with code 7")

    fake(monkeypatch, apply)
    monkeypatch.setattr(subjects, "small_disk", lambda folder: contextlib.nullcontext())
    monkeypatch.setattr(torture.tempfile, "mkdtemp", lambda prefix: str(made))
    for wrong in (1, 0):
        made = tmp_path / f"made_{wrong}"
        made.mkdir()
        monkeypatch.setattr(sys, "argv", ["torture.py", "--rounds=1"])
        if not wrong:
            fake(monkeypatch, lambda subject, choose: "did nothing")
        else:
            monkeypatch.setattr(FakeSubject, "keep", keep_nothing)
        with pytest.raises(SystemExit) as caught:
            torture.main()
        assert caught.value.code == wrong
        assert made.exists() == bool(wrong)


def keep_nothing(subject, base):
    return base


def test_only_runs_that_have_not_ended_are_damaged(tmp_path):
    subject = subjects.Subject(tmp_path, variants.TOGETHER)
    assert [home.folder.name for home in subject.homes] == ["seed=0", "seed=1"]
    for home in subject.homes:
        for step in (2, 4):
            (home.checkpoints / str(step)).mkdir(parents=True)
        (home.checkpoints / "6.orbax-checkpoint-tmp").mkdir()
    subject.homes[0].folder.joinpath("summary.json").touch()
    assert subject.homes[1].steps() == [2, 4] and not subject.is_finished
    for seed in range(8):
        chosen = damages._home_with_checkpoints(subject, random.Random(seed))
        assert chosen is subject.homes[1]
    assert damages.rename_the_newest(subject, random.Random(0)) == "step 4 to 6"
    assert subject.homes[1].steps() == [2, 6]
    subject.homes[1].folder.joinpath("summary.json").touch()
    assert damages.rename_the_newest(subject, random.Random(0)) == damages.TOO_LATE


def test_a_folder_that_was_taken_away_must_stay_away(tmp_path):
    home = subjects.Home(tmp_path / "gone")
    damages._must_be_gone(home)
    home.checkpoints.mkdir(parents=True)  # a save that was in flight
    damages._must_be_gone(home)
    assert not home.folder.exists()
    home.checkpoints.mkdir(parents=True)
    (home.folder / "summary.json").touch()
    with pytest.raises(subjects.BrokenPromise, match=r"there again.*summary"):
        damages._must_be_gone(home)


def test_every_variant_is_a_legal_config():
    for variant in (*variants.ALL, variants.FOREIGN):
        for seed in variant.seeds:
            build.build(variant.config(seed))


def test_the_last_tick_is_read_past_half_a_line(tmp_path):
    home = subjects.Home(tmp_path)
    assert home.last_tick() == -1
    lines = [json.dumps({"tick": tick}) for tick in (0, 2)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + '\n{"ti')
    assert home.last_tick() == 2


def test_the_tick_to_wait_for_lies_ahead():
    subject = subjects.Subject.__new__(subjects.Subject)
    for seed, now in itertools.product(range(10), (0, 10, variants.NUM_TICKS - 2)):
        subject.last_tick = lambda now=now: now
        ended = subprocess.Popen([sys.executable, "-c", ""])
        ended.wait()
        wanted = disturbances.wait_for_some_tick(subject, random.Random(seed), ended)
        assert now < wanted <= variants.NUM_TICKS and wanted % 2 == 0


def test_the_end_of_a_finished_run_is_waited_for():
    """Else its folder is taken while the process imports, and a run begins anew."""
    subject = subjects.Subject.__new__(subjects.Subject)
    subject.last_tick = lambda: variants.NUM_TICKS
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.2)"])
    disturbances.wait_for_some_tick(subject, random.Random(0), process)
    assert process.poll() == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits processes from outside")
def test_real_runs_stand_a_few_rounds(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            subjects.ROOT / "scripts" / "torture.py",
            "--rounds=3",
            "--seed=100",
            f"--folder={tmp_path}",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip().split("\n")[-1].startswith("3 rounds, ")
