"""Ends processes together with whatever they have started.

For processes that lead a group of their own (``start_new_session=True``).
"""

import os
import signal
import subprocess
import time
from collections.abc import Sequence

#: Seconds that a process gets to save and to end after it was asked to.
GRACE = 60.0


def end_process_group(process: subprocess.Popen, *, seconds: float = GRACE) -> int:
    """``end_process_groups`` for one process; returns its exit code."""
    end_process_groups([process], seconds=seconds)
    return process.returncode


def end_process_groups(
    processes: Sequence[subprocess.Popen], *, seconds: float = GRACE
) -> None:
    """Asks all of them to end, and makes sure that nothing of them is left.

    Each leader gets one SIGTERM, and all have the same ``seconds`` to save and to end;
    then every group is killed: leaders that did not end, and what the others left
    behind. Leaders may have ended before. If the waiting is interrupted (a second
    Ctrl-C), the groups are killed at once.
    """
    for process in processes:
        process.terminate()  # does nothing to one that has ended
    deadline = time.monotonic() + seconds
    try:
        for process in processes:
            try:
                process.wait(timeout=max(deadline - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                continue
    finally:
        for process in processes:
            kill_process_group(process)


def kill_process_group(process: subprocess.Popen) -> None:
    """Kills the leader, if it is still there, and its group; waits for the leader."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # nothing, or no group, is left of it
        process.kill()
    process.wait()
