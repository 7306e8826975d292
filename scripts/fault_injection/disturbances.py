"""What ``torture.py`` does to a run. Each returns a few words on what it did."""

import contextlib
import dataclasses
import pathlib
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable

from scripts.fault_injection.trials import (
    FINISHED,
    KILLED,
    NUM_TICKS,
    REFUSED,
    BrokenPromise,
    Trial,
    wait_until,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Disturbance:
    """Something that may happen to a run.

    Attributes:
      name: for the summary.
      apply: (trial, choose) -> what was done, in a few words.
      needs_small_disk: the trial's folder must be on one.
    """

    name: str
    apply: Callable[[Trial, random.Random], str]
    needs_small_disk: bool = False


def kill_at_some_moment(trial, choose):
    """From before the interpreter has started until after the last dispatch."""
    process, seconds = trial.start(), choose.uniform(0.0, 12.0)
    time.sleep(seconds)
    return _kill(trial, process, f"after {seconds:.1f} s")


def kill_at_some_tick(trial, choose):
    process = trial.start()
    wanted = _wait_for_some_tick(trial, choose, process)
    time.sleep(choose.uniform(0.0, 0.2))
    return _kill(trial, process, f"after tick {wanted}")


def kill_in_a_save(trial, choose):
    """As soon as the folder of an unfinished checkpoint is there, or a little later."""
    process = trial.start()
    _wait_for_some_tick(trial, choose, process)
    found = wait_until(lambda: list(trial.checkpoints.glob("*-tmp*")), process)
    time.sleep(choose.choice([0.0, 0.0, choose.uniform(0.0, 0.05)]))
    code = _kill(trial, process, "in a save")
    unfinished = len(list(trial.checkpoints.glob("*-tmp*")))
    return f"{code}, {unfinished} unfinished" if found else code


def ask_to_stop(trial, choose):
    """SIGTERM, from the start of the interpreter to the end of the run."""
    process = trial.start()
    if choose.random() < 0.8:
        _wait_for_some_tick(trial, choose, process)
        time.sleep(choose.uniform(0.0, 0.2))
    else:
        time.sleep(choose.uniform(0.0, 8.0))
    has_begun = trial.said() != ""  # before that it is still importing
    process.terminate()
    codes = (FINISHED,) if has_begun else (FINISHED, -signal.SIGTERM)
    if trial.expect(process, codes=codes, words=()) != FINISHED:
        return "before it began"
    if (trial.folder / "summary.json").exists():
        return "too late"
    if "stopped in the warm start" in trial.said() and not trial.steps():
        return "in the warm start"
    if "the same command goes on from there" not in trial.said():
        raise BrokenPromise(f"does not say how to go on: {trial.said()}")
    if trial.steps()[-1] != max(trial.last_tick(), 0):  # no line before the first tick
        raise BrokenPromise(
            f"stopped at tick {trial.last_tick()}, but saved {trial.steps()}"
        )
    return f"at tick {trial.last_tick()}"


def fill_the_disk(trial, choose):
    """No byte is left, from the start on or from some tick on."""
    ballast = trial.folder.with_name("ballast")
    early = choose.random() < 0.3
    try:
        if early:
            _fill(ballast)
        process = trial.start()
        if not early:
            _wait_for_some_tick(trial, choose, process)
            time.sleep(choose.uniform(0.0, 0.2))
            _fill(ballast)
        code = trial.expect(process, codes=(FINISHED, REFUSED), words=())
        return _refused_or_too_late(trial, code)
    finally:
        ballast.unlink(missing_ok=True)


def forbid_large_files(trial, choose):
    """From some tick on every write beyond a few bytes is an error."""
    process = trial.start()
    _wait_for_some_tick(trial, choose, process)
    size = choose.choice([0, 100, 4096])
    with contextlib.suppress(ProcessLookupError):  # it has ended
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, size))
    code = trial.expect(process, codes=(FINISHED, REFUSED), words=())
    return _refused_or_too_late(trial, code)


