"""A config from the command line: ``--config=FILE``, then ``--config.FIELD=VALUE``.

Flags with a dot in front of their value are set aside before absl reads the others: it
does not know the fields, and a mistyped one is told here in one line with the nearest
name, by every program in the same words.
"""

import difflib
import importlib.util
import pathlib
import re
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from ml_collections import ConfigDict

from agentic_grpo.training import paths
from experiments.config import fields, renames
from experiments.configs import default

#: --config.FIELD=VALUE or --sweep.FIELD=VALUE,VALUE, with one dash or two.
_DOTTED = re.compile(r"--?(config|sweep)\.")

#: The configs that are here, and how one is named.
CONFIGS = pathlib.Path(default.__file__).parent
_NAME = re.compile(r"[\w/]+")

#: What separates a config file from the argument of its ``get_config``.
_ARGUMENT = ".py:"


def set_aside(argv: Sequence[str]) -> list[str]:
    """Puts the flags of fields behind ``--``, where absl leaves them to ``main``."""
    dotted = [argument for argument in argv if _DOTTED.match(argument)]
    rest = [argument for argument in argv if not _DOTTED.match(argument)]
    return [*rest, "--", *dotted] if dotted else list(rest)


def split(arguments: Sequence[str], *prefixes: str) -> dict[str, list[str]]:
    """What is left of the command line, by its prefix: {"config": ["seed=1"]}.

    Raises:
      ValueError: something is no flag of this program.
    """
    found = {prefix: [] for prefix in prefixes}
    for argument in arguments:
        match = _DOTTED.match(argument)
        if match is None or match[1] not in found:
            raise ValueError(f"{argument!r} is no flag of this program; see --help")
        found[match[1]].append(argument[match.end() :])
    return found


def read_config(file: str, changes: Sequence[str] = ()) -> ConfigDict:
    """The locked config of a file, with some fields changed.

    Args:
      file: a Python file with ``get_config()``, FILE.py:ARGUMENT where that takes one;
        or the name of a config that is here, "quickstart" or "ablations/credit".
      changes: each "FIELD=VALUE"; the last one of a field counts.

    Raises:
      ValueError: no such file or field, or a value of another type.
    """
    _, has_argument, argument = file.partition(_ARGUMENT)
    module = load_module(file)
    config = module.get_config(argument) if has_argument else module.get_config()
    return fields.change(config, dict(map(parse_change, changes)))


def load_module(file: str) -> ModuleType:
    """The module of a config file, whatever its argument.

    Raises:
      ValueError: there is no such file, or it has no ``get_config``.
    """
    before, separator, _ = file.partition(_ARGUMENT)
    path = paths.locate(before + separator.removesuffix(":"), "config")
    ours = CONFIGS / f"{file}.py"
    if not path.exists() and _NAME.fullmatch(file) and ours.is_file():
        path = ours
    if path.suffix != ".py" or not path.is_file():
        raise ValueError(
            f"config={file!r} must be a Python file; there is none{_hint(file)}"
        )
    spec = importlib.util.spec_from_file_location("config_of_the_command_line", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, "get_config"):
        raise ValueError(f"config={file!r} must have a function get_config()")
    return module


def _hint(file):
    """The nearest name of a config that is here."""
    names = [
        path.relative_to(CONFIGS).with_suffix("").as_posix()
        for path in CONFIGS.rglob("*.py")
        if path.stem not in ("__init__", "saved")
    ]
    nearest = difflib.get_close_matches(file, names, n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def parse_change(text: str) -> tuple[str, Any]:
    """ "learner.learning_rate=1e-4" -> (its name, its value)."""
    field, equals, value = text.partition("=")
    field = renames.current(field)
    kind = fields.kind_of(field)
    if not equals:
        raise ValueError(
            f"--config.{field} needs a value: --config.{field}=VALUE, {kind}"
        )
    return field, fields.parse(field, value)
