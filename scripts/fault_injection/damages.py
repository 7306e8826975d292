"""What ``torture.py`` does to the files of runs. Each says in a few words what it did.

Where nothing can be gone on from, the run must say so and leave everything as it is;
the files are then put back.
"""

import pathlib
import random
import shutil
import time

from scripts.fault_injection import disturbances
from scripts.fault_injection.subjects import (
    REFUSED,
    BrokenPromise,
    Home,
    Subject,
    wait_until,
)

TOO_LATE = "too late"


def damage_the_newest(subject: Subject, choose: random.Random) -> str:
    """A file of the newest checkpoint is truncated, corrupted or removed."""
    home = _home_with_checkpoints(subject, choose)
    if home is None:
        return TOO_LATE
    newest = home.checkpoints / str(home.steps()[-1])
    files = sorted(path for path in newest.rglob("*") if path.is_file())
    file, kind = choose.choice(files), choose.choice(sorted(DAMAGES))
    DAMAGES[kind](file)
    return f"{file.relative_to(home.checkpoints)} {kind}"


def remove_the_newest(subject, choose):
    home = _home_with_checkpoints(subject, choose)
    if home is None:
        return TOO_LATE
    step = home.steps()[-1]
    shutil.rmtree(home.checkpoints / str(step))
    return f"step {step}"


def rename_the_newest(subject, choose):
    """It claims to be of a later tick: it is passed over, as a damaged one is."""
    home = _home_with_checkpoints(subject, choose)
    if home is None:
        return TOO_LATE
    step = home.steps()[-1]
    (home.checkpoints / str(step)).rename(home.checkpoints / str(step + 2))
    return f"step {step} to {step + 2}"


def swap_the_newest(subject, choose):
    """It is another run's, of the same tick: refused, and nobody's result is mixed."""
    home = _home_with_checkpoints(subject, choose)
    if home is None:
        return TOO_LATE
    step = home.steps()[-1]
    ours, aside = home.checkpoints / str(step), home.folder / "set_aside"
    ours.rename(aside)
    shutil.copytree(subject.foreign().checkpoints / str(step), ours)
    _must_refuse(subject, home, "it holds a run with another")
    shutil.rmtree(ours)
    aside.rename(ours)
    return f"step {step}"


def damage_all(subject, choose):
    """Nothing intact is left: the run must say so, and go on when they are back."""
    home = _home_with_checkpoints(subject, choose)
    if home is None:
        return TOO_LATE
    copy = subject.folder.with_name(subject.folder.name + "_copy")
    shutil.copytree(home.checkpoints, copy)
    for path in home.checkpoints.glob("[0-9]*/record/metadata"):
        choose.choice([truncate, corrupt])(path)
    _must_refuse(subject, home, "every checkpoint here is damaged")
    shutil.rmtree(home.checkpoints)
    shutil.move(copy, home.checkpoints)
    return f"steps {home.steps()}"


def move_the_folder(subject, choose):
    """Under a run that trains in it, which must give up; and back again."""
    process, home = subject.start(), choose.choice(subject.homes)
    disturbances.wait_for_some_tick(subject, choose, process)
    elsewhere = subject.folder / "elsewhere"
    home.folder.rename(elsewhere)
    said = disturbances.refused_or_too_late(subject, process)
    _must_be_gone(home)
    elsewhere.rename(home.folder)
    return said


def delete_the_folder(subject, choose):
    """Under a run that trains in it; the next one begins anew."""
    process, home = subject.start(), choose.choice(subject.homes)
    disturbances.wait_for_some_tick(subject, choose, process)
    doomed = subject.folder / "doomed"
    home.folder.rename(doomed)  # at once: what is deleted file by file may come back
    shutil.rmtree(doomed, ignore_errors=True)
    said = disturbances.refused_or_too_late(subject, process)
    shutil.rmtree(doomed, ignore_errors=True)
    _must_be_gone(home)
    return said


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


def _home_with_checkpoints(subject, choose) -> Home | None:
    """A run that has stopped somewhere with two checkpoints or more; for damaging it.

    Of several seeds it then stands alone.
    """
    subject.is_regrouped |= len(subject.homes) > 1
    if min(len(home.steps()) for home in subject.homes) < 2:
        process = subject.start()
        wait_until(
            lambda: all(len(home.steps()) >= 2 for home in subject.homes), process
        )
        time.sleep(choose.uniform(0.0, 0.3))
        disturbances.kill(subject, process, "")
    unfinished = [
        home
        for home in subject.homes
        if not home.is_finished and len(home.steps()) >= 2
    ]
    return choose.choice(unfinished) if unfinished else None


def _must_refuse(subject, home, words):
    """The next process gives up with these words and changes nothing of the run."""
    metrics = home.folder / "metrics.jsonl"
    before = metrics.read_bytes()
    subject.expect(subject.start(), codes=(REFUSED,), words=(words,))
    if metrics.read_bytes() != before:
        raise BrokenPromise("a run that is refused has changed its metrics")


def _must_be_gone(home):
    """But for a checkpoint whose writing had begun: its writer makes its folders."""
    found = sorted(path.name for path in home.folder.glob("*"))
    if found not in ([], ["checkpoints"]):
        raise BrokenPromise(f"a folder that was taken away is there again: {found}")
    shutil.rmtree(home.folder, ignore_errors=True)
