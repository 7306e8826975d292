"""Starts jobs as processes of their own, each on its share of the processors."""

import contextlib
import dataclasses
import os
import pathlib
import subprocess
import sys

from agentic_grpo.training import run_folder
from experiments.runs import workdir
from experiments.sweeps.scheduler import Job

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAVED = ROOT / "experiments" / "configs" / "saved.py"
LOG = "log.txt"
TRACEBACK = "Traceback (most recent call last)"
LINES_WITHOUT_TRACEBACK = 15


@dataclasses.dataclass(frozen=True, kw_only=True)
class Launcher:
    """The ``launch`` of the runner.

    On CPUs two runs with a thread each get more done than one run with two (a tick is
    made of small operations), so every place has processors to itself.

    Attributes:
      parallel: places.
      warm_start_cache: folder of base models that the runs share.
      compile_cache: passed on; None for the default.
    """

    parallel: int
    warm_start_cache: pathlib.Path
    compile_cache: str | None = None

    def __call__(self, job: Job, slot: int) -> subprocess.Popen:
        """Starts a job; its output goes to ``log.txt`` in its first folder.

        Raises:
          ValueError: a folder holds something else.
        """
        for run in job.runs:
            run_folder.claim(run.folder, workdir.settings_of(run.config))
        with (job.runs[0].folder / LOG).open("ab") as log:
            process = subprocess.Popen(
                self.command(job),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_environment(),
                start_new_session=True,  # Ctrl-C reaches the runner, which asks nicely
            )
        if hasattr(os, "sched_setaffinity"):  # before JAX counts the processors
            with contextlib.suppress(ProcessLookupError):  # it has ended already
                os.sched_setaffinity(process.pid, processors(slot, self.parallel))
        return process

    def command(self, job: Job) -> list[str]:
        folders = [str(run.folder.absolute()) for run in job.runs]
        program = (
            "experiments.train" if len(folders) == 1 else "experiments.train_seeds"
        )
        command = [sys.executable, "-P", "-m", program]  # see _environment
        if len(folders) == 1:
            command += [f"--config={SAVED}:{folders[0]}"]
        command += [f"--workdir={folder}" for folder in folders]
        command += [f"--warm_start_cache={self.warm_start_cache.absolute()}"]
        if self.compile_cache is not None:
            command += [f"--compile_cache={self.compile_cache}"]
        return command


def _environment():
    """That of this process: the programs are ours, whatever lies where it was started.

    What lies there can be imported, too, by its own name; and paths mean the same.
    """
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    found = [str(ROOT), os.getcwd(), *map(os.path.abspath, filter(None, given))]
    return os.environ | {"PYTHONPATH": os.pathsep.join(found)}


def processors(slot: int, parallel: int) -> set[int]:
    """The processors of one place: an equal share, at least one."""
    available = sorted(os.sched_getaffinity(0))
    share = len(available) // parallel
    if share == 0:
        return {available[slot % len(available)]}
    return set(available[slot * share : (slot + 1) * share])


def read_error(job: Job) -> str:
    """The last traceback in a job's log, or its last lines."""
    path = job.runs[0].folder / LOG
    if not path.exists():
        return ""
    text = path.read_text(errors="replace").strip()
    if TRACEBACK in text:
        return text[text.rindex(TRACEBACK) :]
    return "\n".join(text.splitlines()[-LINES_WITHOUT_TRACEBACK:])
