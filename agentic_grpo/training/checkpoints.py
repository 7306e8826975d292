"""Checkpoints on disk: the whole training state, written by Orbax, read back exactly.

A step is one folder with two items: ``state``, the leaves of the state by name, as
plain arrays; and ``record``, the JSON of ``checkpoint_record``. There is no pickle:
opening somebody's checkpoint runs nothing.
"""

import os
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from absl import logging

from agentic_grpo.training import (
    checkpoint_errors,
    checkpoint_record,
    leaves,
    paths,
    processes,
)
from agentic_grpo.training.checkpoint_errors import CheckpointError, DamagedError
from agentic_grpo.training.checkpoint_retention import Retention

__all__ = ["CheckpointError", "Checkpoints"]

State = Any  # a pytree of arrays, typed keys, and bool, int and float leaves


class Checkpoints:
    """The checkpoints of one run; a context manager, whose end waits for pending saves.

    A save is written in the background, and a step appears under its name only when it
    is complete. A program that ends without ``close`` (or the end of the ``with``)
    loses the save that is still being written.
    """

    def __init__(
        self, directory: str | os.PathLike, *, keep: int = 3, keep_best: bool = False
    ):
        """Touches nothing on disk.

        Args:
          directory: holds one folder per step; made by the first ``save``.
          keep: this many newest steps are kept.
          keep_best: the step with the highest ``metric`` is kept as well.
        """
        if keep < 1:
            raise ValueError(f"keep: {keep}; at least 1 checkpoint must be kept.")
        self._directory = pathlib.Path(directory).expanduser().absolute()
        self._retention = Retention(
            keep, keep_best, lambda step: self._read_record(step)["metric"]
        )
        self._manager: ocp.CheckpointManager | None = None
        self._damaged: set[int] = set()
        self._known = paths.identity(self._directory)
        self._is_writing = False

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *exception_info) -> None:
        self.close()

    def save(
        self, step: int, state: State, metadata: dict, *, metric: float | None = None
    ) -> bool:
        """Starts to write a state, which may be donated as soon as this returns.

        Args:
          step: later than every step that is here.
          state: the whole training state.
          metadata: JSON values without NaN; given back by ``restore``.
          metric: finite; what ``keep_best`` compares.

        Returns:
          False, with nothing written, where this very step is here already.

        Raises:
          CheckpointError: the folder was moved or deleted since, or cannot be written.
        """
        self._require_there()
        self._set_damaged_aside()
        latest = self.latest_step()
        if step == latest:
            return False
        if latest is not None and step < latest:
            raise checkpoint_errors.later_one_is_here(self._directory, latest, step)
        named = leaves.named(state)
        record = checkpoint_record.make(step, metadata, metric, named)
        arrays = {
            name: leaves.to_array(leaf)
            for name, leaf in named.items()
            if np.size(leaf)  # Orbax refuses empty arrays, and there is nothing to keep
        }
        items = ocp.args.Composite(
            state=ocp.args.StandardSave(arrays), record=ocp.args.JsonSave(record)
        )
        # asked for while it is being saved
        self._retention.metrics[step] = record["metric"]
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._known = paths.identity(self._directory)
            self._open().save(step, args=items)
            self._is_writing = True
        except Exception as error:  # a full disk surfaces as any of them
            del self._retention.metrics[step]
            raise checkpoint_errors.not_written(self._directory, error) from error
        return True

    def restore(
        self,
        target: State,
        step: int | None = None,
        *,
        check: Callable[[dict], None] = lambda metadata: None,
    ) -> tuple[State, dict]:
        """Reads a state back, bit by bit as it was saved.

        Args:
          target: a state, or its ``jax.eval_shape``. Gives structure, types and shapes
            and, where it is committed to devices or names a sharding, the placement.
          step: which one. None: the newest that is intact; damaged ones are passed over
            with a warning, and set aside by the next ``save``.
          check: (metadata) -> None; looks at the metadata before the state is read, and
            raises what ``restore`` is to raise if it should not be.

        Returns:
          (state, metadata): the metadata that ``save`` was given, with
          ``schema_version`` and ``environment`` added.

        Raises:
          CheckpointError: none is there or intact, or it is another configuration's.
        """
        return self.restore_part("", target, step, check=check)

    def restore_part(
        self,
        part: str,
        target: State,
        step: int | None = None,
        *,
        check: Callable[[dict], None] = lambda metadata: None,
    ) -> tuple[State, dict]:
        """As ``restore``, of one part of the state; nothing else is read.

        Args:
          part: its path within the state, "learner/params" say; "": all of it.
          target: like the part.
          step, check: as in ``restore``.
        """

        def read(candidate):
            record = self._read_record(candidate)
            check(record["metadata"])
            return record, self._read_state(candidate, record, target, part)

        found, (record, state) = self._newest_intact(step, read)
        checkpoint_record.warn_if_written_elsewhere(record, self._path(found))
        return state, checkpoint_record.public(record)

    def steps(self) -> list[int]:
        """The steps that are here, oldest first; without those known to be damaged."""
        if self._manager is None and not self._directory.is_dir():
            return []
        return sorted(set(self._open().all_steps()) - self._damaged)

    def latest_step(self) -> int | None:
        """The newest step; None where there is none."""
        return max(self.steps(), default=None)

    def best_step(self) -> int | None:
        """The step with the highest metric, the newest of equals; None without any."""
        return self._retention.best_of(self.steps())

    def wait(self) -> None:
        """Returns when everything saved so far is on disk.

        Raises:
          CheckpointError: it cannot be written; or the folder was moved or deleted
            meanwhile, and what is there now is what a save in flight made again.
        """
        was_writing, self._is_writing = self._is_writing, False
        if self._manager is not None:
            try:
                self._manager.wait_until_finished()
            except Exception as error:  # as in save
                raise checkpoint_errors.not_written(self._directory, error) from error
        if was_writing:
            self._require_there()

    def _require_there(self):
        if self._known and paths.identity(self._directory) != self._known:
            raise checkpoint_errors.taken_away(self._directory)

    def close(self) -> None:
        """Waits for pending saves and lets go of the folder."""
        try:
            self.wait()
        finally:
            manager, self._manager = self._manager, None
            if manager is not None:
                manager.close()

    def _path(self, step: int) -> pathlib.Path:
        return self._directory / str(step)

    def _open(self) -> ocp.CheckpointManager:
        """The manager of the folder, which exists."""
        if self._manager is None:
            options = ocp.CheckpointManagerOptions(
                create=False, preservation_policy=self._retention
            )
            self._manager = ocp.CheckpointManager(self._directory, options=options)
        return self._manager

    def _newest_intact(self, step: int | None, read: Callable) -> tuple[int, Any]:
        """(step, what ``read`` gives for it); damaged ones are passed over."""
        for candidate in self._candidates(step):
            try:
                found = read(candidate)
            except DamagedError as error:
                if step is not None:
                    raise
                logging.warning("%s", error)
                self._damaged.add(candidate)
                continue
            if self._damaged:
                logging.warning("Continuing from the older step %d.", candidate)
            return candidate, found
        raise checkpoint_errors.all_damaged(self._directory, sorted(self._damaged))

    def _candidates(self, step: int | None) -> list[int]:
        """The steps to try, in order; never empty."""
        self.wait()
        steps = self.steps()
        if not steps:
            raise checkpoint_errors.none_is_here(self._directory)
        if step is not None and step not in steps:
            raise checkpoint_errors.not_here(self._directory, step, steps)
        return steps[::-1] if step is None else [step]

    def _read_record(self, step: int) -> dict[str, Any]:
        record = self._read_item(step, "record", ocp.args.JsonRestore())
        checkpoint_errors.require_sound(record, self._path(step), step)
        return record

    def _read_state(
        self, step: int, record: dict[str, Any], target: State, part: str
    ) -> State:
        named = leaves.named(target, part)
        record = checkpoint_record.of_part(record, part)
        if others := checkpoint_record.other_leaves(record, named):
            raise checkpoint_errors.of_another_config(self._path(step), others)
        arrays = {name: leaves.blank(leaf) for name, leaf in named.items()}
        stored = {name: array for name, array in arrays.items() if array.size}
        arrays |= self._read_arrays(step, stored, is_all=not part)
        if changed := checkpoint_record.changed_leaves(record, arrays):
            raise checkpoint_errors.damaged(
                self._path(step), f"the bytes of {changed[0]} have changed"
            )
        placed = [
            leaves.like(leaf, arrays[name], key_impl=record["leaves"][name]["key_impl"])
            for name, leaf in named.items()
        ]
        return jax.tree.unflatten(jax.tree.structure(target), placed)

    def _read_arrays(self, step: int, arrays: dict, *, is_all: bool) -> dict:
        if is_all:
            return self._read_item(step, "state", ocp.args.StandardRestore(arrays))
        how = ocp.checkpoint_utils.construct_restore_args(arrays)
        some = ocp.args.PyTreeRestore(arrays, restore_args=how, partial_restore=True)
        try:
            with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:
                return reader.restore(self._path(step) / "state", args=some)
        except Exception as error:  # a damaged file surfaces as any of them
            raise checkpoint_errors.unreadable(
                self._path(step), "state", error
            ) from error

    def _read_item(self, step: int, item: str, args: ocp.args.CheckpointArgs) -> Any:
        items = ocp.args.Composite(**{item: args})
        try:
            return self._open().restore(step, args=items)[item]
        except Exception as error:  # a damaged file surfaces as any of them
            raise checkpoint_errors.unreadable(self._path(step), item, error) from error

    def _set_damaged_aside(self) -> None:
        """Renames what ``restore`` passed over: these steps will be reached anew."""
        if not self._damaged:
            return
        self.close()
        for step in sorted(self._damaged) if processes.is_first_process() else ():
            aside = self._directory / f"damaged-{step}"
            while aside.exists():
                aside = aside.with_name(aside.name + "-again")
            self._path(step).rename(aside)
        processes.wait_for_all("damaged checkpoints are set aside")
        self._damaged.clear()
