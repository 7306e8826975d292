"""Asking a run to stop: once, and it saves and ends; twice, and it ends at once.

The only home of handlers of SIGTERM and SIGINT (Ctrl-C).
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

SIGNALS = (signal.SIGTERM, signal.SIGINT)

#: Seconds after which one more signal is a second wish. Sooner it is taken for the
#: first: a scheduler signals a launcher and its children, and the launcher passes on.
APART = 1.0

_SHOW_CURSOR = "\x1b[?25h"


class stop_on_signals:
    """Within the block SIGTERM and Ctrl-C set an event instead of ending the process.

    Whoever runs looks at the event wherever it can save and end. A second signal ends
    the process at once, wherever it is; what was saved before is intact. A thread hears
    it, since Python runs no handler while the main thread is in a compilation or waits
    for a device.
    """

    def __enter__(self) -> threading.Event:
        self._event = threading.Event()
        self._watcher = None
        if threading.current_thread() is not threading.main_thread():
            return self._event  # which alone gets signals
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        self._handlers = {
            number: signal.signal(number, lambda *_: self._event.set())
            for number in SIGNALS
        }
        self._old_end = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self._event

    def __exit__(self, *_) -> None:
        if self._watcher is None:
            return
        signal.set_wakeup_fd(self._old_end)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._write_end)  # after which the watcher reads to the end
        self._watcher.join()
        os.close(self._read_end)

    def _watch(self) -> None:
        first = None
        while byte := os.read(self._read_end, 1):  # the number of a signal
            if byte[0] not in SIGNALS:
                continue
            name, now = signal.Signals(byte[0]).name, time.monotonic()
            if first is None:
                first = now
                self._event.set()
                _say(f"{name}: saves and stops; once more ends it at once")
            elif now - first >= APART:
                _say(f"{name} again: ended at once. What was saved before is intact.")
                os._exit(128 + byte[0])


def _say(text: str) -> None:
    """Also shows the cursor, which a live display hides."""
    cursor = _SHOW_CURSOR if sys.stderr.isatty() else ""
    print(f"{cursor}{text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Within the block SIGTERM raises KeyboardInterrupt, as Ctrl-C does.

    For a program that only waits for others and has nothing of its own to save.
    """

    def interrupt(*_):
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, old)
