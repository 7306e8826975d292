"""A run's folder: which config it holds, and whether this config may go on in it."""

import contextlib
import json
import os
import pathlib

from absl import logging
from ml_collections import ConfigDict

from agentic_grpo.training import processes, whole_files
from experiments.config import fields
from experiments.config.build import Experiment, build
from experiments.config.checks import require
from experiments.runs.files import read_json, write_json

#: What may differ when a run goes on.
MAY_DIFFER = ("num_ticks", "devices", "logging", "checkpoint", "profile")


@contextlib.contextmanager
def claimed(workdir: pathlib.Path, config: ConfigDict):
    """Within the block the folder is this run's, and no other process's.

    In a job of several processes the first claims it, and the others wait for that.

    Raises:
      ValueError: as ``claim``; or another process trains in the folder.
    """
    with contextlib.ExitStack() as stack:
        if processes.is_first_process():
            workdir.mkdir(parents=True, exist_ok=True)
            stack.enter_context(_locked(workdir))
            claim(workdir, config)
        processes.wait_for_all("the workdir is claimed")
        yield


@contextlib.contextmanager
def _locked(workdir):
    """Two runs in one folder would overwrite each other's files."""
    try:
        import fcntl
    except ImportError:  # no such thing on this system
        yield
        return
    folder = os.open(workdir, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(folder)
        raise ValueError(
            f"workdir={str(workdir)!r} must be free: another process trains in it"
        ) from None
    except OSError as error:  # a file system without locks
        logging.warning("%s cannot be locked: %s", workdir, os.strerror(error.errno))
    try:
        yield
    finally:
        os.close(folder)


def claim(workdir: pathlib.Path, config: ConfigDict) -> None:
    """Writes ``config.json`` into a new folder, or checks the one that is there.

    Raises:
      ValueError: the folder holds a run with another config, named field by field, or
        files that are no run of ours. Nothing is overwritten.
    """
    path = workdir / "config.json"
    if path.exists():
        different = _differences(path, config)
        require(
            not different,
            "workdir",
            str(workdir),
            "a new folder, or one with this config; it holds a run with another: "
            + "; ".join(different),
        )
    elif workdir.exists() and any(
        path.suffix != whole_files.UNFINISHED for path in workdir.iterdir()
    ):
        raise ValueError(
            f"workdir={str(workdir)!r} has files but no config.json; choose a new one"
        )
    workdir.mkdir(parents=True, exist_ok=True)
    write_json(path, json.loads(config.to_json(sort_keys=True)))


def load_config(workdir: pathlib.Path) -> ConfigDict:
    """The config of the run in a folder.

    Raises:
      ValueError: there is none, or it cannot be read.
    """
    path = workdir / "config.json"
    if not path.exists():
        raise ValueError(
            f"workdir={str(workdir)!r} has no config.json: no run is there"
        )
    tree = read_json(path)
    try:
        return fields.from_tree(tree)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


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
    try:
        summary = read_json(workdir / "summary.json")
    except FileNotFoundError:
        return None
    except ValueError as error:
        logging.warning("%s; the run counts as unfinished", error)
        return None
    if summary.get("ticks", -1) < config.num_ticks:
        return None
    return None if _differences(workdir / "config.json", config) else summary


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


def require_no_metrics(workdir: pathlib.Path) -> None:
    """Refuses a folder whose run has begun but whose checkpoints are gone."""
    path = workdir / "metrics.jsonl"
    if path.exists() and path.stat().st_size:
        raise ValueError(
            f"workdir={str(workdir)!r} has metrics but no checkpoint to go on from; "
            "restore its checkpoints folder, or choose a new workdir"
        )


def _differences(path, config):
    """How the config in a file differs from one, where a run may not."""
    theirs = _flat(read_json(path))
    return [
        f"{name}: {theirs.get(name, 'missing')!r} there, {ours!r} here"
        for name, ours in _flat(json.loads(config.to_json())).items()
        if theirs.get(name, "missing") != ours and not _may_differ(name)
    ]


def _flat(tree, prefix=""):
    """{"a": {"b": 1}} -> {"a.b": 1}."""
    flat = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def _may_differ(name):
    return name.split(".")[0] in MAY_DIFFER
