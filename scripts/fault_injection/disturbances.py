"""What ``torture.py`` does to processes. Each returns a few words on what it did.

What is done to files is in ``damages``.
"""

import contextlib
import pathlib
import random
import resource
import signal
import time

from scripts.fault_injection.subjects import (
    FINISHED,
    KILLED,
    REFUSED,
    BrokenPromise,
    Subject,
    wait_until,
)
from scripts.fault_injection.variants import NUM_TICKS

#: What a run says when it pre-trains, and when its first evaluation comes next.
WARM_START, FIRST_EVALUATION = "warm start: ", "base model solves"


def kill_at_some_moment(subject: Subject, choose: random.Random) -> str:
    """From before the interpreter has started until after the last dispatch."""
    process, seconds = subject.start(), choose.uniform(0.0, 12.0)
    time.sleep(seconds)
    return kill(subject, process, f"after {seconds:.1f} s")


def kill_in_the_warm_start(subject, choose):
    return _kill_after(WARM_START, subject, choose)


def kill_in_the_first_evaluation(subject, choose):
    return _kill_after(FIRST_EVALUATION, subject, choose)


def kill_at_some_tick(subject, choose):
    process = subject.start()
    wanted = wait_for_some_tick(subject, choose, process)
    time.sleep(choose.uniform(0.0, 0.2))
    return kill(subject, process, f"after tick {wanted}")


def kill_in_a_save(subject, choose):
    """As soon as the folder of an unfinished checkpoint is there, or a little later."""
    process = subject.start()
    wait_for_some_tick(subject, choose, process)
    found = wait_until(lambda: _unfinished(subject), process)
    time.sleep(choose.choice([0.0, 0.0, choose.uniform(0.0, 0.05)]))
    code = kill(subject, process, "in a save")
    return f"{code}, {_unfinished(subject)} unfinished" if found else code


def ask_to_stop(subject, choose):
    """SIGTERM, from the start of the interpreter to the end of the run."""
    process = subject.start()
    if choose.random() < 0.8:
        wait_for_some_tick(subject, choose, process)
        time.sleep(choose.uniform(0.0, 0.2))
    else:
        time.sleep(choose.uniform(0.0, 8.0))
    return _ask(subject, process)


def ask_in_the_warm_start(subject, choose):
    return _ask_after(WARM_START, subject, choose)


def ask_in_the_first_evaluation(subject, choose):
    return _ask_after(FIRST_EVALUATION, subject, choose)


def fill_the_disk(subject, choose):
    """No byte is left, from the start on or from some tick on."""
    ballast = subject.folder.with_name("ballast")
    early = choose.random() < 0.3
    try:
        if early:
            _fill(ballast)
        process = subject.start()
        if not early:
            wait_for_some_tick(subject, choose, process)
            time.sleep(choose.uniform(0.0, 0.2))
            _fill(ballast)
        return refused_or_too_late(subject, process)
    finally:
        ballast.unlink(missing_ok=True)


def forbid_large_files(subject, choose):
    """From some tick on every write beyond a few bytes is an error."""
    process = subject.start()
    wait_for_some_tick(subject, choose, process)
    size = choose.choice([0, 100, 4096])
    with contextlib.suppress(ProcessLookupError):  # it has ended
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, size))
    return refused_or_too_late(subject, process)


def wait_for_some_tick(subject, choose, process) -> int:
    """Waits for a tick ahead of where the run stands, up to its last; or for its end.

    A tick that it stands at already would be there while the process still imports, and
    has not looked at its folder yet.
    """
    now = max(subject.last_tick(), 0)
    if now >= NUM_TICKS:  # it only says so
        process.wait()
        return NUM_TICKS
    wanted = choose.randrange(now + 2, NUM_TICKS + 1, 2)
    wait_until(lambda: subject.last_tick() >= wanted, process)
    return wanted


def kill(subject, process, when) -> str:
    process.kill()
    code = subject.expect(process, codes=(FINISHED, KILLED), words=())
    return when if code == KILLED else "too late"


def refused_or_too_late(subject, process) -> str:
    """The process gives up and says why, unless it is done before."""
    code = subject.expect(process, codes=(FINISHED, REFUSED), words=())
    return f"at tick {subject.last_tick()}" if code == REFUSED else "too late"


def _kill_after(words, subject, choose):
    process = subject.start()
    found = wait_until(lambda: words in subject.said(), process)
    time.sleep(choose.uniform(0.0, 0.5))
    when = kill(subject, process, "in it")
    return when if found else "too late"


def _ask_after(words, subject, choose):
    process = subject.start()
    found = wait_until(lambda: words in subject.said(), process)
    time.sleep(choose.uniform(0.0, 0.5))
    when = _ask(subject, process)
    return when if found else "too late"


def _ask(subject, process) -> str:
    """SIGTERM: the process must save, say how to go on, and end well."""
    has_begun = subject.said() != ""  # before that it is still importing
    process.terminate()
    codes = (FINISHED,) if has_begun else (FINISHED, -signal.SIGTERM)
    if subject.expect(process, codes=codes, words=()) != FINISHED:
        return "before it began"
    if subject.is_finished:
        return "too late"
    steps = [home.steps() for home in subject.homes]
    if "stopped in the warm start" in subject.said() and not any(steps):
        return "in the warm start"
    if "the same command goes on from there" not in subject.said():
        raise BrokenPromise(f"does not say how to go on: {subject.said()}")
    for home, saved in zip(subject.homes, steps, strict=True):
        if saved[-1] != max(home.last_tick(), 0):  # no line before the first tick
            raise BrokenPromise(
                f"{home.folder.name} stopped at tick {home.last_tick()}, but saved "
                f"{saved}"
            )
    return f"at tick {subject.last_tick()}"


def _unfinished(subject) -> int:
    """Checkpoints that are being written, or were when the process died."""
    return sum(len(list(home.checkpoints.glob("*-tmp*"))) for home in subject.homes)


def _fill(path: pathlib.Path) -> None:
    """Writes a file until nothing more can be written."""
    with path.open("wb", buffering=0) as file:
        for size in (2**16, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)):
                    pass
