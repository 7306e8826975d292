"""What a checkpoint says of itself: a JSON record beside the arrays.

It holds the caller's own metadata (the config, say), the environment that wrote it, and
type, shape and checksum of each leaf, so that another configuration and a damaged file
are told apart, and both by name. It carries its own checksum as well.
"""

import json
import math
import pathlib
import zlib
from typing import Any

import numpy as np
from absl import logging

from agentic_grpo.training import host, leaves

#: Version of the layout of the state. A checkpoint of another version is refused.
SCHEMA_VERSION = 1

_PUBLIC = ("schema_version", "environment")


def make(
    step: int, metadata: dict, metric: float | None, named: dict[str, leaves.Leaf]
) -> dict[str, Any]:
    """The record of a state of a step, whose leaves are ``named``.

    Raises:
      ValueError: the metadata is not JSON or uses a reserved name; the metric is not
        finite.
    """
    for name in _PUBLIC:
        if name in metadata:
            raise ValueError(f"metadata: {name!r} is added by the record itself.")
    try:
        metadata = json.loads(  # as it will be read: tuples to lists
            json.dumps(metadata, allow_nan=False)
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"metadata: {error}; it must be JSON values.") from error
    if metric is not None and not math.isfinite(metric):
        raise ValueError(f"metric: {metric}; it must be finite.")
    record = {
        "schema_version": SCHEMA_VERSION,
        "step": step,
        "environment": host.describe(),
        "metadata": metadata,
        "metric": None if metric is None else float(metric),
        "leaves": {name: leaves.describe(leaf) for name, leaf in named.items()},
    }
    return {**record, "crc32": _checksum(record)}


def is_intact(record: Any) -> bool:
    """Whether this is a record, whole and unchanged; of any schema version."""
    return isinstance(record, dict) and record.get("crc32") == _checksum(record)


def warn_if_written_elsewhere(record: dict[str, Any], path: pathlib.Path) -> None:
    """Warns where what wrote the checkpoint differs from what reads it here."""
    if differing := host.differences(record["environment"], host.describe()):
        logging.warning(
            "checkpoint %s was written in another environment (%s): the run goes "
            "on, but not bit by bit as it would have there.",
            path,
            "; ".join(differing),
        )


def public(record: dict[str, Any]) -> dict[str, Any]:
    """The caller's metadata, with ``schema_version`` and ``environment`` added."""
    return {**record["metadata"], **{name: record[name] for name in _PUBLIC}}


def newest(directory: pathlib.Path) -> tuple[int, dict[str, Any] | None]:
    """What can be said of a folder of checkpoints without opening one.

    Returns:
      (the newest step, 0 where there is none; the metadata of the newest step whose
      record is intact, None where none is).
    """
    names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
    steps = sorted(int(name) for name in names if name.isdigit())
    for step in reversed(steps):
        try:
            text = (directory / str(step) / "record" / "metadata").read_text()
            record = json.loads(text)
        except (OSError, ValueError):
            continue
        if is_intact(record) and record.get("step", step) == step:
            return steps[-1], record["metadata"]
    return max(steps, default=0), None


def of_part(record: dict[str, Any], part: str) -> dict[str, Any]:
    """The record with the leaves of one part of the state alone; of all for ""."""
    root = f"state/{part}" if part else "state"
    found = {
        name: leaf
        for name, leaf in record["leaves"].items()
        if name == root or name.startswith(f"{root}/")
    }
    return {**record, "leaves": found}


def other_leaves(record: dict[str, Any], named: dict[str, leaves.Leaf]) -> list[str]:
    """How the recorded leaves differ from these; one sentence each, without a stop."""
    saved = {k: f"{v['type']}{v['shape']}" for k, v in record["leaves"].items()}
    wanted = {k: f"{leaves.type_name(v)}{list(np.shape(v))}" for k, v in named.items()}
    return [
        f"{name} was saved as {saved.get(name, 'nothing')}, "
        f"and is {wanted.get(name, 'nothing')} here"
        for name in sorted(saved.keys() | wanted.keys())
        if saved.get(name) != wanted.get(name)
    ]


def changed_leaves(record: dict[str, Any], arrays: dict[str, np.ndarray]) -> list[str]:
    """Names of the arrays whose bytes are not those that were recorded."""
    checksums = {name: leaf["crc32"] for name, leaf in record["leaves"].items()}
    return [
        name
        for name, array in arrays.items()
        if checksums[name] != leaves.checksum(array)
    ]


def _checksum(record: dict[str, Any]) -> int:
    content = {name: value for name, value in record.items() if name != "crc32"}
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
