"""A job of several processes ends together, and says who died how."""

import subprocess
import sys
import time

from scripts import run_processes


def process(code):
    return subprocess.Popen([sys.executable, "-c", code])


def test_ends_are_told_in_their_order():
    job = [process("import time; time.sleep(1); raise SystemExit(4)"), process("")]
    assert list(run_processes.wait(job).items()) == [(1, 0), (0, 4)]


def test_what_outlives_a_dead_one_is_killed():
    job = [process("import time; time.sleep(1000)"), process("raise SystemExit(1)")]
    started = time.monotonic()
    ended = run_processes.wait(job, grace=0.5)
    assert list(ended.items()) == [(1, 1), (0, -9)]
    assert time.monotonic() - started < 100


def test_an_end_is_described():
    assert run_processes.describe(1) == "ended with code 1"
    assert run_processes.describe(-9) == "was killed by SIGKILL"
