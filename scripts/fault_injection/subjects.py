"""One run of ``torture.py``: starting it, what it comes to, and how two runs differ."""

import contextlib
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from agentic_grpo.training import bases, leaves, metrics, run_folder
from agentic_grpo.training.checkpoints import Checkpoints
from experiments.config.build import state_shapes
from experiments.runs import workdir
from scripts.fault_injection.variants import Variant

ROOT = pathlib.Path(__file__).resolve().parents[2]

#: Exit codes: of a run that has done its work or was asked to stop, of one that gives
#: up and says why, and of one that was killed.
FINISHED, REFUSED, KILLED = 0, 1, -signal.SIGKILL

#: Ends of the names of what a run leaves beside its checkpoints.
_LEFT = (".json", ".jsonl", ".npz")

#: Seconds after which a process that should have ended counts as stuck.
PATIENCE = 900


class BrokenPromise(Exception):
    """A process did not end as it should have; says how."""


class Home:
    """The folder of one run."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.checkpoints = folder / "checkpoints"

    @property
    def is_finished(self) -> bool:
        return (self.folder / "summary.json").exists()

    def last_tick(self) -> int:
        """Of the last line of metrics; -1 before there is any."""
        path = self.folder / metrics.FILE_NAME
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return json.loads(lines[-1])["tick"] if lines else -1

    def written(self) -> dict[str, int]:
        """{file: when it was written}, of what a run leaves but its checkpoints."""
        files = (path for path in self.folder.iterdir() if path.suffix in _LEFT)
        return {path.name: path.stat().st_mtime_ns for path in files}

    def steps(self) -> list[int]:
        """The complete checkpoints, oldest first."""
        if not self.checkpoints.is_dir():
            return []
        names = (path.name for path in self.checkpoints.iterdir())
        return sorted(int(name) for name in names if name.isdigit())


class Subject:
    """A folder with the runs of a variant, and the processes that train in it.

    Attributes:
      folder: of all of it.
      homes: of the runs, one per seed.
      starts: processes so far.
      is_regrouped: seeds that shared a program had to go on in programs of other
        sizes, which round differently: their numbers are no longer promised to the bit.
      foreign: () -> the ``Home`` of a run of another config.
    """

    foreign: Callable[[], Home]

    def __init__(self, folder: pathlib.Path, variant: Variant):
        self.folder, self.variant = folder, variant
        self.homes = [Home(folder / f"seed={seed}") for seed in variant.seeds]
        self.starts = 0
        self.is_regrouped = False
        self._lines: list[str] = []

    def command(self) -> list[str]:
        """What trains in it; writes the configs that ``train_seeds`` wants to find."""
        places = [f"--workdir={home.folder}" for home in self.homes]
        if len(self.homes) == 1:
            return ["experiments.train", *self.variant.flags, *places]
        for home, seed in zip(self.homes, self.variant.seeds, strict=True):
            settings = workdir.settings_of(self.variant.config(seed))
            run_folder.claim(home.folder, settings)
        return ["experiments.train_seeds", *places]

    def start(self) -> subprocess.Popen:
        """Starts a process; ``said`` then gives what it says."""
        self.starts += 1
        self._lines = []
        if len({tuple(home.steps()[-1:]) for home in self.homes}) > 1:
            self.is_regrouped = True
        process = subprocess.Popen(
            [sys.executable, "-m", *self.command()],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(
            target=self._lines.extend, args=(process.stdout,), daemon=True
        )
        self._reader.start()
        return process

    def finish(self) -> None:
        """Trains to the end; a finished run then says so and changes nothing."""
        self.expect(self.start(), codes=(FINISHED,), words=())
        if not self.is_finished:
            raise BrokenPromise(f"ended well, but without a summary: {self.said()}")
        written = [home.written() for home in self.homes]
        self.expect(self.start(), codes=(FINISHED,), words=())
        if [home.written() for home in self.homes] != written:
            raise BrokenPromise("a finished run has changed its files")

    def expect(self, process, *, codes, words) -> int:
        """Waits for the end of a process, which must be one of these.

        Raises:
          BrokenPromise: it is stuck, has another exit code, does not say the words, or
            ended in a traceback. (Those that Orbax prints from its threads are not its
            end: an error that is raised comes after them.)
        """
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokenPromise(f"stuck for {PATIENCE} s: {self.said()}") from None
        self._reader.join()
        process.stdout.close()
        missing = [word for word in words if word not in self.said()]
        if code == REFUSED and not _gives_a_reason(self.said()):
            missing.append("error: ")
        if code not in codes or missing:
            raise BrokenPromise(
                f"ended with code {code}, not {codes}, or without the words {missing}: "
                f"{self.said()[-2000:]}"
            )
        return code

    def said(self) -> str:
        return "".join(self._lines)

    def last_tick(self) -> int:
        """That all runs have written a line of; -1 before they have."""
        return min(home.last_tick() for home in self.homes)

    @property
    def is_finished(self) -> bool:
        return all(home.is_finished for home in self.homes)

    def keep(self, base: pathlib.Path) -> pathlib.Path:
        """Moves the files to where they are kept."""
        kept = base / "different" / self.folder.name
        kept.parent.mkdir(exist_ok=True)
        shutil.move(self.folder, kept)
        return kept


def _gives_a_reason(said: str) -> bool:
    """Whether a process that gave up says why, in a line that begins with "error: ".

    A thread that dies at the same moment (those of Orbax do) writes its traceback piece
    by piece into the same stream, and may have begun that line.
    """
    at_its_start = "\nerror: " in f"\n{said}"
    return at_its_start or ("Exception in thread" in said and "error: " in said)


def wait_until(condition, process) -> bool:
    """Waits; False if the process ended, or much time passed, before it held."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def outcome(subject: Subject) -> dict[str, str]:
    """What the runs of a subject have come to, by name."""
    return {
        f"{home.folder.name}, {name}": value
        for home in subject.homes
        for name, value in _outcome(home.folder).items()
    }


