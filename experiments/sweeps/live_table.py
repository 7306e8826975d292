"""What a person sees of a sweep: a live table on a terminal, plain lines elsewhere."""

import json
import os
import pathlib
import sys
import time
from collections.abc import Sequence
from typing import IO, NamedTuple

import rich.console
import rich.live
import rich.table
import rich.text

from agentic_grpo.training import metrics
from agentic_grpo.training.plain_text import printable
from agentic_grpo.training.progress import duration
from experiments.sweeps import scheduler
from experiments.sweeps.scheduler import Progress, State

#: Enough of the end of a metrics file to find the newest evaluation in.
TAIL_BYTES = 1 << 17
RECENT = 5
SOLVE_RATE = "eval/solve_rate"


class Latest(NamedTuple):
    """How far a run has come; None where it has written nothing yet."""

    tick: int | None
    solve_rate: float | None


class Display:
    """The ``show`` of the runner; a context manager."""

    def __init__(
        self, parallel: int, *, stream: IO[str] | None = None, clock=time.monotonic
    ):
        self._parallel = parallel
        self._stream = stream or sys.stderr
        self._clock = clock
        self._states: dict[str, State] = {}
        on_terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        console = rich.console.Console(file=self._stream, highlight=False)
        self._live = rich.live.Live(console=console) if on_terminal else None

    def __enter__(self) -> "Display":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *exception_info) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, progress: Sequence[Progress]) -> None:
        """Shows where all jobs stand."""
        left = scheduler.seconds_left(progress, self._parallel, self._clock())
        if self._live is not None:
            self._live.update(self._table(progress, left))
            return
        for one in progress:
            old = self._states.get(one.job.name, State.WAITING)
            self._states[one.job.name] = one.state
            was_done_before = one.state is State.DONE and one.seconds is None
            if one.state is not old and not was_done_before:
                print(
                    f"[{headline(progress, left)}] {one.job.name}: {describe(one)}",
                    file=self._stream,
                    flush=True,
                )

    def _table(self, progress, left):
        table = rich.table.Table(title=headline(progress, left), title_justify="left")
        for column in ("run", "state", "tick", "solve rate", "seconds"):
            table.add_column(column, justify="left" if column == "run" else "right")
        ended = [p for p in progress if p.seconds is not None]
        ended.sort(key=lambda p: p.started + p.seconds)
        running = [p for p in progress if p.state is State.RUNNING]
        for one in (*ended[-RECENT:], *running):
            tick, rate = latest(one.job.runs[0].folder)
            seconds = one.seconds or self._clock() - one.started
            total = one.job.runs[0].config.num_ticks
            table.add_row(
                rich.text.Text(printable(one.job.name)),
                one.state.value,
                "" if tick is None else f"{tick}/{total}",
                "" if rate is None else f"{rate:.3f}",
                f"{seconds:.0f}",
            )
        return table


def headline(progress: Sequence[Progress], seconds_left: float) -> str:
    """ "12 of 40 done, 1 failed, 2 running, 35 min left"."""
    count = {state: sum(p.state is state for p in progress) for state in State}
    parts = [f"{count[State.DONE]} of {len(progress)} done"]
    for state in (State.FAILED, State.STOPPED, State.RUNNING):
        if count[state]:
            parts.append(f"{count[state]} {state.value}")
    if count[State.WAITING] or count[State.RUNNING]:
        parts.append(f"{duration(seconds_left)} left")
    return ", ".join(parts)


def describe(one: Progress) -> str:
    """ "done, solve rate 0.812, 45 s"."""
    parts = [one.state.value]
    rate = latest(one.job.runs[0].folder).solve_rate
    if one.state is State.DONE and rate is not None:
        parts.append(f"solve rate {rate:.3f}")
    if one.seconds is not None:
        parts.append(duration(one.seconds))
    if one.error:
        parts.append(printable(one.error.strip().splitlines()[-1]))
    return ", ".join(parts)


def report(progress: Sequence[Progress]) -> str:
    """What went wrong, with the traceback of each, and how to go on."""
    failed = [p for p in progress if p.state is State.FAILED]
    unfinished = [p for p in progress if p.state in (State.STOPPED, State.WAITING)]
    parts = [
        printable(f"FAILED {one.job.name} ({one.job.runs[0].folder})\n{one.error}")
        for one in failed
    ]
    done = sum(p.state is State.DONE for p in progress)
    parts.append(f"{done} of {len(progress)} done, {len(failed)} failed")
    if failed or unfinished:
        parts.append("the same command again goes on with what is not done")
    return "\n\n".join(parts)


def latest(folder: pathlib.Path) -> Latest:
    """The newest tick and solve rate of a run, from the end of its metrics."""
    path = folder / metrics.FILE_NAME
    if not path.exists():
        return Latest(None, None)
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - TAIL_BYTES, 0))
        texts = file.read().decode(errors="replace").splitlines()
    tick, rate = None, None
    for text in reversed(texts):
        try:
            line = json.loads(text)
        except ValueError:  # the first may be cut, the last half written
            continue
        if not isinstance(line, dict):
            continue
        tick = line.get("tick") if tick is None else tick
        if line.get(SOLVE_RATE) is not None:
            rate = line[SOLVE_RATE]
            break
    return Latest(tick, rate)
