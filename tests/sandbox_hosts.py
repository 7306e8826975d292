"""Scripts that play the host in a process of their own."""

import pathlib
import subprocess
import sys

from agentic_grpo.sandbox import filters

#: Where the library is that is tested: in the clone, or where it is installed.
LIBRARY = pathlib.Path(filters.__file__).resolve().parents[1]

#: Our package without JAX, and ``forbid``: the kernel refuses calls from then on.
PRELUDE = f"""
import ctypes, os, platform, struct, sys, types
ours = types.ModuleType("agentic_grpo")
ours.__path__ = [{str(LIBRARY)!r}]
sys.modules["agentic_grpo"] = ours
from agentic_grpo.sandbox import filters, jobs
from agentic_grpo.sandbox.pool import Pool
libc = ctypes.CDLL(None, use_errno=True)

def forbid(calls, *, answer={filters.DENY:#x}, first_argument=None):
    program = filters.instruction(filters.LOAD, filters.NUMBER_AT)
    for number in calls[platform.machine()]:
        skip = 1 if first_argument is None else 4
        program += filters.instruction(filters.IF_EQUAL, number, otherwise=skip)
        if first_argument is not None:
            program += filters.instruction(filters.LOAD, filters.ARGUMENTS_AT)
            program += filters.instruction(
                filters.IF_EQUAL, first_argument, otherwise=1
            )
            program += filters.instruction(filters.RETURN, answer)
            program += filters.instruction(filters.RETURN, filters.ALLOW)
        else:
            program += filters.instruction(filters.RETURN, answer)
    program += filters.instruction(filters.RETURN, filters.ALLOW)
    kept = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("@HP", len(program) // 8, ctypes.addressof(kept))
    zeros = [ctypes.c_ulong(0)] * 3
    assert libc.prctl(38, ctypes.c_ulong(1), *zeros) == 0
    assert libc.prctl(22, ctypes.c_ulong(2), described, *zeros[:2]) == 0
"""


def run(text, *, environment=None):
    """Runs the script to its end; fails where it does."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PRELUDE + text],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def start(text):
    """Starts the script and returns it, its output to be read."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PRELUDE + text],
        stdout=subprocess.PIPE,
        text=True,
    )