def _outcome(folder: pathlib.Path) -> dict[str, str]:
    """Every leaf, every number, the summary of a run."""
    _, experiment = workdir.load_experiment(folder)
    with Checkpoints(folder / "checkpoints") as checkpoints:
        state, _ = bases.restore(
            checkpoints,
            experiment.frozen_base,
            state_shapes(experiment),
            check=lambda notes: None,
        )
    found = {
        name: json.dumps(leaves.describe(leaf))
        for name, leaf in leaves.named(state).items()
    }
    for number, line in enumerate(metrics.read(folder)):
        for name, value in line.items():
            if not name.startswith("time/"):
                found[f"line {number}, {name}"] = repr(value)
    summary = json.loads((folder / "summary.json").read_text())
    del summary["wall_seconds"]
    return found | {"summary": json.dumps(summary, sort_keys=True)}


def differences(
    got: dict[str, str], wanted: dict[str, str], *, is_regrouped: bool = False
) -> list[str]:
    """What differs, a sentence each.

    Of seeds that were regrouped every line and every leaf must be there, at its tick;
    the numbers in them may differ by rounding, and by what rounding leads to.
    """
    if is_regrouped:
        kept = [name for name in wanted if name.endswith(", tick")]
        names = sorted(got.keys() ^ wanted.keys())
        found = [f"{name}: there in one of them alone" for name in names]
        return found + differences(
            {name: got[name] for name in kept if name in got},
            {name: wanted[name] for name in kept},
        )
    return [
        f"{name}: {got.get(name, 'missing')}, not {wanted.get(name, 'missing')}"
        for name in sorted(got.keys() | wanted.keys())
        if got.get(name) != wanted.get(name)
    ]


@contextlib.contextmanager
def small_disk(folder: pathlib.Path, *, megabytes=16):
    """A file system of its own in memory; None where it cannot be mounted."""
    folder.mkdir(exist_ok=True)
    size = f"size={megabytes}m"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        print("no small disk can be mounted here; its disturbances are left out")
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
