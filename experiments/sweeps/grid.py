"""Points of a sweep: axes from the command line, typed by the config, and their names.

A point is a dict of overrides, {"learner.learning_rate": 1e-4}. Its name says what
differs between the points, and nothing else, so that it can be a folder.
"""

import ast
import dataclasses
import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

from experiments.config import fields, renames
from experiments.config.checks import require

LONGEST_VALUE = 40

#: Draws per point of a random search, after which there is thought to be no other.
_PATIENCE = 50

_RANGE = re.compile(r"\s*(log|uniform)\((.+),(.+)\)\s*")


@dataclasses.dataclass(frozen=True)
class Range:
    """Numbers that a random search draws from, in place of a list of them.

    Attributes:
      low, high: its ends, both of them possible.
      is_log: equal factors are equally likely, not equal differences.
    """

    low: float
    high: float
    is_log: bool

    def draw(self, random: Random) -> float | int:
        """One number: an int of a range of ints, else one of three digits."""
        low, high = self.low, self.high
        if isinstance(low, int) and not self.is_log:
            return random.randint(low, int(high))
        if self.is_log:
            drawn = math.exp(random.uniform(math.log(low), math.log(high)))
        else:
            drawn = random.uniform(low, high)
        drawn = round(drawn) if isinstance(low, int) else float(f"{drawn:.3g}")
        return min(max(drawn, low), high)


#: {field: its values}; "FIELD+FIELD" and tuples of theirs where they move together.
Axes = Mapping[str, Sequence | Range]


def parse(arguments: Sequence[str]) -> dict[str, list | Range]:
    """The axes of a sweep, in the order given.

    Args:
      arguments: each "FIELD=VALUE,VALUE", or "FIELD+FIELD=VALUE:VALUE,VALUE:VALUE" for
        fields that move together, or "FIELD=uniform(LOW,HIGH)" or "FIELD=log(LOW,HIGH)"
        for a random search.

    Raises:
      ValueError: a field that does not exist, or a value of another type.
    """
    axes, seen = {}, set()
    for argument in arguments:
        typed, equals, text = argument.partition("=")
        flag, together = f"sweep.{typed}", [*map(renames.current, typed.split("+"))]
        require(equals and text, flag, text, "FIELD=VALUE,VALUE,...")
        require(not seen & set(together), flag, text, "given once")
        seen |= set(together)
        key = "+".join(together)
        if scale := _RANGE.fullmatch(text):
            axes[key] = _range(key, *scale.groups())
            continue
        values = _together(together, text) if together[1:] else _values(key, text)
        repeated = [v for k, v in enumerate(values) if v in values[:k]]
        require(not repeated, flag, text, f"free of repetitions: {repeated}")
        axes[key] = values
    return axes


def product(axes: Axes) -> list[dict[str, Any]]:
    """Every combination of the axes; the first axis turns slowest.

    Raises:
      ValueError: one of them is a range, which only a random search can draw from.
    """
    for key, values in axes.items():
        require(
            not isinstance(values, Range),
            f"sweep.{key}",
            values,
            "a list of values, or the sweep a random one: --random=20",
        )
    return [_point(axes, values) for values in itertools.product(*axes.values())]


def draw(axes: Axes, count: int, *, seed: int) -> list[dict[str, Any]]:
    """Points at random, all different; the first ones of a longer search are the same.

    Args:
      axes: of each a value is drawn, with equal chances where they are listed.
      count: of points.
      seed: of the search.

    Raises:
      ValueError: there are fewer points than that.
    """
    points: list[dict[str, Any]] = []
    for number in range(_PATIENCE * count):
        if len(points) == count:
            break
        random = Random(f"{seed}/{number}")
        drawn = [
            values.draw(random) if isinstance(values, Range) else random.choice(values)
            for values in axes.values()
        ]
        point = _point(axes, drawn)
        if point not in points:
            points.append(point)
    rule = f"at most {len(points)}: the axes have no more points"
    require(len(points) == count, "--random", count, rule)
    return points


def _point(axes, values):
    """{field: value} of one value of each axis."""
    point = {}
    for key, value in zip(axes, values, strict=True):
        together = key.split("+")
        point |= zip(together, value if together[1:] else (value,), strict=True)
    return point


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


def _together(names, text):
    """ "16:8,32:16" of two fields -> [(16, 8), (32, 16)]."""
    flag = f"sweep.{'+'.join(names)}"
    found = []
    for part in text.split(","):
        values = part.split(":")
        rule = f"{len(names)} values with : between them, and then a comma"
        require(len(values) == len(names), flag, part, rule)
        pairs = zip(names, values, strict=True)
        found.append(tuple(fields.parse(name, value.strip()) for name, value in pairs))
    return found


def _range(field, scale, low, high) -> Range:
    kind = fields.kind_of(field).type
    flag = f"sweep.{field}"
    require(kind in (int, float), flag, f"{scale}({low},{high})", "of a number's field")
    low, high = (fields.parse(field, end.strip()) for end in (low, high))
    require(low < high, flag, (low, high), "two numbers, the smaller one first")
    is_log = scale == "log"
    require(not is_log or low > 0, flag, low, "above 0 on a logarithmic scale")
    return Range(low, high, is_log)


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
