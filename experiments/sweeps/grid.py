"""Points of a sweep: axes from the command line, typed by the config, and their names.

A point is a dict of overrides, {"learner.learning_rate": 1e-4}. Its name says what
differs between the points, and nothing else, so that it can be a folder.
"""

import ast
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from experiments.config import fields, renames
from experiments.config.checks import require

LONGEST_VALUE = 40


def parse(arguments: Sequence[str]) -> dict[str, list]:
    """The axes of a grid: {field: its values}, in the order given.

    Args:
      arguments: each "FIELD=VALUE,VALUE".

    Raises:
      ValueError: a field that does not exist, or a value of another type.
    """
    axes = {}
    for argument in arguments:
        field, equals, text = argument.partition("=")
        flag, field = f"sweep.{field}", renames.current(field)
        require(equals and text, flag, text, "FIELD=VALUE,VALUE,...")
        require(field not in axes, flag, text, "given once")
        axes[field] = values = _values(field, text)
        repeated = [v for k, v in enumerate(values) if v in values[:k]]
        require(not repeated, flag, text, f"free of repetitions: {repeated}")
    return axes


def product(axes: Mapping[str, Sequence]) -> list[dict[str, Any]]:
    """Every combination of the axes; the first axis turns slowest."""
    return [
        dict(zip(axes, values, strict=True))
        for values in itertools.product(*axes.values())
    ]


def names(points: Iterable[Mapping[str, Any]]) -> list[str]:
    """One name per point: "credit=agentic__learning_rate=0.0001".

    Fields that have one value throughout are left out; a field is called by the end of
    its dotted name that tells it apart from the others.

    Raises:
      ValueError: two points are the same.
    """
    points = list(points)
    mentioned = dict.fromkeys(field for point in points for field in point)
    differ = [
        field
        for field in mentioned
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


def _values(field, text):
    """The values of one axis, of the type that the field has."""
    if fields.kind_of(field).type is tuple:
        return [fields.convert(field, value) for value in _literals(field, text)]
    return [fields.parse(field, part.strip()) for part in text.split(",")]


def _literals(field, text):
    """ "("a", "b"), ("c",)" -> its tuples."""
    try:
        return ast.literal_eval(f"[{text}]")
    except (SyntaxError, ValueError):
        raise ValueError(
            f'{field}={text!r} must be tuples, like ("a", "b"), ("c",)'
        ) from None


def _short_names(names):
    """{field: the shortest end of it that no other field has}."""
    short = {}
    for field in names:
        parts = field.split(".")
        for count in range(1, len(parts) + 1):
            end = ".".join(parts[-count:])
            if not any(
                other != field and f".{other}".endswith(f".{end}") for other in names
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
