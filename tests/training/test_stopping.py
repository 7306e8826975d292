"""A run is asked to stop once; twice ends it wherever it is."""

import os
import signal
import subprocess
import sys

import pytest

from agentic_grpo.training import stopping


@pytest.mark.parametrize("number", stopping.SIGNALS)
def test_a_signal_is_a_request_and_no_end_within_the_block(number):
    before = signal.getsignal(number)
    with stopping.stop_on_signals() as stop_requested:
        assert not stop_requested.is_set()
        os.kill(os.getpid(), number)
        assert stop_requested.is_set()
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(("apart", "ends"), [(1e9, []), (0.0, [128 + signal.SIGINT])])
def test_one_that_a_launcher_passes_on_is_no_second_wish(monkeypatch, apart, ends):
    ended = []
    monkeypatch.setattr(stopping, "APART", apart)
    monkeypatch.setattr(stopping.os, "_exit", ended.append)
    with stopping.stop_on_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
    assert ended == ends  # the end of the block has read all that came


def test_other_signals_are_not_heard(monkeypatch):
    old = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with stopping.stop_on_signals() as stop_requested:
            os.kill(os.getpid(), signal.SIGUSR1)
        assert not stop_requested.is_set()
    finally:
        signal.signal(signal.SIGUSR1, old)


#: Waits where no handler of Python's runs, as in a compilation.
BLOCKED = """
import ctypes
from agentic_grpo.training import stopping
stopping.APART = 0.0
with stopping.stop_on_signals():
    library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(mutex)
    print("blocked", flush=True)
    library.pthread_mutex_lock(mutex)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="blocks in the C library of Linux")
def test_the_second_signal_ends_what_hears_no_handler():
    process = subprocess.Popen(
        [sys.executable, "-c", BLOCKED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "blocked\n"
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline().startswith("SIGINT: saves and stops")
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert said.startswith("SIGTERM again: ended at once")


def test_sigterm_can_be_an_interrupt():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), stopping.sigterm_interrupts():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
