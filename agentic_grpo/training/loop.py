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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hooks:
    """What the loop calls on the host.

    Attributes:
      dispatch: (state) -> (state, stacked metrics, ``tick.Refused``); donates its
        state.
      evaluate: (params) -> dict of ``Mean`` and scalars, not yet read.
      write: (tick, values) -> None; writes one line of metrics.
      save: (tick, state) -> None.
      dump: (``tick.Refused``) -> where it was written.
      stop: () -> whether to end after this dispatch.
    """

    dispatch: Callable[[Any], Any]
    evaluate: Callable[[Any], dict]
    write: Callable[[int, dict], None]
    save: Callable[[int, Any], None]
    dump: Callable[[Any], Any]
    stop: Callable[[], bool]


class NonFiniteError(RuntimeError):
    """Too many steps in a row had a loss or gradient that was not finite."""


def train(state, settings: LoopSettings, hooks: Hooks):
    """Runs the state to ``num_ticks``, or until it is asked to stop.

    A checkpoint that falls due while steps are being skipped is left out, so that the
    newest one is from before the trouble if the run ends in it.

    Args:
      state: a ``tick.TrainState``; donated.
      settings: when things are due.
      hooks: what the loop calls.

    Returns:
      (state, finished): not finished if it was asked to stop; the state is saved in
      either case.

    Raises:
      NonFiniteError: after ``max_skipped`` skipped steps in a row; names where the last
        refused batch lies.
    """
    tick = int(jax.device_get(state.tick))
    unread = None
    saved_at = tick
    while tick < settings.num_ticks and not hooks.stop():
        started = time.perf_counter()
        with jax.transfer_guard("disallow"):
            state, metrics, refused = hooks.dispatch(state)
        tick += settings.ticks_per_dispatch
        rates = {}
        if _due(tick, settings.evaluate_every) or tick == settings.num_ticks:
            rates = hooks.evaluate(state.learner.params)
        if unread is not None:
            _read(unread, settings, hooks)
        unread = tick, metrics, rates, refused, started
        if _due(tick, settings.checkpoint_every):
            skipped = _read(unread, settings, hooks)
            unread = None
            if not skipped:
                hooks.save(tick, state)
                saved_at = tick
    if unread is not None:
        _read(unread, settings, hooks)
    if saved_at != tick:
        hooks.save(tick, state)
    return state, tick >= settings.num_ticks


def _due(tick, every):
    return every > 0 and tick % every == 0


def _read(unread, settings, hooks) -> int:
    """Waits for one dispatch, writes its line, and stops a run that has gone wrong.

    Returns:
      How many steps in a row have been skipped.
    """
    tick, metrics, rates, refused, started = unread
    metrics, rates = jax.device_get(metrics), evaluation.read(rates)
    seconds = time.perf_counter() - started
    in_a_row = np.asarray(metrics.pop("skipped_in_a_row"))
    values = tick_metrics.summarise(metrics)
    values |= {f"eval/{name}": rate for name, rate in rates.items()}
    values["time/seconds"] = seconds
    values["time/ticks_per_second"] = settings.ticks_per_dispatch / seconds
    hooks.write(tick, values)
    skipped = int(in_a_row.max())
    if skipped >= settings.max_skipped:
        raise NonFiniteError(
            f"{skipped} steps in a row up to tick {tick} had a loss or gradient that "
            f"was not finite (learner.max_skipped={settings.max_skipped}). None of "
            "them changed the parameters, the newest checkpoint is from before them, "
            f"and the batch of the last is in {hooks.dump(refused)}."
        )
    return int(in_a_row[-1])


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
