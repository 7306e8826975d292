"""How a config is refused: what stands where, under the path of its field."""

import dataclasses
from collections.abc import Mapping

from ml_collections import ConfigDict

from agentic_grpo.errors import Refused, require, require_choice

__all__ = ["choose", "instantiate", "require"]


def choose(field, name, table):
    """``table[name]``, or a refusal that lists the names and the nearest one."""
    require_choice(field, name, table)
    return table[name]


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
    except Refused as error:
        raise error.under(path) from error


def _hashable(value):
    if isinstance(value, ConfigDict):
        return {key: _hashable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_hashable(item) for item in value)
    return value
