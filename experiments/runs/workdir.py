"""A run's folder: which config it holds, and whether this config may go on in it.

A look never writes: a folder that is refused, or whose run is finished, stays as it is.
"""

import contextlib
import json
import pathlib
from collections.abc import Iterator

from ml_collections import ConfigDict

from agentic_grpo.training import checkpoint_record, metrics, processes, whole_files
from experiments.config import fields
from experiments.config.build import Experiment, build
from experiments.config.checks import require
from experiments.runs import locks
from experiments.runs.files import read_json, read_json_if_whole, write_json

#: What may differ when a run goes on.
MAY_DIFFER = ("num_ticks", "devices", "logging", "checkpoint", "profile")

CHECKPOINTS = "checkpoints"
LOCK = ".lock"


@contextlib.contextmanager
def claimed(workdir: pathlib.Path, config: ConfigDict) -> Iterator[dict | None]:
    """Within the block the folder is this run's, and no other process's.

    In a job of several processes the first claims it, and the others wait for that.

    Yields:
      The summary of the run, if it is finished; else None, and ``config.json`` is that
      of the config.

    Raises:
      ValueError: the folder holds a run with another config, named field by field, or
        files that are no run of ours; it has come further than ``num_ticks``; or
        another process trains in it. Nothing is written.
    """
    with contextlib.ExitStack() as stack:
        if processes.is_first_process():
            stack.enter_context(_owned(workdir, config))
        processes.wait_for_all("the workdir is claimed")
        yield finished(workdir, config)


def claim(workdir: pathlib.Path, config: ConfigDict) -> None:
    """Writes ``config.json`` for a process that is to be started; as ``claimed``."""
    with _owned(workdir, config):
        pass


@contextlib.contextmanager
def _owned(workdir, config):
    _require_fit(workdir, config)
    if finished(workdir, config) is not None:
        yield
        return
    workdir.mkdir(parents=True, exist_ok=True)
    busy = f"workdir={str(workdir)!r} must be free: another process trains in it"
    with locks.alone(workdir / LOCK, busy):
        _require_fit(workdir, config)  # nobody else changes it any more
        write_json(workdir / "config.json", json.loads(config.to_json(sort_keys=True)))
        yield


def _require_fit(workdir, config):
    """Raises a ValueError unless a run of the config may begin or go on here."""
    if not workdir.is_dir():
        taken = workdir.exists() or workdir.is_symlink()
        require(not taken, "workdir", str(workdir), "a folder; it is none")
        return
    saved = _saved_config(workdir)
    if saved is not None:
        _require_same(saved, config, workdir)
    elif any(not _is_ours(path.name) for path in workdir.iterdir()):
        raise ValueError(
            f"workdir={str(workdir)!r} has files but no config.json; choose a new one"
        )
    reached, _ = checkpoint_record.newest(workdir / CHECKPOINTS)
    require(
        config.num_ticks >= reached,
        "num_ticks",
        config.num_ticks,
        f"at least {reached}, which the run in {workdir} has reached; for fewer ticks "
        "choose a new workdir",
    )


def _is_ours(name):
    """Whether a file may be there before ``config.json`` is."""
    return name.startswith(LOCK) or name.endswith(whole_files.UNFINISHED)


def _saved_config(workdir):
    """The config of the run in a folder, as JSON values; None where there is none.

    Where ``config.json`` is gone, that of the newest checkpoint.
    """
    path = workdir / "config.json"
    if path.exists():
        return read_json(path)
    _, notes = checkpoint_record.newest(workdir / CHECKPOINTS)
    return None if notes is None else json.loads(notes["config"])


def require_notes_of(notes: dict, config: ConfigDict, workdir: pathlib.Path) -> None:
    """Raises a ValueError unless a checkpoint was saved by a run of this config.

    Args:
      notes: its metadata.
      config: of the run in the folder.
      workdir: the folder.
    """
    _require_same(json.loads(notes["config"]), config, workdir / CHECKPOINTS)


def _require_same(saved, config, where):
    different = _differences(saved, config)
    require(
        not different,
        "workdir",
        str(where),
        "a new folder, or one with this config; it holds a run with another: "
        + "; ".join(different),
    )


def load_config(workdir: pathlib.Path) -> ConfigDict:
    """The config of the run in a folder.

    Raises:
      ValueError: there is none, or it cannot be read.
    """
    saved = _saved_config(workdir)
    if saved is None:
        raise ValueError(
            f"workdir={str(workdir)!r} has no config.json: no run is there"
        )
    try:
        return fields.from_tree(saved)
    except ValueError as error:
        raise ValueError(f"{workdir / 'config.json'}: {error}") from error


def load_experiment(workdir: pathlib.Path) -> tuple[ConfigDict, Experiment]:
    """The config of the run in a folder, and what it builds.

    Raises:
      ValueError: as ``load_config``; or names the file and the field that is wrong.
    """
    config = load_config(workdir)
    try:
        return config, build(config)
    except ValueError as error:
        raise ValueError(f"{workdir / 'config.json'}: {error}") from error


def finished(workdir: pathlib.Path, config: ConfigDict) -> dict | None:
    """The summary of a run of this config that has reached its last tick, or None.

    A summary that cannot be read counts as none, with a warning: the run then ends anew
    from its last checkpoint.
    """
    summary = read_json_if_whole(
        workdir / "summary.json", otherwise="the run counts as unfinished"
    )
    if summary is None:
        return None
    if summary.get("ticks") != config.num_ticks:
        return None
    saved = _saved_config(workdir)
    return None if saved is None or _differences(saved, config) else summary


def write_summary(
    workdir: pathlib.Path, config: ConfigDict, before: dict, after: dict, *, seconds
) -> dict:
    """Writes ``summary.json``, the sign that a run is finished, and returns it.

    Args:
      workdir: of the run.
      config: of the run.
      before, after: rates on the test problems, of the base model and of the trained.
      seconds: of wall time that the run took, over all its parts.
    """
    summary = {
        "solve_rate_before": before["solve_rate"],
        "solve_rate_after": after["solve_rate"],
        "ticks": config.num_ticks,
        "wall_seconds": round(seconds, 1),
        "seed": config.seed,
        "test_problems": config.evaluation.test_problems,
        "before": before,
        "after": after,
    }
    write_json(workdir / "summary.json", summary)
    return summary


def what_is_left(workdir: pathlib.Path) -> str:
    """What there is to go on from after a run has failed, for a person."""
    reached, notes = checkpoint_record.newest(workdir / CHECKPOINTS)
    if notes is None:
        return f"Nothing is saved in {workdir}."
    return (
        f"What was saved in {workdir} before, up to tick {reached}, is intact, and the "
        "same command goes on from there."
    )


def require_no_metrics(workdir: pathlib.Path) -> None:
    """Refuses a folder whose run has begun but whose checkpoints are gone."""
    path = workdir / metrics.FILE_NAME
    if path.exists() and path.stat().st_size:
        raise ValueError(
            f"workdir={str(workdir)!r} has metrics but no checkpoint to go on from; "
            "restore its checkpoints folder, or choose a new workdir"
        )


def _differences(saved, config):
    """How a saved config differs from one, where a run may not."""
    theirs = dict(fields.flatten(saved))
    return [
        f"{name}: {theirs.get(name, 'missing')!r} there, {ours!r} here"
        for name, ours in fields.flatten(json.loads(config.to_json()))
        if theirs.get(name, "missing") != ours and not _may_differ(name)
    ]


def _may_differ(name):
    return name.split(".")[0] in MAY_DIFFER
