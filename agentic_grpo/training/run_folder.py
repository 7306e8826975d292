"""A run's folder: which settings it holds, and whether these may go on in it.

Settings are a tree of JSON values: everything that a run depends on, by name. A look
never writes: a folder that is refused, or whose run is finished, stays as it is.
"""

import contextlib
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from agentic_grpo.errors import require
from agentic_grpo.training import (
    checkpoint_record,
    locks,
    metrics,
    processes,
    whole_files,
)
from agentic_grpo.training.json_files import read_json, read_json_if_whole, write_json

#: All that a run depends on, and its ``seed``, ``num_ticks`` and
#: ``evaluation.test_problems``.
Settings = Mapping[str, Any]

#: What may differ when a run goes on.
MAY_DIFFER = ("num_ticks", "devices", "logging", "checkpoint", "profile")

CONFIG = "config.json"
CHECKPOINTS = "checkpoints"
LOCK = ".lock"


@contextlib.contextmanager
def claimed(workdir: pathlib.Path, settings: Settings) -> Iterator[dict | None]:
    """Within the block the folder is this run's, and no other process's.

    In a job of several processes the first claims it, and the others wait for that.

    Yields:
      The summary of the run, if it is finished; else None, and ``config.json`` holds
      the settings.

    Raises:
      ValueError: the folder holds a run with others, named field by field, or
        files that are no run of ours; it has come further than ``num_ticks``; or
        another process trains in it. Nothing is written.
    """
    with contextlib.ExitStack() as stack:
        if processes.is_first_process():
            stack.enter_context(_owned(workdir, settings))
        processes.wait_for_all("the workdir is claimed")
        yield finished(workdir, settings)


def claim(workdir: pathlib.Path, settings: Settings) -> None:
    """Writes ``config.json`` for a process that is to be started; as ``claimed``."""
    with _owned(workdir, settings):
        pass


@contextlib.contextmanager
def _owned(workdir, settings):
    _require_fit(workdir, settings)
    if finished(workdir, settings) is not None:
        yield
        return
    workdir.mkdir(parents=True, exist_ok=True)
    busy = f"workdir={str(workdir)!r} must be free: another process trains in it"
    with locks.alone(workdir / LOCK, busy):
        _require_fit(workdir, settings)  # nobody else changes it any more
        write_json(workdir / CONFIG, json.loads(json.dumps(settings, sort_keys=True)))
        yield


def _require_fit(workdir, settings):
    """Raises a ValueError unless a run of these settings may begin or go on here."""
    if not workdir.is_dir():
        taken = workdir.exists() or workdir.is_symlink()
        require(not taken, "workdir", str(workdir), "a folder; it is none")
        return
    saved = saved_settings(workdir)
    if saved is not None:
        _require_same(saved, settings, workdir)
    elif any(not _is_ours(path.name) for path in workdir.iterdir()):
        raise ValueError(
            f"workdir={str(workdir)!r} has files but no config.json; choose a new one"
        )
    reached, _ = checkpoint_record.newest(workdir / CHECKPOINTS)
    require(
        settings["num_ticks"] >= reached,
        "num_ticks",
        settings["num_ticks"],
        f"at least {reached}, which the run in {workdir} has reached; for fewer ticks "
        "choose a new workdir",
    )


def _is_ours(name):
    """Whether a file may be there before ``config.json`` is."""
    return name.startswith(LOCK) or name.endswith(whole_files.UNFINISHED)


def saved_settings(workdir: pathlib.Path) -> dict[str, Any] | None:
    """The settings of the run in a folder; None where there is none.

    Where ``config.json`` is gone, those of the newest checkpoint.
    """
    path = workdir / CONFIG
    if path.exists():
        return read_json(path)
    _, notes = checkpoint_record.newest(workdir / CHECKPOINTS)
    return None if notes is None else json.loads(notes["config"])


def require_notes_of(notes: dict, settings: Settings, workdir: pathlib.Path) -> None:
    """Raises a ValueError unless a checkpoint was saved by a run of these settings.

    Args:
      notes: its metadata.
      settings: of the run in the folder.
      workdir: the folder.
    """
    _require_same(json.loads(notes["config"]), settings, workdir / CHECKPOINTS)


def _require_same(saved, settings, where):
    different = _differences(saved, settings)
    require(
        not different,
        "workdir",
        str(where),
        "a new folder, or one with this config; it holds a run with another: "
        + "; ".join(different),
    )


def finished(workdir: pathlib.Path, settings: Settings) -> dict | None:
    """The summary of a run of these settings at its last tick, or None.

    A summary that cannot be read counts as none, with a warning: the run then ends anew
    from its last checkpoint.
    """
    summary = read_json_if_whole(
        workdir / "summary.json", otherwise="the run counts as unfinished"
    )
    if summary is None:
        return None
    if summary.get("ticks") != settings["num_ticks"]:
        return None
    saved = saved_settings(workdir)
    return None if saved is None or _differences(saved, settings) else summary


def write_summary(
    workdir: pathlib.Path, settings: Settings, before: dict, after: dict, *, seconds
) -> dict:
    """Writes ``summary.json``, the sign that a run is finished, and returns it.

    Args:
      workdir: of the run.
      settings: of the run.
      before, after: rates on the test problems, of the base model and of the trained.
      seconds: of wall time that the run took, over all its parts.
    """
    summary = {
        "solve_rate_before": before["solve_rate"],
        "solve_rate_after": after["solve_rate"],
        "ticks": settings["num_ticks"],
        "wall_seconds": round(seconds, 1),
        "seed": settings["seed"],
        "test_problems": settings["evaluation"]["test_problems"],
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


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of settings, or of whatever has ``items``, by their dotted names."""
    for name, value in tree.items():
        if hasattr(value, "items"):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _differences(saved, settings):
    """How saved settings differ from these, where a run may not."""
    theirs = dict(flatten(saved))
    return [
        f"{name}: {theirs.get(name, 'missing')!r} there, {ours!r} here"
        for name, ours in flatten(json.loads(json.dumps(settings)))
        if theirs.get(name, "missing") != ours and not _may_differ(name)
    ]


def _may_differ(name):
    return name.split(".")[0] in MAY_DIFFER
