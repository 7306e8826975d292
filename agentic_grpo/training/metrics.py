"""Metrics of a run: JSON lines on disk, TensorBoard if wanted, and what is seen live.

``metrics.jsonl`` holds one JSON object per line: ``tick``, and numbers by name. A
number that is not finite is null. Lines are in the order of ticks.
"""

import collections
import json
import math
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

import numpy as np
import rich.console
import rich.progress

from agentic_grpo.training import whole_files

FILE_NAME = "metrics.jsonl"

#: What the live display shows of all the metrics, with the names it gives them.
SHOWN = {
    "eval/solve_rate": "solve rate",
    "verdict": "verdict",
}


class MetricsWriter:
    """Appends lines to ``metrics.jsonl`` of a run; a context manager."""

    def __init__(self, workdir: str | os.PathLike, *, tensorboard: bool = False):
        """Makes the folder; with ``tensorboard``, event files go to one within it.

        Raises:
          ImportError: tensorboard is asked for and tensorboardX is not installed.
        """
        self._workdir = pathlib.Path(workdir)
        self._workdir.mkdir(parents=True, exist_ok=True)
        self._path = self._workdir / FILE_NAME
        self._file = None
        self._make_events = _summary_writer() if tensorboard else None
        self._events = None

    def __enter__(self) -> "MetricsWriter":
        return self

    def __exit__(self, *exception_info) -> None:
        self.close()

    def write(self, tick: int, values: Mapping[str, Any]) -> None:
        """Appends one line and hands it to the operating system.

        Args:
          tick: ticks done.
          values: scalars (of Python, NumPy or JAX) by name; float32 is written with the
            digits that tell it apart, not with those of its double.
        """
        if "tick" in values:
            raise ValueError("values: 'tick' is the first argument, not a metric.")
        line = {name: _to_number(name, value) for name, value in values.items()}
        if self._file is None:
            self.truncate_after(math.inf)  # a crash may have left half a line
            self._file = self._path.open("a", encoding="utf-8")
        text = json.dumps({"tick": int(tick), **line}, allow_nan=False)
        self._file.write(text + "\n")
        self._file.flush()
        if self._make_events is not None:
            if self._events is None:  # made late, when truncate_after has been
                folder = str(self._workdir / "tensorboard")
                self._events = self._make_events(folder, purge_step=int(tick))
            for name, value in line.items():
                if value is not None:
                    self._events.add_scalar(name, value, int(tick))

    def truncate_after(self, tick: float) -> None:
        """Drops the lines of later ticks, and a half-written last line.

        A resumed run repeats the ticks after its checkpoint; without this they would be
        there twice. The file is replaced as a whole or not at all.
        """
        self.close()
        if not self._path.exists():
            return
        with whole_files.replacing(self._path) as file:
            for line, text in _lines(self._path):
                if line["tick"] <= tick:
                    file.write(text + "\n")

    def close(self) -> None:
        """Closes the files; the next ``write`` opens them again."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._events is not None:
            self._events.close()
            self._events = None


def read(path: str | os.PathLike) -> list[dict[str, float]]:
    """The lines of a run (its folder or the file); null becomes NaN.

    A last line that a crash left half-written is passed over.

    Raises:
      FileNotFoundError: there are no metrics.
      ValueError: a line before the last is not a metrics line; names file and line.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        path = path / FILE_NAME
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no metrics here; is it the folder of a run?")
    return [
        {name: math.nan if value is None else value for name, value in line.items()}
        for line, _ in _lines(path)
    ]


class Progress:
    """What a person sees while a run goes on; a context manager.

    On a terminal a bar with the numbers that matter most; elsewhere (a file, a pipe, a
    scheduler's log) a plain line at each evaluation and about every ten seconds.
    """

    def __init__(
        self,
        total_ticks: int,
        *,
        start_tick: int = 0,
        stream: IO[str] | None = None,
        seconds_between_lines: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Shows nothing before the context is entered.

        Args:
          total_ticks: the run ends here.
          start_tick: where this process begins, after a resume.
          stream: standard error where None.
          seconds_between_lines: of the plain display.
          clock: seconds; injected by tests.
        """
        self._total = total_ticks
        self._clock = clock
        self._seconds_between_lines = seconds_between_lines
        self._last_line = -math.inf
        self._shown: dict[str, float] = {}
        self._times = collections.deque(maxlen=20)  # starts after compilation
        self._stream = stream or sys.stderr
        self._bar = _make_bar(self._stream) if _is_terminal(self._stream) else None
        self._start_tick = start_tick

    def __enter__(self) -> "Progress":
        if self._bar is not None:
            self._task = self._bar.add_task(
                "", total=self._total, completed=self._start_tick, numbers="compiling"
            )
            self._bar.start()
        return self

    def __exit__(self, *exception_info) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, tick: int, values: Mapping[str, float]) -> None:
        """Takes note of metrics; numbers that are not among them stay as they were."""
        self._times.append((tick, self._clock()))
        for name in SHOWN.keys() & values.keys():
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
        (first_tick, first_time), (tick, now) = self._times[0], self._times[-1]
        if tick > first_tick and now > first_time:
            rate = (tick - first_tick) / (now - first_time)
            parts.append(f"{rate:.3g} ticks/s")
            parts.append(f"{_duration((self._total - tick) / rate)} left")
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


def _duration(seconds: float) -> str:
    """ "42 s", "3 min 05 s", "2 h 07 min"."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"


def _to_number(name: str, value: Any) -> int | float | None:
    """A scalar as JSON writes it: int, the shortest float, or None."""
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "biufV":
        raise ValueError(f"values: {name!r} is {value!r}; it must be one number.")
    if array.dtype.kind in "biu":
        return int(array.item())
    number = float(str(array.reshape(())[()]))
    return number if math.isfinite(number) else None


def _lines(path: pathlib.Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Each line, parsed and as it stands; a half-written last one is left out."""
    texts = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    for number, text in enumerate(texts, start=1):
        try:
            line = json.loads(text)
            line["tick"] + 0
        except (ValueError, TypeError, KeyError):
            if number == len(texts):
                return
            message = f"{path}:{number}: not a line of metrics: {text[:80]!r}"
            raise ValueError(message) from None
        yield line, text


def _summary_writer():
    try:
        import tensorboardX
    except ImportError as error:
        raise ImportError(
            "tensorboard: tensorboardX is not installed; pip install "
            "'agentic_grpo[tensorboard]' or set logging.tensorboard to False."
        ) from error
    return tensorboardX.SummaryWriter
