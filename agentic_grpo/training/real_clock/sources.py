"""Where news come from: the host, in its own time, or the journal of an earlier run."""

import time
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from absl import logging

from agentic_grpo.envs import base, desk, simulated_clock
from agentic_grpo.envs.host import StageArrival, VerdictArrival, Work
from agentic_grpo.records import EndReason
from agentic_grpo.training.real_clock.books import Arrival, Books, Group
from agentic_grpo.training.real_clock.journal import Entry, JournalError, as_written

#: Seconds after which a wait looks whether it is to stop.
_LOOK_UP_SECONDS = 1.0


class Source(Protocol):
    """What a tick hears. ``books`` are those of the clock.

    Attributes:
      now: seconds, as of the last ``arrivals``.
    """

    now: float

    def arrivals(self, tick: int, *, may_wait: bool) -> tuple[list[Arrival], bool]:
        """Enters what has come; (what counts, whether it was waited for)."""
        ...

    def due_stages(self) -> list[tuple[int, int]]:
        """Keys of the stages to close now."""
        ...

    def due_verdicts(self) -> list[tuple[int, int]]:
        """The same of verdicts, when the stages are closed."""
        ...

    def ask(self, tick: int, groups: list[Group], works: list[Work]) -> None:
        """Hands in what was written, groups and their works."""
        ...


class Host:
    """News as they come; nothing that the host does or fails to do ends a run.

    While there is nothing to do it blocks until something is due, at most for the
    seconds that are left to the next deadline.
    """

    def __init__(
        self,
        counter: desk.Counter,
        spec: base.EnvironmentSpec,
        books: Books,
        *,
        stop: Callable[[], bool],
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        """Asks nothing yet.

        Args:
          counter: where work is handed in.
          spec: of the environment.
          books: of the clock.
          stop: () -> whether to wait no longer, because the run is to be saved.
          now: seconds; injected by tests.
          sleep: the same.
        """
        self._counter, self._spec, self._books = counter, spec, books
        self._stop, self._clock, self._sleep = stop, now, sleep
        self._failed: list[StageArrival] = []
        self.now = now()

    def arrivals(self, tick: int, *, may_wait: bool) -> tuple[list[Arrival], bool]:
        """See ``Source``."""
        del tick
        entered, waited = self._take(0.0), False
        while may_wait and self._books.in_flight and not self._stop():
            if any(self._books.due(now=self.now)):
                break
            waited = True
            entered += self._take(self._patience())
        return entered, waited

    def due_stages(self) -> list[tuple[int, int]]:
        """See ``Source``."""
        return self._books.due(now=self.now)[0]

    def due_verdicts(self) -> list[tuple[int, int]]:
        """See ``Source``."""
        return self._books.due(now=self.now)[1]

    def ask(self, tick: int, groups: list[Group], works: list[Work]) -> None:
        """See ``Source``."""
        del tick, groups
        self.submit(works)

    def submit(self, works: list[Work]) -> None:
        """Hands in work; what cannot be handed in is our fault, heard of in time."""
        if not works:
            return
        try:
            self._counter.submit(works)
        except Exception as error:
            logging.error("Work could not be handed in: %r", error)
            self._failed += [_fault(work.ticket) for work in works]

    def _take(self, timeout):
        arrived, self._failed = self._failed, []
        arrived = arrived + self._poll(0.0 if arrived else timeout)
        self.now = self._clock()
        sound = [self._sound(arrival) for arrival in arrived]
        entered, again = self._books.enter(sound, now=self.now)
        self.submit(again)
        return entered

    def _poll(self, timeout):
        started = self._clock()
        try:
            arrived = self._counter.poll(timeout)
        except Exception as error:
            logging.error("The host cannot be asked: %r", error)
            arrived = []
        left = timeout - (self._clock() - started)
        if not arrived and left > 0:  # it knows of nothing; deadlines end what it lost
            self._sleep(left)
        return arrived

    def _patience(self):
        deadline = self._books.next_deadline()
        if deadline is None:
            return _LOOK_UP_SECONDS
        return min(max(deadline - self.now, 0.0), _LOOK_UP_SECONDS)

    def _sound(self, arrival):
        """The arrival as it will be played again, or a fault if it makes no sense."""
        try:
            arrival = as_written(arrival)
            if isinstance(arrival, StageArrival):
                scratch = simulated_clock.no_answers(self._spec, (1, 1))
                simulated_clock.enter(scratch, (0, 0), arrival)
            else:
                np.float32(arrival.verdict), bool(arrival.solved)
            return arrival
        except Exception as error:
            logging.error("The host's answer is none: %r", error)
            if isinstance(arrival, VerdictArrival):
                return VerdictArrival(ticket=arrival.ticket, is_fault=True)
            return _fault(arrival.ticket)


class Replayed:
    """News as a journal has them; no host is asked, and no time passes."""

    now = 0.0
    _entry: Entry  # of the last arrivals

    def __init__(self, entries: Iterator[Entry], books: Books):
        """Entries from that of the first tick that is asked for."""
        self._entries, self._books = entries, books

    def arrivals(self, tick: int, *, may_wait: bool) -> tuple[list[Arrival], bool]:
        """See ``Source``.

        Raises:
          JournalError: the journal ends before this tick.
        """
        del may_wait
        entry = next(self._entries, None)
        if entry is None:
            raise JournalError(
                f"the journal that is played again ends before tick {tick}; a run of "
                f"num_ticks={tick} is as long"
            )
        self._entry = entry
        entered, _ = self._books.enter(entry.arrived, now=0.0, final=True)
        return entered, False

    def due_stages(self) -> list[tuple[int, int]]:
        """See ``Source``."""
        return self._entry.stages

    def due_verdicts(self) -> list[tuple[int, int]]:
        """See ``Source``."""
        return self._entry.verdicts

    def ask(self, tick: int, groups: list[Group], works: list[Work]) -> None:
        """See ``Source``.

        Raises:
          JournalError: something else was written than then.
        """
        del works
        if groups != self._entry.asked:
            raise JournalError(
                f"in tick {tick} something else was written than in the journal that "
                "is played again: it is of another config or seed, or of a machine "
                "that computes otherwise"
            )


def _fault(ticket):
    return StageArrival(ticket=ticket, end_reason=EndReason.FAULT)
