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

from agentic_grpo.training import leaves, metrics
from agentic_grpo.training.checkpoints import Checkpoints
from experiments.config.build import state_shapes
from experiments.runs import workdir

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUM_TICKS = 24

#: A run of many dispatches, each with a checkpoint, in which every tick learns.
FLAGS = (
    "--config=experiments/configs/smoke.py",
    f"--config.num_ticks={NUM_TICKS}",
    "--config.checkpoint.every=2",
    "--config.evaluation.every=4",
    "--config.env.code_execution.stages=('code',)",
    "--config.env.code_execution.hidden_rate=0.0",
    "--config.env.code_execution.verdict_latency.minimum=5",
    "--config.rollout.group_size=4",
    "--config.learner.entropy_weight=0.01",
    "--config.learner.kl_weight=0.01",
)

#: Exit codes: of a run that has done its work or was asked to stop, of one that gives
#: up and says why, and of one that was killed.
FINISHED, REFUSED, KILLED = 0, 1, -signal.SIGKILL

#: Seconds after which a process that should have ended counts as stuck.
PATIENCE = 900


class BrokenPromise(Exception):
    """A process did not end as it should have; says how."""


class Trial:
    """A folder, and the processes that train in it one after the other."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.checkpoints = folder / "checkpoints"
        self.starts = 0
        self._lines: list[str] = []

    def start(self) -> subprocess.Popen:
        """Starts a process; ``said`` then gives what it says."""
        self.starts += 1
        self._lines = []
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "experiments.train",
                *FLAGS,
                f"--workdir={self.folder}",
            ],
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
        self.expect(
            self.start(), codes=(FINISHED,), words=("is finished; its summary",)
        )

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
        words = (*words, "\nerror: ") if code == REFUSED else words
        missing = [word for word in words if word not in "\n" + self.said()]
        if code not in codes or missing:
            raise BrokenPromise(
                f"ended with code {code}, not {codes}, or without the words {missing}: "
                f"{self.said()[-2000:]}"
            )
        return code

    def said(self) -> str:
        return "".join(self._lines)

    def last_tick(self) -> int:
        """Of the last line of metrics; -1 before there is any."""
        path = self.folder / metrics.FILE_NAME
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return json.loads(lines[-1])["tick"] if lines else -1

    def steps(self) -> list[int]:
        """The complete checkpoints, oldest first."""
        if not self.checkpoints.is_dir():
            return []
        names = (path.name for path in self.checkpoints.iterdir())
        return sorted(int(name) for name in names if name.isdigit())

    def keep(self, base: pathlib.Path) -> pathlib.Path:
        """Moves the files to where they are kept."""
        kept = base / "different" / self.folder.name
        kept.parent.mkdir(exist_ok=True)
        shutil.move(self.folder, kept)
        return kept


def wait_until(condition, process) -> bool:
    """Waits; False if the process ended, or much time passed, before it held."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def outcome(folder: pathlib.Path) -> dict[str, str]:
    """What a run has come to, by name: every leaf, every number, the summary."""
    _, experiment = workdir.load_experiment(folder)
    with Checkpoints(folder / "checkpoints") as checkpoints:
        state, _ = checkpoints.restore(state_shapes(experiment))
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


def differences(got: dict[str, str], wanted: dict[str, str]) -> list[str]:
    """What differs, a sentence each."""
    return [
        f"{name}: {got.get(name, 'missing')}, not {wanted.get(name, 'missing')}"
        for name in sorted(got.keys() | wanted.keys())
        if got.get(name) != wanted.get(name)
    ]


@contextlib.contextmanager
def small_disk(folder: pathlib.Path, *, megabytes=8):
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
