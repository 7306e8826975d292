"""What became slower since another report: rates, times and memory, row by row.

On the same processor values are compared; on another one only what was measured
against a reference in the same run is, ratio with ratio. Shares and exponents are no
better high or low and are left out.
"""

import json
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from scripts.benchmarks import reporting

#: Allowed to a row that was measured once.
SPREAD_OF_ONE = 0.05

_LOWER_IS_BETTER = ("s", "ms", "MiB")


class Change(NamedTuple):
    """One row now and then.

    Attributes:
      name: suite and row.
      before, now: values, or ratios to a reference.
      unit: of the values; "x" of ratios.
      better: how many times better it is now.
      spread: what noise may do: the spreads of both, added.
    """

    name: str
    before: float
    now: float
    unit: str
    better: float
    spread: float

    @property
    def is_slower(self) -> bool:
        return self.better < 1.0 / (1.0 + self.spread)


def read(place: pathlib.Path) -> dict[str, Any]:
    """A report, or those of a folder as one; of one name the last file's row counts.

    Raises:
      ValueError: there is none, or a file is no report; names it.
    """
    paths = sorted(place.glob("*.json")) if place.is_dir() else [place]
    if not paths:
        raise ValueError(f"against={str(place)!r} must be a report or a folder of them")
    reports = [_read(path) for path in paths]
    processors = {report["machine"].get("processor") for report in reports}
    if len(processors) > 1:
        raise ValueError(
            f"against={str(place)!r} must be of one processor, not of {processors}"
        )
    rows = [row for report in reports for row in report["results"]]
    return {**reports[0], "results": rows}


def _read(path):
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        return {name: report[name] for name in ("machine", "versions", "results")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no report of a benchmark: {error}") from error


def compare(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[Change]:
    """Every row that both have, and that can be compared."""
    machines = [report["machine"].get("processor") for report in (now, before)]
    change = _of_values if machines[0] == machines[1] else _of_ratios
    old = {_key(row): row for row in before["results"]}
    pairs = [(row, old[_key(row)]) for row in now["results"] if _key(row) in old]
    return [found for pair in pairs if (found := change(*pair))]


def _key(row):
    return row["suite"], row["name"], row["reference"]


def _of_values(row, old):
    unit = row["unit"]
    lower = unit in _LOWER_IS_BETTER
    if not (lower or unit.endswith("/s")) or min(row["value"], old["value"]) <= 0:
        return None
    better = row["value"] / old["value"]
    return _change(row, old, "value", unit, 1.0 / better if lower else better)


def _of_ratios(row, old):
    if not row["ratio"] or not old["ratio"] or row["unit"] == "exponent":
        return None
    return _change(row, old, "ratio", "x", row["ratio"] / old["ratio"])


def _change(row, old, field, unit, better):
    spreads = [
        SPREAD_OF_ONE if r.get("spread") is None else r["spread"] for r in (row, old)
    ]
    return Change(
        name=f"{row['suite']}: {row['name']}",
        before=old[field],
        now=row[field],
        unit=unit,
        better=better,
        spread=sum(spreads),
    )


def page(changes: Iterable[Change]) -> str:
    """What is slower than its spread explains, the worst first; or that nothing is."""
    changes = list(changes)
    slower = sorted(
        (change for change in changes if change.is_slower), key=lambda c: c.better
    )
    if not slower:
        return f"Nothing of {len(changes)} is slower by more than its spread."
    lines = [
        f"Slower by more than its spread, of {len(changes)}:",
        "",
        "| what | before | now | unit | times as good | spread |",
        "|---|---:|---:|---|---:|---:|",
    ]
    lines += [
        f"| {c.name} | {reporting.number(c.before)} | {reporting.number(c.now)} "
        f"| {c.unit} | {c.better:.2f} | {100 * c.spread:.0f}% |"
        for c in slower
    ]
    return "\n".join(lines)
