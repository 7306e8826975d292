"""What one run leaves in its folder, and what it needs to go on from there."""

import json
import pathlib
import time
from typing import Any

import jax
from absl import logging
from ml_collections import ConfigDict

from agentic_grpo.training import leaves, loop, metrics, processes
from agentic_grpo.training.checkpoints import Checkpoints
from experiments.config import optimizer
from experiments.runs import files, workdir

#: A rate that differs by less than this share has not jumped.
_LEVEL = 1e-3


class Recording:
    """Metrics, checkpoints and summary of one run; a context manager.

    In a job of several processes all of them save, and the first writes the rest.

    Attributes:
      folder: of the run.
      config: of the run.
      before: rates of its base model on the test problems; None until they are known.
    """

    def __init__(self, folder: pathlib.Path, config: ConfigDict, *, share: float = 1.0):
        """Touches nothing on disk but the folder.

        Args:
          folder: claimed.
          config: of the run.
          share: of the time that passes, which is this run's.
        """
        self.folder, self.config = folder, config
        self.before: dict[str, float] | None = None
        self._checkpoints = Checkpoints(
            folder / workdir.CHECKPOINTS,
            keep=config.checkpoint.keep,
            keep_best=config.checkpoint.keep_best,
        )
        self._writer = metrics.MetricsWriter(
            folder, tensorboard=config.logging.tensorboard
        )
        self._is_first = processes.is_first_process()
        self._share, self._started = share, time.perf_counter()
        self._spent = 0.0  # seconds of earlier parts of the run
        self._newest_line: tuple[int, dict[str, Any]] = (-1, {})

    def __enter__(self) -> "Recording":
        return self

    def __exit__(self, *exception_info) -> None:
        try:
            self._writer.close()
        finally:
            self._checkpoints.close()

    def restore(self, target) -> Any | None:
        """The newest state that is intact; None where the run has not begun.

        Args:
          target: as of ``Checkpoints.restore``.

        Raises:
          ValueError: the checkpoints are another config's, or gone.
          CheckpointError: none is intact.
        """
        if self._checkpoints.latest_step() is None:
            workdir.require_no_metrics(self.folder)
            return None
        state, notes = self._checkpoints.restore(
            target,
            check=lambda notes: workdir.require_notes_of(
                notes, self.config, self.folder
            ),
        )
        self.before, self._spent = notes["before"], notes["seconds"]
        counted = int(state.tick) - int(state.pilot_ticks)
        self._warn_of_a_jump(json.loads(notes["config"]), counted)
        return state

    def begin(self, state) -> None:
        """Saves the state from which the run goes on, and makes its metrics end there.

        No metrics without a checkpoint to go on from: this returns when it is saved.
        """
        tick = int(state.tick)
        self.save(tick, state)
        self._checkpoints.wait()
        if self._is_first:
            found = self._writer.truncate_after(tick if tick else -1)
            self._warn_of_gaps(found, tick)

    def outlet(self, name: str = "") -> loop.Outlet:
        """What the loop calls for this run."""
        return loop.Outlet(write=self.write, save=self.save, dump=self.dump, name=name)

    def write(self, tick: int, values: dict[str, Any]) -> None:
        """Writes a line of metrics."""
        self._newest_line = tick, values
        if self._is_first:
            self._writer.write(tick, values)

    def save(self, tick: int, state) -> None:
        """Starts to save a state; all lines before it are on the disk."""
        written_at, values = self._newest_line
        self._writer.sync()
        notes = {
            "config": self.config.to_json(),
            "before": files.finite(self.before),
            "seconds": self._seconds(),
        }
        score = values.get("eval/solve_rate") if written_at == tick else None
        self._checkpoints.save(tick, state, notes, metric=score)

    def dump(self, refused) -> pathlib.Path:
        """Writes a refused batch; returns where to."""
        path = self.folder / "refused_batch.npz"
        refused = jax.tree.map(leaves.to_host, refused)
        if self._is_first:
            leaves.dump(refused, path)
        return path

    def finish(self, after: dict[str, float]) -> dict | None:
        """Writes the summary, the sign that all is there; None in other processes."""
        seconds = self._seconds()
        self._checkpoints.wait()
        if not self._is_first:
            return None
        return workdir.write_summary(
            self.folder, self.config, self.before, after, seconds=seconds
        )

    def _seconds(self):
        passed = time.perf_counter() - self._started
        return self._spent + self._share * passed

    def _warn_of_a_jump(self, saved, tick):
        """Schedules count down to ``num_ticks``: another end is another rate now.

        ``tick`` is that of the schedule, which starts after the pilot.
        """
        learner, model = self.config.learner, self.config.model
        before, now = (
            float(optimizer.schedule(learner, model, ticks)(tick))
            for ticks in (saved["num_ticks"], self.config.num_ticks)
        )
        if abs(now - before) > _LEVEL * max(before, now):
            logging.warning(
                "%s: with num_ticks=%d in place of %d the learning rate of tick %d is "
                "%.3g in place of %.3g (learner.schedule=%r), so this is not the run "
                "that would have been so long from the start",
                self.folder,
                self.config.num_ticks,
                saved["num_ticks"],
                tick,
                now,
                before,
                learner.schedule,
            )

    def _warn_of_gaps(self, found, tick):
        expected = range(0, tick + 1 if tick else 0, self.config.ticks_per_dispatch)
        if missing := sorted(set(expected) - set(found)):
            logging.warning(
                "%s: %d of %d lines up to tick %d are missing (ticks %s); a crash of "
                "the machine may have taken them, and the run goes on without",
                self.folder / metrics.FILE_NAME,
                len(missing),
                len(expected),
                tick,
                ", ".join(map(str, missing[:5])) + (", ..." if missing[5:] else ""),
            )
