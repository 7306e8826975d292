"""Jobs of a moment or an hour, and waiting for what must come."""

import os
import pathlib
import time

from agentic_grpo.sandbox import hostile
from agentic_grpo.sandbox.jobs import Calls, Limits

PATIENCE = 60.0  # seconds, of a test that waits for what must come


def adding(x, **limits):
    program = "def f(x): return x + 1"
    limits = Limits(**limits)
    return Calls(program=program, entry="f", arguments=[(x,)], limits=limits)


def looping(**limits):
    limits = Limits(**{"cpu_seconds": 60.0, "wall_seconds": 60.0, **limits})
    program = "def f():\n    while True: pass"
    return Calls(program=program, entry="f", arguments=[()], limits=limits)


def collect(pool, count):
    found, deadline = [], time.monotonic() + PATIENCE
    while len(found) < count:
        assert time.monotonic() < deadline, found
        found += pool.poll(1.0)
    return found


def wait_until(holds):
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def status(process):
    """The fields of /proc/PID/stat after the name; empty when it is gone."""
    try:
        text = pathlib.Path(f"/proc/{process}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def ended(process):
    return status(process)[:1] in ([], ["Z"])


def processor_ticks(process):
    return int(status(process)[11])


def descendants():
    found, fresh = set(), {os.getpid()}
    while fresh:
        found |= fresh
        fresh = {child for one in fresh for child in hostile.children(one)} - found
    return found
