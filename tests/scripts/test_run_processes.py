"""A job of several processes ends together, and says who died how."""

import signal
import subprocess
import sys
import time
import unittest.mock

from scripts import run_processes


def process(code, **options):
    return subprocess.Popen(
        [sys.executable, "-c", code], start_new_session=True, **options
    )


def test_ends_are_told_in_their_order():
    job = [process("import time; time.sleep(1); raise SystemExit(4)"), process("")]
    assert list(run_processes.wait(job).items()) == [(1, 0), (0, 4)]


def test_what_outlives_a_dead_one_is_killed():
    job = [process("import time; time.sleep(1000)"), process("raise SystemExit(1)")]
    started = time.monotonic()
    ended = run_processes.wait(job, grace=0.5)
    assert list(ended.items()) == [(1, 1), (0, -9)]
    assert time.monotonic() - started < 100


def test_an_interrupt_asks_all_and_kills_who_does_not_listen(monkeypatch):
    polite = process("import time; time.sleep(1000)")
    deaf = process(
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n"
        "print('deaf', flush=True)\n"
        "time.sleep(1000)",
        stdout=subprocess.PIPE,
        text=True,
    )
    assert deaf.stdout.readline() == "deaf\n"

    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(run_processes.time, "sleep", interrupt)
    ended = run_processes.wait([polite, deaf], grace=0.5)
    assert ended == {0: -signal.SIGTERM, 1: -signal.SIGKILL}
    assert deaf.stdout.read() == ""  # its child, which holds the pipe too, is gone
    deaf.stdout.close()


def test_what_one_that_died_left_behind_goes_with_the_job():
    parent = process(
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n"
        "raise SystemExit(1)",
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run_processes.wait([parent], grace=60) == {0: 1}
    assert parent.stdout.read() == ""
    parent.stdout.close()


def test_the_coordinator_is_of_this_machine_alone(monkeypatch):
    started = []
    monkeypatch.setattr(
        run_processes.subprocess, "Popen", lambda *_, env, **__: started.append(env)
    )
    monkeypatch.setattr(run_processes.threading, "Thread", unittest.mock.MagicMock())
    monkeypatch.setenv("JAX_COORDINATOR_BIND_ADDRESS", "[::]:7777")
    run_processes.start(2, [])
    assert [env["JAX_PROCESS_ID"] for env in started] == ["0", "1"]
    for env in started:  # which is also where process 0 listens: processes.join
        assert env["JAX_COORDINATOR_ADDRESS"].startswith("127.0.0.1:")
        assert "JAX_COORDINATOR_BIND_ADDRESS" not in env


def test_an_end_is_described():
    assert run_processes.describe(1) == "ended with code 1"
    assert run_processes.describe(-9) == "was killed by SIGKILL"
