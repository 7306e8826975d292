"""The training loop: dispatch k, then read what k - 1 brought.

Everything that costs device time is compiled before the loop; inside, the host only
decides what is due and writes down what was measured. Runs that share one program, on a
leading axis of everything, share the loop too: each has an outlet of its own.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from agentic_grpo import rollout_metrics
from agentic_grpo.errors import require
from agentic_grpo.training import evaluation, tick_metrics


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """When things are due, in ticks; all multiples of ``ticks_per_dispatch``.

    Attributes:
      num_ticks: the run ends here.
      ticks_per_dispatch: ticks in one compiled scan; one line of metrics each.
      evaluate_every: 0 for never.
      checkpoint_every: 0 for the end only.
      max_skipped: non-finite steps in a row after which the run stops.
    """

    num_ticks: int
    ticks_per_dispatch: int
    evaluate_every: int
    checkpoint_every: int
    max_skipped: int

    def __post_init__(self):
        for field in ("num_ticks", "evaluate_every", "checkpoint_every"):
            value, per_dispatch = getattr(self, field), self.ticks_per_dispatch
            require(
                value % per_dispatch == 0,
                field,
                value,
                f"a multiple of ticks_per_dispatch={per_dispatch}",
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outlet:
    """Where the results of one run go.

    Attributes:
      write: (tick, values) -> None; writes one line of metrics.
      save: (tick, state) -> None.
      dump: (``refusals.Refused``) -> where it was written.
      name: what messages call the run, where there are several.
    """

    write: Callable[[int, dict], None]
    save: Callable[[int, Any], None]
    dump: Callable[[Any], Any]
    name: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hooks:
    """What the loop calls on the host.

    Attributes:
      dispatch: (state) -> (state, stacked metrics, ``refusals.Refused``); donates its
        state.
      evaluate: (params) -> dict of ``Mean`` and scalars, not yet read.
      stop: () -> whether to end after this dispatch.
      outlets: one per run.
      split: (state, metrics or any other tree) -> list of that of each run. One run
        has everything; several have their entry of the leading axis.
      show: (tick, values of each run) -> None; for whoever watches.
    """

    dispatch: Callable[[Any], Any]
    evaluate: Callable[[Any], dict]
    stop: Callable[[], bool]
    outlets: Sequence[Outlet]
    split: Callable[[Any], Sequence] = lambda tree: [tree]
    show: Callable[[int, list[dict]], None] = lambda tick, lines: None


class NonFiniteError(RuntimeError):
    """Too many steps in a row had a loss or gradient that was not finite."""


class Outcome(NamedTuple):
    """How the loop ended.

    Attributes:
      state: the last, saved by every run that goes well.
      finished: it has reached ``num_ticks``; else it was asked to stop.
      diverged: {index of the outlet: why its run was left behind}.
    """

    state: Any
    finished: bool
    diverged: dict[int, NonFiniteError]


@dataclasses.dataclass
class _Run:
    """What the loop remembers of one run.

    Attributes:
      index: of its outlet.
      outlet: its outlet.
      saved_at: tick of its newest checkpoint.
      skipped: steps in a row that were skipped, up to its last line.
      error: why it was left behind.
    """

    index: int
    outlet: Outlet
    saved_at: int
    skipped: int = 0
    error: NonFiniteError | None = None


class _Dispatched(NamedTuple):
    """One dispatch whose numbers have not been waited for."""

    tick: int
    metrics: Any
    rates: Any
    refused: Any


def train(state, settings: LoopSettings, hooks: Hooks) -> Outcome:
    """Runs the state to ``num_ticks``, or until it is asked to stop.

    A checkpoint that falls due while steps are being skipped is left out, so that the
    newest one is from before the trouble if the run ends in it. Among several runs one
    that diverges is left behind, and the others go on.

    ``time/seconds`` of a line is what passed from the end of the dispatch before to the
    end of its own, so that the lines add up to the time of the loop though dispatches
    overlap; several runs share it equally.

    Args:
      state: a ``tick.TrainState``, already saved; donated.
      settings: when things are due.
      hooks: what the loop calls.

    Raises:
      NonFiniteError: after ``max_skipped`` skipped steps in a row of every run; names
        where the last refused batch lies.
      ValueError: the environment broke its contract.
    """
    tick = int(np.ravel(jax.device_get(state.tick))[0])
    runs = [
        _Run(index, outlet, saved_at=tick) for index, outlet in enumerate(hooks.outlets)
    ]
    read = _Reader(settings, hooks, runs)
    unread = None
    while tick < settings.num_ticks and not hooks.stop():
        read.note_the_end_of(unread)
        with jax.transfer_guard("disallow"):
            state, metrics, refused = hooks.dispatch(state)
        tick += settings.ticks_per_dispatch
        rates = {}
        if _due(tick, settings.evaluate_every) or tick == settings.num_ticks:
            rates = hooks.evaluate(state.learner.policy_params)
        if unread is not None:
            read(unread)
        unread = _Dispatched(tick, metrics, rates, refused)
        if _due(tick, settings.checkpoint_every):
            read(unread)
            unread = None
            _save(tick, state, hooks, [run for run in runs if not run.skipped])
    if unread is not None:
        read(unread)
    _save(tick, state, hooks, runs)
    diverged = {run.index: run.error for run in runs if run.error}
    return Outcome(state, tick >= settings.num_ticks, diverged)


def _due(tick, every):
    return every > 0 and tick % every == 0


def _save(tick, state, hooks, runs):
    """Saves the runs that go well and have no checkpoint of this tick."""
    due = [run for run in runs if not run.error and run.saved_at != tick]
    states = hooks.split(state) if due else []
    for run in due:
        run.outlet.save(tick, states[run.index])
        run.saved_at = tick


class _Reader:
    """Waits for dispatches, writes their lines, leaves behind what has gone wrong."""

    def __init__(self, settings, hooks, runs) -> None:
        self._settings, self._hooks, self._runs = settings, hooks, runs
        self._last_end = time.perf_counter()
        self._end: float | None = None

    def note_the_end_of(self, dispatched: _Dispatched | None) -> None:
        """Before the next dispatch, which may be long, if this one is done already."""
        if dispatched is not None and _is_ready(dispatched.metrics):
            self._end = time.perf_counter()

    def __call__(self, dispatched: _Dispatched) -> None:
        metrics, rates = jax.device_get((dispatched.metrics, dispatched.rates))
        times = self._times()
        metrics, rates = self._hooks.split(metrics), self._hooks.split(rates)
        lines = []
        for run in self._going():
            own = dict(metrics[run.index])
            in_a_row = np.asarray(own.pop("skipped_in_a_row"))
            values = tick_metrics.summarise(own)
            read = evaluation.read(rates[run.index])
            values |= {f"eval/{name}": rate for name, rate in read.items()}
            lines.append(values | times)
            run.outlet.write(dispatched.tick, lines[-1])
            run.skipped = int(in_a_row[-1])
            self._check(run, int(in_a_row.max()), dispatched)
            _require_the_contract(values, dispatched.tick)
        self._hooks.show(dispatched.tick, lines)
        if not self._going():
            raise NonFiniteError(" ".join(str(run.error) for run in self._runs))

    def _going(self):
        return [run for run in self._runs if not run.error]

    def _times(self):
        """What the dispatch took, an equal share for every run."""
        end = self._end or time.perf_counter()
        passed, self._last_end, self._end = end - self._last_end, end, None
        return {
            "time/seconds": passed / len(self._going()),
            "time/ticks_per_second": self._settings.ticks_per_dispatch / passed
            if passed
            else math.nan,
        }

    def _check(self, run, skipped, dispatched):
        if skipped < self._settings.max_skipped:
            return
        refused = self._hooks.split(dispatched.refused)[run.index]
        name = f"{run.outlet.name}: " if run.outlet.name else ""
        run.error = NonFiniteError(
            f"{name}{skipped} steps in a row up to tick {dispatched.tick} had a loss "
            "or gradient that was not finite "
            f"(learner.max_skipped={self._settings.max_skipped}). None of them changed "
            f"the parameters, the newest checkpoint is of tick {run.saved_at}, and the "
            f"batch of the last is in {run.outlet.dump(refused)}."
        )


def _require_the_contract(values, tick):
    """What an environment that breaks its word has brought about is no result."""
    broken = [
        f"{name} {values[name]:.3g} per tick"
        for name in rollout_metrics.CONTRACT
        if values.get(name, 0) > 0
    ]
    if broken:
        raise ValueError(
            f"the environment broke its contract up to tick {tick} "
            f"({', '.join(broken)}): it answered later than its spec declares, or in "
            "ids that are no tokens. agentic_grpo.envs.testing.check_environment helps "
            "to find where"
        )


def _is_ready(tree):
    return all(
        leaf.is_ready() for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array)
    )
