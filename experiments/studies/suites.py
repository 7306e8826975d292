"""What an ablation is: cells x arms x seeds, how arms are tuned, and what is claimed.

A suite is a file of ``experiments/configs/ablations`` with ``get_config()`` and a
``SUITE``. An *arm* is what is compared (a credit rule, a clip ...), a *cell* where it
is compared (a regime, a latency ...). Everything is paired by seed.
"""

import dataclasses
import importlib
import itertools
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from ml_collections import ConfigDict

from experiments.config.checks import choose, require
from experiments.sweeps.planning import Point

PACKAGE = "experiments.configs.ablations"
FOLDER = pathlib.Path(__file__).parents[1] / "configs" / "ablations"

#: What a claim may be about; see ``results.METRICS``.
TICKS_TO_80, SOLVE_RATE = "ticks_to_80", "solve_rate"
TICKS_AFTER_PILOT = "ticks_after_pilot_to_80"

Overrides = Mapping[str, Any]

#: What is compared is measured on problems that neither training nor tuning has seen.
FRESH = {"evaluation.split": "test", "evaluation.seed": 2000}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arm:
    """What is compared.

    Attributes:
      overrides: {field: value}.
      tuned_as: the arm of the search whose setting it takes; None: its own name.
    """

    overrides: Overrides
    tuned_as: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search:
    """How every arm is tuned, with the same effort, on the validation split.

    The setting with the highest solve rate, averaged over the learning curve, over the
    seeds and over the cells, is taken, a steady one before one that falls (see
    ``search.best``): it rewards speed, level and hold. Its eight neighbours on the
    grid of rates and clips are tried too, past the ends in the ratio found there, until
    the best is one whose neighbours are known, at most ``widenings`` times.

    Attributes:
      cells: where; one setting has to serve them all.
      learning_rates: ascending, in equal ratios.
      clips: ascending, in equal ratios.
      clip: (value) -> overrides.
      seeds: of their own, never used again.
      widenings: at most so many times.
    """

    cells: tuple[str, ...]
    learning_rates: tuple[float, ...]
    clips: tuple[float, ...]
    clip: Callable[[float], Overrides]
    seeds: tuple[int, ...]
    widenings: int = 3

    def __post_init__(self):
        for name in ("learning_rates", "clips"):
            values = getattr(self, name)
            require(len(values) > 1, name, values, "at least two, to have a direction")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Claim:
    """What has to be true of candidate against reference, all of it, in one cell.

    Attributes:
      text: in words.
      metric: ``TICKS_TO_80`` or ``TICKS_AFTER_PILOT`` (ratios), or ``SOLVE_RATE`` (a
        difference, at the end).
      cell, candidate, reference: what is compared.
      at_most: the estimate must not exceed it.
      high_below: the upper end of the 95% interval must lie below it.
      low_above: the lower end must lie above it.
      at_least: the estimate must not lie below it.
    """

    text: str
    metric: str
    cell: str
    candidate: str
    reference: str
    at_most: float | None = None
    high_below: float | None = None
    low_above: float | None = None
    at_least: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Suite:
    """One ablation.

    Attributes:
      cells: {name: overrides}.
      arms: {name: ``Arm``}.
      reference: the arm that the others are compared with.
      seeds: of every cell, or {cell: seeds}.
      search: how the arms are tuned; None: see ``settings_of``.
      settings_of: the suite whose search gives the settings; None: those of the config.
      rate_factor: what learning rates of ``settings_of`` are multiplied by: the rule by
        which the default moves with a model, for one of another size.
      claims: what is claimed of the results, written before there are any.
      identical: pairs of arms whose runs must be the same, tick by tick.
      rows, columns: where the cells form a grid, the names of its two axes and their
        values; cells are then named by ``grid_cell``.
      skip: (cell, arm) pairs that are not run.
    """

    cells: Mapping[str, Overrides]
    arms: Mapping[str, Arm]
    reference: str
    seeds: tuple[int, ...] | Mapping[str, tuple[int, ...]]
    search: Search | None = None
    settings_of: str | None = None
    rate_factor: float = 1.0
    claims: tuple[Claim, ...] = ()
    identical: tuple[tuple[str, str], ...] = ()
    rows: tuple[str, tuple] | None = None
    columns: tuple[str, tuple] | None = None
    skip: frozenset[tuple[str, str]] = frozenset()

    def __post_init__(self):
        require(self.reference in self.arms, "reference", self.reference, "an arm")
        for claim in self.claims:
            require(claim.cell in self.cells, "claim.cell", claim.cell, "a cell")
            for arm in (claim.candidate, claim.reference):
                require(arm in self.arms, "claim", arm, "an arm")
        for pair in self.identical:
            require(set(pair) <= set(self.arms), "identical", pair, "two arms")

    def seeds_of(self, cell: str) -> tuple[int, ...]:
        return self.seeds[cell] if isinstance(self.seeds, Mapping) else self.seeds

    def tuned_arms(self) -> list[str]:
        """The arms that are searched: those that take no other's setting."""
        return [name for name, arm in self.arms.items() if arm.tuned_as in (None, name)]


def names() -> list[str]:
    """All suites, by the files that hold them."""
    found = (path for path in FOLDER.glob("*.py") if "SUITE = " in path.read_text())
    return sorted(path.stem for path in found)


def load(name: str) -> tuple[ConfigDict, Suite, str]:
    """(config, suite, docstring) of a suite.

    Raises:
      ValueError: there is none of that name.
    """
    choose("suite", name, dict.fromkeys(names()))
    module = importlib.import_module(f"{PACKAGE}.{name}")
    return module.get_config(), module.SUITE, module.__doc__


def points(suite: Suite, settings: Mapping[str, Overrides]) -> list[Point]:
    """The runs that are compared: one point per cell and arm, on fresh seeds.

    Args:
      suite: the suite.
      settings: {tuned arm: overrides}; an arm that is not there keeps the config's.
    """
    return [
        Point(
            name=f"{slug(cell)}/{slug(name)}",
            overrides={**overrides_of(suite, cell, name, settings), **FRESH},
            seeds=suite.seeds_of(cell),
        )
        for cell, name in itertools.product(suite.cells, suite.arms)
        if (cell, name) not in suite.skip
    ]


def overrides_of(
    suite: Suite, cell: str, name: str, settings: Mapping[str, Overrides]
) -> dict[str, Any]:
    """What an arm changes in a cell: cell, then tuned setting, then the arm's own."""
    arm = suite.arms[name]
    return {
        **suite.cells[cell],
        **settings.get(arm.tuned_as or name, {}),
        **arm.overrides,
    }


def slug(name: str) -> str:
    """A name as a folder: "partly truthful" -> "partly_truthful"."""
    return "".join(c if c.isalnum() or c in ".+-=" else "_" for c in name)


def grid_cell(rows: tuple[str, tuple], columns: tuple[str, tuple], row, column) -> str:
    """The name of a cell in a grid: "fidelity 0.25, latency 20"."""
    return f"{columns[0]} {column}, {rows[0]} {row}"
