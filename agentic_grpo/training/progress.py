"""What a person sees while a run goes on: a bar on a terminal, lines elsewhere."""

import collections
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import IO

import rich.console
import rich.progress

from agentic_grpo.training.plain_text import printable

#: What the live display shows of all the metrics, with the names it gives them.
SHOWN = {
    "eval/solve_rate": "solve rate",
    "verdict": "verdict",
    "clock/device_waited": "waited",
}


class Progress:
    """What a person sees while a run goes on; a context manager.

    On a terminal a bar with the numbers that matter most; elsewhere (a file, a pipe, a
    scheduler's log) a plain line at each evaluation and about every ten seconds.
    """

    def __init__(
        self,
        total_ticks: int,
        *,
        stream: IO[str] | None = None,
        seconds_between_lines: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Shows nothing before the context is entered.

        Args:
          total_ticks: the run ends here.
          stream: standard error where None.
          seconds_between_lines: of the plain display.
          clock: seconds; injected by tests.
        """
        self._total = total_ticks
        self._clock = clock
        self._seconds_between_lines = seconds_between_lines
        self._last_line = -math.inf
        self._shown: dict[str, float] = {}
        self._times: collections.deque[tuple[int, float]] = collections.deque(maxlen=20)
        self._stream = stream or sys.stderr
        self._bar = _make_bar(self._stream) if _is_terminal(self._stream) else None

    def __enter__(self) -> "Progress":
        if self._bar is not None:
            self._task = self._bar.add_task(
                "", total=self._total, completed=0, numbers="starting"
            )
            self._bar.start()
        return self

    def __exit__(self, *exception_info) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, tick: int) -> None:
        """Ticks are done from here on, after this one; what came before is not timed.

        To be called when all is compiled: the rate is that of the ticks alone.
        """
        self._times.clear()
        self._times.append((tick, self._clock()))
        if self._bar is not None:
            self._bar.update(self._task, completed=tick)

    def update(self, tick: int, values: Mapping[str, float]) -> None:
        """Takes note of metrics; what is not among them, or not known, stays as it was.

        Before ``begin`` no rate is shown.
        """
        if self._times:
            self._times.append((tick, self._clock()))
        for name in SHOWN.keys() & values.keys():
            if math.isfinite(values[name]):
                self._shown[name] = float(values[name])
        if self._bar is not None:
            self._bar.update(self._task, completed=tick, numbers=self._numbers())
            return
        now = self._clock()
        evaluated = any(name.startswith("eval/") for name in values)
        due = now - self._last_line >= self._seconds_between_lines
        if evaluated or due or tick >= self._total:
            self._last_line = now
            self._print(f"tick {tick}/{self._total}  {self._numbers()}")

    def message(self, text: str) -> None:
        """Prints a line of its own, above the bar where there is one."""
        text = printable(text)
        if self._bar is not None:
            self._bar.console.print(text, markup=False)
        else:
            self._print(text)

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def _numbers(self) -> str:
        parts = [
            f"{title} {self._shown[name]:.3f}"
            for name, title in SHOWN.items()
            if name in self._shown
        ]
        if not self._times:
            return "  ".join(parts)
        (first_tick, first_time), (tick, now) = self._times[0], self._times[-1]
        if tick > first_tick and now > first_time:
            rate = (tick - first_tick) / (now - first_time)
            parts.append(f"{rate:.3g} ticks/s")
            parts.append(f"{duration((self._total - tick) / rate)} left")
        return "  ".join(parts)


def _is_terminal(stream: IO[str]) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _make_bar(stream: IO[str]) -> rich.progress.Progress:
    return rich.progress.Progress(
        rich.progress.TextColumn("tick"),
        rich.progress.MofNCompleteColumn(),
        rich.progress.BarColumn(bar_width=24),
        rich.progress.TextColumn("{task.fields[numbers]}"),
        console=rich.console.Console(file=stream, force_terminal=True, highlight=False),
        refresh_per_second=4,
    )


def duration(seconds: float) -> str:
    """ "42 s", "3 min 05 s", "35 min", "2 h 07 min"."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min"
