"""Metrics of a run: JSON lines on disk, and TensorBoard if wanted.

``metrics.jsonl`` holds one JSON object per line: ``tick``, and numbers by name. A
number that is not finite is null. Lines are in the order of ticks.
"""

import json
import math
import os
import pathlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

import numpy as np

from agentic_grpo.training import whole_files

FILE_NAME = "metrics.jsonl"

#: Names, or parts of them, that were other ones in 0.1: old runs are read by today's.
RENAMED = {
    "rewards_not_finite": "rewards_refused",
    "/silent_share/": "/zero_variance_share/",
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
        self._file: TextIO | None = None
        self._make_events = _summary_writer() if tensorboard else None
        self._events: Any = None  # tensorboardX's writer

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

    def sync(self) -> None:
        """Returns when all that was written is on the disk.

        To be called before a checkpoint is: none may be newer than the lines before it.
        """
        if self._file is not None:
            os.fsync(self._file.fileno())

    def truncate_after(self, tick: float) -> list[int]:
        """Drops the lines of later ticks, and a half-written last line.

        A resumed run repeats the ticks after its checkpoint; without this they would be
        there twice. The file is replaced as a whole or not at all.

        Returns:
          The ticks of the lines that stay.
        """
        self.close()
        if not self._path.exists():
            return []
        kept = [
            (line["tick"], text)
            for line, text in _lines(self._path)
            if line["tick"] <= tick
        ]
        with whole_files.replacing(self._path) as file:
            file.writelines(text + "\n" for _, text in kept)
        return [tick for tick, _ in kept]

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

    A last line that a crash left half-written is passed over. Numbers of an older
    version are given by the names of today, with one warning.

    Raises:
      FileNotFoundError: there are no metrics.
      ValueError: a line before the last is not a metrics line; names file and line.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        path = path / FILE_NAME
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no metrics here; is it the folder of a run?")
    lines = [line for line, _ in _lines(path)]
    names = {name: _current(name) for name in {name for line in lines for name in line}}
    old = sorted(name for name, now in names.items() if now != name)
    if old:
        warnings.warn(
            f"{path}: names of an older version: {old[0]!r} is {names[old[0]]!r} now"
            + (f", and {len(old) - 1} others" if len(old) > 1 else ""),
            FutureWarning,
            stacklevel=2,
        )
    return [
        {
            names[name]: math.nan if value is None else value
            for name, value in line.items()
        }
        for line in lines
    ]


def _current(name):
    for old, now in RENAMED.items():
        name = name.replace(old, now)
    return name


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
