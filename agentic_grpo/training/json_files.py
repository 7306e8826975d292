"""JSON files of runs, sweeps and studies: written whole, and read with their name."""

import json
import math
import pathlib
from typing import Any

from absl import logging

from agentic_grpo.training import whole_files


def write_json(path: pathlib.Path, value: Any) -> None:
    """Writes a file that is there whole or not at all, on the disk when this returns.

    A number that is not finite is written as null: JSON has no other word for it.
    """
    text = json.dumps(finite(value), indent=2, allow_nan=False)
    with whole_files.replacing(path) as file:
        file.write(text + "\n")


def finite(value):
    """The same value with null for every number that is not finite."""
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    is_number = isinstance(value, float)
    return None if is_number and not math.isfinite(value) else value


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: names the file and what is wrong with it: it is empty, no JSON, or no
        object (what all files of ours hold).
    """
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
        if not text.strip():
            raise ValueError("it is empty")
        value = json.loads(text)
    except (ValueError, RecursionError) as error:  # also bytes that are no UTF-8
        raise ValueError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(
            f"{path} must hold a JSON object; it holds {text.strip()[:40]}"
        )
    return value


def read_json_if_whole(path: pathlib.Path, *, otherwise: str) -> dict[str, Any] | None:
    """The object in a JSON file; None where there is none, or only a damaged one.

    Args:
      path: of the file.
      otherwise: what becomes of a damaged one, for the warning that names it.
    """
    try:
        return read_json(path)
    except FileNotFoundError:
        return None
    except ValueError as error:
        logging.warning("%s; %s", error, otherwise)
        return None