def damage_the_newest(trial, choose):
    """A file of the newest checkpoint is truncated, corrupted or removed."""
    if not _have_checkpoints(trial, choose):
        return "too late"
    step = trial.steps()[-1]
    files = [p for p in (trial.checkpoints / str(step)).rglob("*") if p.is_file()]
    file, kind = choose.choice(sorted(files)), choose.choice(sorted(DAMAGES))
    DAMAGES[kind](file)
    return f"{file.relative_to(trial.checkpoints)} {kind}"


def remove_the_newest(trial, choose):
    if not _have_checkpoints(trial, choose):
        return "too late"
    step = trial.steps()[-1]
    shutil.rmtree(trial.checkpoints / str(step))
    return f"step {step}"


def damage_all(trial, choose):
    """Nothing intact is left: the run must say so, and go on when they are back."""
    if not _have_checkpoints(trial, choose):
        return "too late"
    copy = trial.folder.with_name(trial.folder.name + "_copy")
    shutil.copytree(trial.checkpoints, copy)
    before = (trial.folder / "metrics.jsonl").read_bytes()
    for path in trial.checkpoints.glob("[0-9]*/record/metadata"):
        choose.choice([truncate, corrupt])(path)
    trial.expect(
        trial.start(), codes=(REFUSED,), words=("every checkpoint here is damaged",)
    )
    if (trial.folder / "metrics.jsonl").read_bytes() != before:
        raise BrokenPromise("a run that is refused has changed its metrics")
    shutil.rmtree(trial.checkpoints)
    copy.rename(trial.checkpoints)
    return f"steps {trial.steps()}"


def truncate(path: pathlib.Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def corrupt(path: pathlib.Path) -> None:
    """Changes one bit in the middle."""
    content = bytearray(path.read_bytes())
    if content:
        content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


DAMAGES = {"truncated": truncate, "corrupted": corrupt, "removed": pathlib.Path.unlink}

ALL = (
    Disturbance(name="kill at some moment", apply=kill_at_some_moment),
    Disturbance(name="kill at some tick", apply=kill_at_some_tick),
    Disturbance(name="kill in a save", apply=kill_in_a_save),
    Disturbance(name="SIGTERM", apply=ask_to_stop),
    Disturbance(name="full disk", apply=fill_the_disk, needs_small_disk=True),
    Disturbance(name="failing writes", apply=forbid_large_files),
    Disturbance(name="newest checkpoint damaged", apply=damage_the_newest),
    Disturbance(name="newest checkpoint removed", apply=remove_the_newest),
    Disturbance(name="all checkpoints damaged", apply=damage_all),
)


def _wait_for_some_tick(trial, choose, process) -> int:
    """Waits for a tick between where the run stands and its end."""
    now = max(trial.last_tick(), 0)
    wanted = choose.randrange(now, NUM_TICKS, 2) if now < NUM_TICKS else NUM_TICKS
    wait_until(lambda: trial.last_tick() >= wanted, process)
    return wanted


def _kill(trial, process, when) -> str:
    process.kill()
    code = trial.expect(process, codes=(FINISHED, KILLED), words=())
    return when if code == KILLED else "too late"


def _have_checkpoints(trial, choose) -> bool:
    """Makes sure that a run has stopped somewhere with two checkpoints or more."""
    if len(trial.steps()) < 2:
        process = trial.start()
        wait_until(lambda: len(trial.steps()) >= 2, process)
        time.sleep(choose.uniform(0.0, 0.3))
        _kill(trial, process, "")
    return not (trial.folder / "summary.json").exists() and len(trial.steps()) >= 2


def _refused_or_too_late(trial, code) -> str:
    return f"at tick {trial.last_tick()}" if code == REFUSED else "too late"


def _fill(path: pathlib.Path) -> None:
    """Writes a file until nothing more can be written."""
    with path.open("wb", buffering=0) as file:
        for size in (2**16, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)):
                    pass
