"""The fields of a config: which there are, of what type each is, how a value is typed.

``experiments.configs.default`` is the one list of fields. Every way to set one goes
through here: a flag of any program, an axis of a sweep, a suite, a file on disk. So a
value means the same everywhere and is refused in the same words.
"""

import ast
import difflib
import functools
import reprlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from agentic_grpo.training.run_folder import flatten
from experiments.config import renames
from experiments.configs import default

#: Versions of the schema that are read, and whether a field may be missing: one that
#: came later takes its default, which leaves an old run what it was.
_READ = {1: True, 2: False}


class Kind(NamedTuple):
    """What a field may hold.

    Attributes:
      type: bool, int, float, str or tuple.
      optional: None is a value of its own; it is typed as "none".
    """

    type: type
    optional: bool

    def __str__(self):
        name = {
            bool: "true or false",
            int: "an int",
            float: "a number",
            str: "a name",
            tuple: 'a tuple, like ("a", "b"), ("a",) or ()',
        }[self.type]
        return f"{name}, or none" if self.optional else name


@functools.cache
def kinds() -> dict[str, Kind]:
    """{dotted name: kind} of every field, by name."""
    return dict(_kinds(default.get_config(), ""))


def _kinds(config, prefix):
    for name in config:
        value = config[name]
        if isinstance(value, ConfigDict):
            yield from _kinds(value, f"{prefix}{name}.")
        else:
            yield prefix + name, Kind(config.get_type(name), value is None)


def kind_of(field: str) -> Kind:
    """The kind of a field.

    Raises:
      ValueError: there is no such field; tells the nearest name, or what is in a group.
    """
    if field in kinds():
        return kinds()[field]
    within = [name for name in kinds() if name.startswith(f"{field}.")]
    if within:
        names = ", ".join(within[:3]) + (", ..." if len(within) > 3 else "")
        raise ValueError(
            f"{field!r} is a group of fields, which are set one by one: {names}"
        )
    raise ValueError(f"{field!r} is no field of the config{_hint(field)}")


def _hint(field):
    """The nearest name; else a field that is called so in some group."""
    end = field.rpartition(".")[2]
    nearest = difflib.get_close_matches(field, kinds(), n=1) or [
        name for name in kinds() if name.rpartition(".")[2] == end
    ]
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def parse(field: str, text: str) -> Any:
    """The value of a field that was typed as text.

    Raises:
      ValueError: there is no such field, or this is no value of it; says how one is
        typed.
    """
    kind = kind_of(field)
    if kind.optional and text.lower() == "none":
        return None
    try:
        return convert(field, _READERS[kind.type](text))
    except (SyntaxError, KeyError, ValueError, MemoryError, RecursionError):
        raise ValueError(f"{field}={reprlib.repr(text)} must be {kind}") from None


_READERS = {
    bool: lambda text: {"true": True, "false": False}[text.lower()],
    int: int,
    float: float,
    str: str,
    tuple: ast.literal_eval,
}


def convert(field: str, value: Any) -> Any:
    """A value as the config holds it: an int for a float is one, a list is a tuple.

    Raises:
      ValueError: there is no such field, or it holds values of another type.
    """
    kind = kind_of(field)
    if type(value) is kind.type or (value is None and kind.optional):
        return _tuple(value)
    if kind.type is float and type(value) is int and abs(value) < 2**63:
        return float(value)
    if kind.type is tuple and isinstance(value, list):
        return _tuple(value)
    raise ValueError(f"{field}={reprlib.repr(value)} must be {kind}")


def _tuple(value):
    if isinstance(value, list | tuple):
        return tuple(map(_tuple, value))
    return value


def change(config: ConfigDict, changes: Mapping[str, Any]) -> ConfigDict:
    """A locked copy of a config with some fields changed; {dotted name: value}.

    Raises:
      ValueError: names the field, the value and the rule.
    """
    copy = config.copy_and_resolve_references().unlock()
    for field, value in renames.all_current(changes).items():
        *groups, name = field.split(".")
        value = convert(field, value)
        functools.reduce(lambda group, part: group[part], groups, copy)[name] = value
    return copy.lock()


def check(config: ConfigDict) -> None:
    """Raises a ValueError unless a config has every field, no other, and its types."""
    values = dict(flatten(config))
    for field, value in values.items():
        convert(field, value)
    missing = [field for field in kinds() if field not in values]
    if missing:
        raise ValueError(
            f"{missing[0]!r} is missing from the config: start from "
            "experiments.configs.default.get_config()"
        )


def from_tree(tree: Any) -> ConfigDict:
    """The locked config that was written as JSON.

    Lists become the tuples that they were, and null the None of a field that may be
    None, so that the config is the one that was written, in every field and type. One
    of version 1 is read by its old names; it becomes one of today's version.

    Args:
      tree: as ``json.loads`` gives it; anything.

    Raises:
      ValueError: names the first field that is missing, unknown or of another type.
    """
    if not isinstance(tree, dict):
        raise ValueError(f"a config must be an object of fields, not {tree!r}")
    written = tree.get("schema_version")
    if type(written) is not int or written not in _READ:
        raise ValueError(
            f"schema_version={written!r} must be one of {tuple(_READ)}: another "
            "version of the experiments wrote it"
        )
    values = renames.all_current(dict(flatten(tree)))
    values["schema_version"] = default.get_config().schema_version
    config = change(default.get_config(), values)
    missing = [field for field in kinds() if field not in values]
    if missing and not _READ[written]:
        raise ValueError(f"{missing[0]!r} is missing")
    return config
