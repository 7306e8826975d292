"""The training loop: dispatch k, then read what k - 1 brought.

Everything that costs device time is compiled before the loop; inside, the host only
decides what is due and writes down what was measured.
"""

import dataclasses
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from agentic_grpo.training import evaluation
from agentic_grpo.training import tick as tick_module


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hooks:
    """What the loop calls on the host.

    Attributes:
      dispatch: (state) -> (state, stacked metrics); donates the state.
      evaluate: (params) -> dict of ``Mean`` and scalars, not yet read.
      write: (tick, values) -> None; writes one line of metrics.
      save: (tick, state) -> None.
    """

    dispatch: Callable[[Any], Any]
    evaluate: Callable[[Any], dict]
    write: Callable[[int, dict], None]
    save: Callable[[int, Any], None]


class NonFiniteError(RuntimeError):
    """Too many steps in a row had a loss or gradient that was not finite."""


def train(state, settings: LoopSettings, hooks: Hooks):
    """Runs the state to ``num_ticks``, or to the dispatch in which SIGTERM arrived.

    Args:
      state: a ``tick.TrainState``; donated.
      settings: when things are due.
      hooks: what the loop calls.

    Returns:
      (state, finished): not finished after SIGTERM; the state is saved in either case.

    Raises:
      NonFiniteError: after ``max_skipped`` skipped steps in a row; the last saved state
        is then the last good one.
    """
    tick = int(jax.device_get(state.tick))
    unread = None
    saved_at = tick
    with stop_on_sigterm() as stop_requested:
        while tick < settings.num_ticks and not stop_requested.is_set():
            started = time.perf_counter()
            with jax.transfer_guard("disallow"):
                state, metrics = hooks.dispatch(state)
            tick += settings.ticks_per_dispatch
            rates = {}
            if _due(tick, settings.evaluate_every) or tick == settings.num_ticks:
                rates = hooks.evaluate(state.learner.params)
            if unread is not None:
                _read(unread, settings, hooks)
            unread = tick, metrics, rates, started
            if _due(tick, settings.checkpoint_every):
                _read(unread, settings, hooks)
                unread = None
                hooks.save(tick, state)
                saved_at = tick
        if unread is not None:
            _read(unread, settings, hooks)
        if saved_at != tick:
            hooks.save(tick, state)
    return state, tick >= settings.num_ticks


def _due(tick, every):
    return every > 0 and tick % every == 0


def _read(unread, settings, hooks):
    """Waits for one dispatch, writes its line, and stops a run that has gone wrong."""
    tick, metrics, rates, started = unread
    metrics, rates = jax.device_get(metrics), evaluation.read(rates)
    seconds = time.perf_counter() - started
    skipped = int(np.asarray(metrics.pop("skipped_in_a_row"))[-1])
    values = tick_module.summarise(metrics)
    values |= {f"eval/{name}": rate for name, rate in rates.items()}
    values["time/seconds"] = seconds
    values["time/ticks_per_second"] = settings.ticks_per_dispatch / seconds
    hooks.write(tick, values)
    if skipped >= settings.max_skipped:
        raise NonFiniteError(
            f"{skipped} steps in a row up to tick {tick} had a loss or gradient that "
            f"was not finite (learner.max_skipped={settings.max_skipped}); parameters "
            "are as before the first of them"
        )


class stop_on_sigterm:
    """Within the block SIGTERM sets an event instead of ending the process."""

    def __enter__(self):
        self._event = threading.Event()
        self._old = None
        if threading.current_thread() is threading.main_thread():
            self._old = signal.signal(signal.SIGTERM, lambda *_: self._event.set())
        return self._event

    def __exit__(self, *_):
        if self._old is not None:
            signal.signal(signal.SIGTERM, self._old)
