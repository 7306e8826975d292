"""Whoever is ended takes its children along, and nobody is waited for without end."""

import signal
import subprocess
import sys

import pytest

from experiments.runs import process_groups

#: Starts a child that would live on, says its number, and waits.
PARENT = """
import signal, subprocess, sys, time
{prelude}
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
print(child.pid, flush=True)
{rest}
"""
IGNORES = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


def start(*, prelude="", rest="time.sleep(1000)"):
    """(the parent, what ends when its child does)."""
    code = PARENT.format(prelude=prelude, rest=rest)
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    process.stdout.readline()  # the child is there, and holds the pipe too
    return process


def assert_that_nothing_is_left(process):
    assert process.stdout.read() == ""  # returns when the last holder has ended
    process.stdout.close()


@pytest.mark.parametrize("prelude", ["", IGNORES], ids=["ends", "ignores SIGTERM"])
def test_the_children_end_too(prelude):
    process = start(prelude=prelude)
    seconds = 0.2 if prelude else 60.0
    code = process_groups.end_process_group(process, seconds=seconds)
    assert code == (-signal.SIGKILL if prelude else -signal.SIGTERM)
    assert_that_nothing_is_left(process)


def test_what_one_that_has_ended_left_behind_is_killed():
    process = start(rest="raise SystemExit(3)")
    assert process.wait() == 3
    assert process_groups.end_process_group(process) == 3
    assert_that_nothing_is_left(process)


def test_all_have_the_same_time_together(monkeypatch):
    waited = []

    class Stuck:
        pid, returncode = 0, None

        def terminate(self):
            waited.append("asked")

        def wait(self, timeout=None):
            waited.append(timeout)
            raise subprocess.TimeoutExpired("stuck", timeout)

    times = iter([100.0, 101.0, 107.0])
    monkeypatch.setattr(process_groups.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(
        process_groups, "kill_process_group", lambda process: waited.append("killed")
    )
    process_groups.end_process_groups([Stuck(), Stuck()], seconds=5.0)
    # until 105: 4 s are left for the first, none for the second
    assert waited == ["asked", "asked", 4.0, 0.0, "killed", "killed"]


def test_an_interrupted_wait_kills_at_once(monkeypatch):
    process = start(prelude=IGNORES)

    def interrupted(timeout=None):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(process, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        process_groups.end_process_group(process)
    assert process.returncode == -signal.SIGKILL
    assert_that_nothing_is_left(process)
