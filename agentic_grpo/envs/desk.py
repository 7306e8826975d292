"""One host environment, several who ask it: each hears what he has asked, all of it.

Evaluation asks for its own episodes while those of training are still being judged;
whoever polls takes in what has come for the others too, and keeps it for them.
"""

import collections
import dataclasses
import threading
import time
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from agentic_grpo.envs import host


class _Stamped(NamedTuple):
    """A ticket, and the number of the counter at which it was handed in."""

    counter: int
    ticket: Hashable


class Desk:
    """In front of a host environment, which nobody else asks."""

    def __init__(self, environment: host.HostEnvironment):
        self._environment = environment
        self._lock = threading.Lock()  # the environment knows one thread at a time
        self._boxes: list[collections.deque] = []

    def counter(self) -> "Counter":
        """One more place to ask at."""
        self._boxes.append(collections.deque())
        return Counter(self, len(self._boxes) - 1)

    def submit(self, number: int, works: Sequence[host.Work]) -> None:
        stamped = [
            dataclasses.replace(work, ticket=_Stamped(number, work.ticket))
            for work in works
        ]
        with self._lock:
            self._environment.submit(stamped)

    def poll(self, number: int, timeout: float) -> list:
        deadline = time.monotonic() + timeout
        box = self._boxes[number]
        with self._lock:
            while True:
                # even with a full box: what is here already is not left to wait
                patience = 0.0 if box else max(0.0, deadline - time.monotonic())
                arrived = self._environment.poll(patience)
                self._sort(arrived)
                if box or not arrived:
                    break
            taken = list(box)
            box.clear()
        return taken

    def _sort(self, arrived):
        """Into the boxes; what answers no ticket of ours is dropped."""
        for arrival in arrived:
            if isinstance(arrival.ticket, _Stamped):
                counter, ticket = arrival.ticket
                own = dataclasses.replace(arrival, ticket=ticket)
                self._boxes[counter].append(own)


@dataclasses.dataclass(frozen=True)
class Counter:
    """Where one asks: ``submit`` and ``poll`` of a ``HostEnvironment``."""

    desk: Desk
    number: int

    def submit(self, works: Sequence[host.Work]) -> None:
        """See ``HostEnvironment``; tickets need differ from one's own alone."""
        self.desk.submit(self.number, works)

    def poll(self, timeout: float) -> list[host.StageArrival | host.VerdictArrival]:
        """See ``HostEnvironment``; what has come for others is kept for them."""
        return self.desk.poll(self.number, timeout)
