"""How a config is refused: the field, its value, the rule, and the nearest name."""

import dataclasses
import difflib
from collections.abc import Mapping

from ml_collections import ConfigDict


def require(condition, field, value, rule) -> None:
    """Raises a ValueError unless the condition holds."""
    if not condition:
        raise ValueError(f"{field}={value!r} must be {rule}")


def choose(field, name, table):
    """``table[name]``, or a ValueError that lists the names and the nearest one."""
    if name in table:
        return table[name]
    nearest = difflib.get_close_matches(str(name), table, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    raise ValueError(f"{field}={name!r} must be one of {', '.join(table)}{hint}")


def instantiate(path, cls, fields: Mapping):
    """An instance of a dataclass; what it refuses gets the path of its field.

    Lists become tuples and nested fields nested dataclasses, so that it stays hashable.
    """
    values = {}
    for field in dataclasses.fields(cls):
        if field.name in fields:
            value, default = fields[field.name], field.default
            if dataclasses.is_dataclass(default):
                value = instantiate(f"{path}.{field.name}", type(default), value)
            values[field.name] = _hashable(value)
    unknown = sorted(set(fields) - set(values))
    require(not unknown, path, unknown, f"fields of {cls.__name__}")
    try:
        return cls(**values)
    except ValueError as error:
        raise ValueError(f"{path}.{error}") from error


def _hashable(value):
    if isinstance(value, ConfigDict):
        return {key: _hashable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_hashable(item) for item in value)
    return value
