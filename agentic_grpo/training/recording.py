"""What one run leaves in its folder, and what it needs to go on from there."""

import json
import pathlib
import time
from collections.abc import Callable
from typing import Any

import jax
from absl import logging

from agentic_grpo.training import (
    bases,
    json_files,
    leaves,
    loop,
    metrics,
    processes,
    run_folder,
)
from agentic_grpo.training.checkpoints import Checkpoints

#: A rate that differs by less than this share has not jumped.
_LEVEL = 1e-3


class Recording:
    """Metrics, checkpoints and summary of one run; a context manager.

    In a job of several processes all of them save, and the first writes the rest.

    Attributes:
      folder: of the run.
      settings: of the run; see ``run_folder``. Read here are ``num_ticks``,
        ``ticks_per_dispatch``, ``checkpoint.keep``, ``checkpoint.keep_best`` and
        ``logging.tensorboard``.
      before: rates of its base model on the test problems; None until they are known.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        settings: run_folder.Settings,
        *,
        schedule_to: Callable[[int], Callable[[int], Any]],
        share: float = 1.0,
        base: bases.Base | None = None,
    ):
        """Touches nothing on disk but the folder.

        Args:
          folder: claimed.
          settings: of the run.
          schedule_to: (last tick) -> (tick -> learning rate) of such a run.
          share: of the time that passes, which is this run's.
          base: what its checkpoints leave out; None: nothing.
        """
        self.folder, self.settings = folder, settings
        self._base = base
        self.before: dict[str, float] | None = None
        self._schedule_to = schedule_to
        self._checkpoints = Checkpoints(
            folder / run_folder.CHECKPOINTS,
            keep=settings["checkpoint"]["keep"],
            keep_best=settings["checkpoint"]["keep_best"],
        )
        self._writer = metrics.MetricsWriter(
            folder, tensorboard=settings["logging"]["tensorboard"]
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
          ValueError: the checkpoints are of other settings, or gone.
          CheckpointError: none is intact.
        """
        if self._checkpoints.latest_step() is None:
            run_folder.require_no_metrics(self.folder)
            return None
        state, notes = bases.restore(
            self._checkpoints,
            self._base,
            target,
            check=lambda notes: run_folder.require_notes_of(
                notes, self.settings, self.folder
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
            "config": json.dumps(self.settings),
            "before": json_files.finite(self.before),
            "seconds": self._seconds(),
        }
        if self._base is not None:
            notes[bases.DIGEST] = self._base.digest
            state = bases.without_base(state)
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
        assert self.before is not None  # it was tested before it was trained
        return run_folder.write_summary(
            self.folder, self.settings, self.before, after, seconds=seconds
        )

    def _seconds(self):
        passed = time.perf_counter() - self._started
        return self._spent + self._share * passed

    def _warn_of_a_jump(self, saved, tick):
        """Schedules count down to ``num_ticks``: another end is another rate now.

        ``tick`` is that of the schedule, which starts after the pilot.
        """
        before, now = (
            float(self._schedule_to(end)(tick))
            for end in (saved["num_ticks"], self.settings["num_ticks"])
        )
        if abs(now - before) > _LEVEL * max(before, now):
            logging.warning(
                "%s: with num_ticks=%d in place of %d the learning rate of tick %d is "
                "%.3g in place of %.3g, so this is not the run that would have been so "
                "long from the start",
                self.folder,
                self.settings["num_ticks"],
                saved["num_ticks"],
                tick,
                now,
                before,
            )

    def _warn_of_gaps(self, found, tick):
        every = self.settings["ticks_per_dispatch"]
        expected = range(0, tick + 1 if tick else 0, every)
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
