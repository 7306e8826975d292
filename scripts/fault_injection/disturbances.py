"""What ``torture.py`` does to processes. Each returns a few words on what it did.

What is done to files is in ``damages``.
"""

import contextlib
import pathlib
import random
import resource
import signal
import time

from scripts.fault_injection.trials import (
    FINISHED,
    KILLED,
    REFUSED,
    BrokenPromise,
    Trial,
    wait_until,
)
from scripts.fault_injection.variants import NUM_TICKS

#: What a run says when it pre-trains, and when its first evaluation comes next.
WARM_START, FIRST_EVALUATION = "warm start: ", "base model solves"


def kill_at_some_moment(trial: Trial, choose: random.Random) -> str:
    """From before the interpreter has started until after the last dispatch."""
    process, seconds = trial.start(), choose.uniform(0.0, 12.0)
    time.sleep(seconds)
    return kill(trial, process, f"after {seconds:.1f} s")


def kill_in_the_warm_start(trial, choose):
    return _kill_after(WARM_START, trial, choose)


def kill_in_the_first_evaluation(trial, choose):
    return _kill_after(FIRST_EVALUATION, trial, choose)


def kill_at_some_tick(trial, choose):
    process = trial.start()
    wanted = wait_for_some_tick(trial, choose, process)
    time.sleep(choose.uniform(0.0, 0.2))
    return kill(trial, process, f"after tick {wanted}")


def kill_in_a_save(trial, choose):
    """As soon as the folder of an unfinished checkpoint is there, or a little later."""
    process = trial.start()
    wait_for_some_tick(trial, choose, process)
    found = wait_until(lambda: _unfinished(trial), process)
    time.sleep(choose.choice([0.0, 0.0, choose.uniform(0.0, 0.05)]))
    code = kill(trial, process, "in a save")
    return f"{code}, {_unfinished(trial)} unfinished" if found else code


def ask_to_stop(trial, choose):
    """SIGTERM, from the start of the interpreter to the end of the run."""
    process = trial.start()
    if choose.random() < 0.8:
        wait_for_some_tick(trial, choose, process)
        time.sleep(choose.uniform(0.0, 0.2))
    else:
        time.sleep(choose.uniform(0.0, 8.0))
    return _ask(trial, process)


def ask_in_the_warm_start(trial, choose):
    return _ask_after(WARM_START, trial, choose)


def ask_in_the_first_evaluation(trial, choose):
    return _ask_after(FIRST_EVALUATION, trial, choose)


def fill_the_disk(trial, choose):
    """No byte is left, from the start on or from some tick on."""
    ballast = trial.folder.with_name("ballast")
    early = choose.random() < 0.3
    try:
        if early:
            _fill(ballast)
        process = trial.start()
        if not early:
            wait_for_some_tick(trial, choose, process)
            time.sleep(choose.uniform(0.0, 0.2))
            _fill(ballast)
        return refused_or_too_late(trial, process)
    finally:
        ballast.unlink(missing_ok=True)


def forbid_large_files(trial, choose):
    """From some tick on every write beyond a few bytes is an error."""
    process = trial.start()
    wait_for_some_tick(trial, choose, process)
    size = choose.choice([0, 100, 4096])
    with contextlib.suppress(ProcessLookupError):  # it has ended
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, size))
    return refused_or_too_late(trial, process)


def wait_for_some_tick(trial, choose, process) -> int:
    """Waits for a tick between where the run stands and its end."""
    now = max(trial.last_tick(), 0)
    wanted = choose.randrange(now, NUM_TICKS, 2) if now < NUM_TICKS else NUM_TICKS
    wait_until(lambda: trial.last_tick() >= wanted, process)
    return wanted


def kill(trial, process, when) -> str:
    process.kill()
    code = trial.expect(process, codes=(FINISHED, KILLED), words=())
    return when if code == KILLED else "too late"


def refused_or_too_late(trial, process) -> str:
    """The process gives up and says why, unless it is done before."""
    code = trial.expect(process, codes=(FINISHED, REFUSED), words=())
    return f"at tick {trial.last_tick()}" if code == REFUSED else "too late"


def _kill_after(words, trial, choose):
    process = trial.start()
    found = wait_until(lambda: words in trial.said(), process)
    time.sleep(choose.uniform(0.0, 0.5))
    when = kill(trial, process, "in it")
    return when if found else "too late"


def _ask_after(words, trial, choose):
    process = trial.start()
    found = wait_until(lambda: words in trial.said(), process)
    time.sleep(choose.uniform(0.0, 0.5))
    when = _ask(trial, process)
    return when if found else "too late"


def _ask(trial, process) -> str:
    """SIGTERM: the process must save, say how to go on, and end well."""
    has_begun = trial.said() != ""  # before that it is still importing
    process.terminate()
    codes = (FINISHED,) if has_begun else (FINISHED, -signal.SIGTERM)
    if trial.expect(process, codes=codes, words=()) != FINISHED:
        return "before it began"
    if trial.is_finished:
        return "too late"
    steps = [home.steps() for home in trial.homes]
    if "stopped in the warm start" in trial.said() and not any(steps):
        return "in the warm start"
    if "the same command goes on from there" not in trial.said():
        raise BrokenPromise(f"does not say how to go on: {trial.said()}")
    for home, saved in zip(trial.homes, steps, strict=True):
        if saved[-1] != max(home.last_tick(), 0):  # no line before the first tick
            raise BrokenPromise(
                f"{home.folder.name} stopped at tick {home.last_tick()}, but saved "
                f"{saved}"
            )
    return f"at tick {trial.last_tick()}"


def _unfinished(trial) -> int:
    """Checkpoints that are being written, or were when the process died."""
    return sum(len(list(home.checkpoints.glob("*-tmp*"))) for home in trial.homes)


def _fill(path: pathlib.Path) -> None:
    """Writes a file until nothing more can be written."""
    with path.open("wb", buffering=0) as file:
        for size in (2**16, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)):
                    pass
