"""Runs many runs: some side by side, each in a process and a folder of its own.

Finished ones are skipped, interrupted ones go on, and a crash concerns nobody else. The
runner knows what a job costs and whether its folder is finished, and learns the rest
from an injected ``launch``; so its tests need no training.
"""

import dataclasses
import enum
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from absl import logging
from ml_collections import ConfigDict

from agentic_grpo.training import run_folder
from agentic_grpo.training.stopping import sigterm_interrupts
from experiments.config.checks import require
from experiments.runs import process_groups, workdir


class State(enum.Enum):
    """Where a job stands."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One config and the folder it belongs in."""

    folder: pathlib.Path
    config: ConfigDict

    @property
    def is_finished(self) -> bool:
        """Whether its summary is there; one whose files are damaged is not finished.

        It is then tried, and what is wrong with it fails it alone.
        """
        try:
            return (
                run_folder.finished(self.folder, workdir.settings_of(self.config))
                is not None
            )
        except ValueError as error:
            logging.warning("%s; the run counts as unfinished", error)
            return False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """What one process does: one run, or the seeds of a point in one program.

    Attributes:
      name: how people call it.
      runs: at least one.
      seconds: what it is expected to take.
      base_models: hashes of the base models it needs; see ``base_model.key``.
    """

    name: str
    runs: tuple[Run, ...]
    seconds: float
    base_models: frozenset[str] = frozenset()

    @property
    def is_finished(self) -> bool:
        return all(run.is_finished for run in self.runs)


class Process(Protocol):
    """What ``launch`` gives back: a ``subprocess.Popen`` that leads its group."""

    def poll(self) -> int | None: ...


@dataclasses.dataclass
class Progress:
    """One job as it stands.

    Attributes:
      job: which.
      state: where it stands.
      started: of the clock; None before.
      seconds: it took; None before the end.
      slot: which of the parallel places it occupies.
      error: what it left behind when it crashed.
    """

    job: Job
    state: State = State.WAITING
    started: float | None = None
    seconds: float | None = None
    slot: int | None = None
    error: str = ""


def order(jobs: Sequence[Job]) -> list[Job]:
    """First one job for each base model, so that nobody waits for another's."""
    seen: set[str] = set()
    first, rest = [], []
    for job in jobs:
        (rest if job.base_models <= seen else first).append(job)
        seen |= job.base_models
    return first + rest


def shard(jobs: Sequence[Job], text: str) -> list[Job]:
    """The share "2/8" of the jobs: every eighth, from the second.

    Raises:
      ValueError: no such share.
    """
    index, slash, count = text.partition("/")
    legal = bool(slash) and index.isdigit() and count.isdigit()
    legal = legal and 1 <= int(index) <= int(count)
    require(legal, "shard", text, 'like "2/8", the second of eight shares')
    return list(jobs[int(index) - 1 :: int(count)])


def run(
    jobs: Sequence[Job],
    launch: Callable[[Job, int], Process],
    *,
    parallel: int,
    read_error: Callable[[Job], str] = lambda job: "",
    show: Callable[[list[Progress]], Any] = lambda progress: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Any] = time.sleep,
    poll_seconds: float = 0.5,
    end: Callable[[Sequence[Any]], Any] = process_groups.end_process_groups,
) -> list[Progress]:
    """Runs the jobs, ``parallel`` at a time; returns where each stands at the end.

    Args:
      jobs: started in this order.
      launch: (job, slot) -> its process; what it raises fails that job alone.
      parallel: jobs side by side.
      read_error: (job) -> the traceback that a failed job left.
      show: told about all jobs whenever something may have changed.
      clock, sleep, poll_seconds: injected by tests.
      end: makes sure that of some processes, and of their children, nothing is left.

    Raises:
      KeyboardInterrupt: after SIGINT or SIGTERM, when the running jobs have been asked
        to save and to stop, and have done so or, a minute later, were killed; a second
        one kills them at once.
    """
    require(parallel >= 1, "parallel", parallel, "at least 1")
    progress = [
        Progress(job, State.DONE if job.is_finished else State.WAITING) for job in jobs
    ]
    waiting = [p for p in progress if p.state is State.WAITING]
    running: dict[int, tuple[Progress, Process]] = {}
    with sigterm_interrupts():
        try:
            while waiting or running:
                for slot in sorted(set(range(parallel)) - set(running)):
                    if waiting:
                        _start(waiting.pop(0), slot, running, launch, clock)
                for slot, (one, process) in list(running.items()):
                    code = process.poll()
                    if code is not None:
                        del running[slot]
                        end([process])  # nothing that it started outlives it
                        _end(one, code, read_error, clock)
                show(progress)
                if running:
                    sleep(poll_seconds)
        finally:
            end([process for _, process in running.values()])  # they save and stop
            for one, _ in running.values():
                one.state, one.slot = State.STOPPED, None
            show(progress)
    return progress


def seconds_left(progress: Sequence[Progress], parallel: int, now: float) -> float:
    """Wall time until all is done, if what is left takes what the finished ones took.

    Expectations are scaled by how the jobs that ended here compared with theirs.
    """
    ended = [p for p in progress if p.seconds is not None and p.state is State.DONE]
    expected = sum(p.job.seconds for p in ended)
    scale = sum(p.seconds for p in ended) / expected if expected else 1.0
    left = []
    for one in progress:
        if one.state is State.WAITING:
            left.append(one.job.seconds * scale)
        elif one.state is State.RUNNING:
            left.append(max(one.job.seconds * scale - (now - one.started), 0.0))
    return max(sum(left) / parallel, max(left, default=0.0))


def _start(one, slot, running, launch, clock):
    one.started, one.slot, one.state = clock(), slot, State.RUNNING
    try:
        running[slot] = one, launch(one.job, slot)
    except (OSError, ValueError) as error:
        one.state, one.slot, one.error = State.FAILED, None, str(error)


def _end(one, code, read_error, clock):
    one.seconds, one.slot = clock() - one.started, None
    if code != 0:
        one.state = State.FAILED
        one.error = read_error(one.job) or f"exit status {code}, and nothing was said"
    else:  # a run that is asked to stop ends well, but unfinished
        one.state = State.DONE if one.job.is_finished else State.STOPPED
