"""Asks the sandbox every question once: what was asked before is remembered."""

import collections
import dataclasses
import time
from typing import Any

from absl import logging

from agentic_grpo.envs.python_tasks.judging import OUR_FAULT, Judge, Question, Report
from agentic_grpo.envs.python_tasks.protocols import Pool


class Answers:
    """Questions in, reports out, each for whoever waits for it.

    Our faults are not remembered: asked again, a question is run again. What is takes
    no seconds.

    Attributes:
      num_asked: questions so far.
      num_known: of them, those that were remembered or on their way already.
    """

    def __init__(self, judge: Judge, pool: Pool, *, capacity: int):
        self._judge, self._pool, self._capacity = judge, pool, capacity
        self._known: collections.OrderedDict[Any, Report] = collections.OrderedDict()
        self._waiting: dict[Any, tuple[Question, list]] = {}
        self._arrived: collections.deque = collections.deque()
        self.num_asked = self.num_known = 0

    def ask(self, question: Question, waiter) -> None:
        """Never raises; what the pool refuses is our fault."""
        self.num_asked += 1
        key = question.key
        if key in self._known:
            self.num_known += 1
            self._known.move_to_end(key)
            self._arrived.append((waiter, self._known[key]))
        elif key in self._waiting:
            self.num_known += 1
            self._waiting[key][1].append(waiter)
        else:
            self._waiting[key] = question, [waiter]
            try:
                self._pool.submit(key, question.job)
            except Exception as error:
                self._deliver(key, _fault(error))

    def poll(self, timeout: float) -> list[tuple[Any, Report]]:
        """(waiter, report) of what is answered; waits for the first of it."""
        deadline = time.monotonic() + timeout
        while self._waiting and not self._arrived:
            remaining = deadline - time.monotonic()
            self._collect(max(0.0, remaining))
            if remaining <= 0:
                break
        taken = list(self._arrived)
        self._arrived.clear()
        return taken

    def known(self, key) -> Report | None:
        """What is remembered of a question."""
        return self._known.get(key)

    def _collect(self, timeout):
        """Delivers what the pool has."""
        deadline = time.monotonic() + timeout
        try:
            results = self._pool.poll(timeout)
            if not results and time.monotonic() < deadline:
                raise RuntimeError("the pool knows nothing of what it was asked")
        except Exception as error:
            for key in list(self._waiting):
                self._deliver(key, _fault(error))
            return
        for key, result in results:
            if key not in self._waiting:
                continue
            try:
                report = self._judge.report(self._waiting[key][0], result)
            except Exception as error:
                report = _fault(error)
            self._deliver(key, report)

    def _deliver(self, key, report):
        _, waiters = self._waiting.pop(key)
        self._arrived.extend((waiter, report) for waiter in waiters)
        if report.is_fault:
            logging.error("A program could not be judged: %s", report.told)
            return
        self._known[key] = dataclasses.replace(
            report, seconds_queued=0.0, seconds_run=0.0
        )
        if len(self._known) > self._capacity:
            self._known.popitem(last=False)


def _fault(error):
    return dataclasses.replace(OUR_FAULT, told=f"{type(error).__name__}: {error}")
