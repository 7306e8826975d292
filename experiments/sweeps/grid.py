"""Points of a sweep: axes from the command line, typed by the config, and their names.

A point is a dict of overrides, {"learner.learning_rate": 1e-4}. Its name says what
differs between the points, and nothing else, so that it can be a folder.
"""

import ast
import difflib
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from experiments.config.checks import require

PREFIX = "--sweep."
LONGEST_VALUE = 40


def parse(arguments: Sequence[str], config: ConfigDict) -> dict[str, list]:
    """The axes of a grid: {field: its values}, in the order given.

    Args:
      arguments: each ``--sweep.FIELD=VALUE,VALUE``.
      config: gives every field its type.

    Raises:
      ValueError: a field that does not exist, or a value of another type.
    """
    axes = {}
    for argument in arguments:
        field, equals, text = argument.removeprefix(PREFIX).partition("=")
        require(equals and text, PREFIX + field, text, "FIELD=VALUE,VALUE,...")
        require(field not in axes, PREFIX + field, text, "given once")
        axes[field] = values = _values(field, text, config)
        repeated = [v for k, v in enumerate(values) if v in values[:k]]
        require(not repeated, PREFIX + field, text, f"free of repetitions: {repeated}")
    return axes


def product(axes: Mapping[str, Sequence]) -> list[dict[str, Any]]:
    """Every combination of the axes; the first axis turns slowest."""
    return [
        dict(zip(axes, values, strict=True))
        for values in itertools.product(*axes.values())
    ]


def apply(config: ConfigDict, overrides: Mapping[str, Any]) -> ConfigDict:
    """A locked copy of the config with some fields changed.

    Raises:
      ValueError: a field that does not exist, or a value of another type.
    """
    for field in overrides:
        check_field(field, config)
    copy = config.copy_and_resolve_references()
    copy.lock()
    for field, value in overrides.items():
        try:
            copy.update_from_flattened_dict({field: value})
        except TypeError as error:
            raise ValueError(f"{field}={value!r}: {error}") from error
    return copy


def check_field(field: str, config: ConfigDict) -> None:
    """Raises a ValueError, with the nearest name, unless the config has this field."""
    fields = fields_of(config)
    if field not in fields:
        nearest = difflib.get_close_matches(field, fields, n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
        raise ValueError(f"{field!r} is no field of this config{hint}")


def fields_of(config: ConfigDict, prefix: str = "") -> list[str]:
    """The dotted names of all fields."""
    fields = []
    for name in config:
        value = config[name]
        if isinstance(value, ConfigDict):
            fields += fields_of(value, f"{prefix}{name}.")
        else:
            fields.append(prefix + name)
    return fields


def names(points: Iterable[Mapping[str, Any]]) -> list[str]:
    """One name per point: "credit=agentic__learning_rate=0.0001".

    Fields that have one value throughout are left out; a field is called by the end of
    its dotted name that tells it apart from the others.

    Raises:
      ValueError: two points are the same.
    """
    points = list(points)
    fields = list(dict.fromkeys(field for point in points for field in point))
    differ = [
        field
        for field in fields
        if len({json.dumps(p.get(field), default=str) for p in points}) > 1
        or any(field not in p for p in points)
    ]
    short = _short_names(differ)
    named = [
        "__".join(f"{short[f]}={_slug(p[f])}" for f in differ if f in p) or "all"
        for p in points
    ]
    twice = sorted({name for name in named if named.count(name) > 1})
    require(not twice, "sweep", twice, "made of points that differ")
    return named


def _values(field, text, config):
    """The values of one axis, of the type that the field has."""
    check_field(field, config)
    *parents, name = field.split(".")
    owner = config
    for parent in parents:
        owner = owner[parent]
    kind = owner.get_type(name)
    if kind in (tuple, list):
        texts = _literals(field, text)
        return [kind(value) for value in texts]
    return [_value(field, part.strip(), kind) for part in text.split(",")]


def _value(field, text, kind):
    readers = {bool: _boolean, int: int, float: float, str: str}
    try:
        return readers[kind](text)
    except (KeyError, ValueError):
        raise ValueError(f"{PREFIX}{field}: {text!r} is no {kind.__name__}") from None


def _boolean(text):
    return {"true": True, "false": False}[text.lower()]


def _literals(field, text):
    """ "("a", "b"), ("c",)" -> its tuples."""
    try:
        values = ast.literal_eval(f"[{text}]")
    except (SyntaxError, ValueError):
        values = [None]
    if not all(isinstance(value, tuple | list) for value in values):
        raise ValueError(f'{PREFIX}{field}: {text!r} is no ("a", "b"), ("c",), ...')
    return values


def _short_names(fields):
    """{field: the shortest end of it that no other field has}."""
    short = {}
    for field in fields:
        parts = field.split(".")
        for count in range(1, len(parts) + 1):
            end = ".".join(parts[-count:])
            if not any(
                other != field and f".{other}".endswith(f".{end}") for other in fields
            ):
                break
        short[field] = end
    return short


def _slug(value):
    """A value as part of a folder's name; a long one is cut and gets a hash."""
    text = (
        "+".join(map(_slug, value)) if isinstance(value, tuple | list) else str(value)
    )
    slug = re.sub(r"[^A-Za-z0-9.+-]+", "_", text) or "none"
    if len(slug) <= LONGEST_VALUE and slug in (text, "none"):
        return slug
    return f"{slug[:LONGEST_VALUE]}~{hashlib.sha256(text.encode()).hexdigest()[:6]}"
