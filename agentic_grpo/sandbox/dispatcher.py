"""The thread that keeps workers busy; nothing that happens to a worker leaves it.

It starts the workers, so it is the thread with which the kernel ends them. It gives
jobs to idle workers, reads reports, ends a worker that is past its deadline and starts
another. A job whose worker died is our fault, and so are all that wait while no worker
can be started.
"""

import collections
import contextlib
import dataclasses
import os
import selectors
import threading
import time
import traceback
from collections.abc import Callable

from agentic_grpo.sandbox import jobs
from agentic_grpo.sandbox.worker_process import WorkerProcess

_FIRST_RETRY_SECONDS = 0.1
_LAST_RETRY_SECONDS = 10.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Submission:
    """A job on its way: its payload per process, and who is told the result."""

    job: jobs.Calls | jobs.Check
    payloads: list[bytes]
    deliver: Callable[[jobs.Result], None]
    submitted_at: float


@dataclasses.dataclass
class _Slot:
    """The place of one worker, whichever process fills it."""

    number: int
    worker: WorkerProcess | None = None
    failures: int = 0  # in a row
    retry_at: float = 0.0


class Dispatcher(threading.Thread):
    """See the module.

    Attributes:
      layers: of the first worker that was ready, or None.
      refusal: why the last worker that could not start did not, or None.
      started: set when every worker is ready or one is refused.
    """

    def __init__(self, workers: int):
        super().__init__(name="sandbox dispatcher", daemon=True)
        self.layers: list | None = None
        self.refusal: str | None = None
        self.started = threading.Event()
        self._slots = [_Slot(number) for number in range(workers)]
        self._queue: collections.deque[Submission] = collections.deque()
        # of _queue, which others fill and only this thread empties, and of _ended
        self._lock = threading.Lock()
        self._ended = None  # why, once the thread takes no more
        self._closing = False
        self._selector = selectors.DefaultSelector()
        self._wakes, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._selector.register(self._wakes, selectors.EVENT_READ, self._woken)

    # for other threads

    def submit(self, submission: Submission) -> None:
        with self._lock:
            ended = self._ended
            if ended is None:
                self._queue.append(submission)
                self._rouse()
        if ended is not None:
            _deliver_fault(submission, ended)

    def close(self) -> None:
        """Ends the workers and answers for what they had not done."""
        self._closing = True
        with self._lock:
            if self._ended is None:
                self._rouse()
        self.join()

    def _rouse(self):
        with contextlib.suppress(BlockingIOError):  # full: it will wake anyway
            os.write(self._wake, b"\0")

    @property
    def worker_numbers(self) -> list[int]:
        """Process numbers of the workers that live."""
        workers = [slot.worker for slot in self._slots]
        return [worker.process.pid for worker in workers if worker is not None]

    # the thread

    def run(self):
        why = "the pool was closed"
        try:
            while not self._closing:
                self._turn()
        except BaseException:  # a bug here must not leave anyone waiting
            why = f"the dispatcher died: {traceback.format_exc()}"
        finally:
            self._end(why)

    def _turn(self):
        now = time.monotonic()
        for slot in self._slots:
            if slot.worker is not None and slot.worker.deadline <= now:
                self._lose(slot, "it did not report in time")
            if slot.worker is None and slot.retry_at <= now:
                self._start(slot)
            if slot.worker is not None and slot.worker.idle:
                self._assign_next(slot)
        for key, _ in self._selector.select(self._patience()):
            if self._watches(key.fileobj):  # an earlier one may have closed it
                key.data()

    def _patience(self):
        """Seconds until something has to be done without being asked."""
        moments = [
            slot.retry_at if slot.worker is None else slot.worker.deadline
            for slot in self._slots
        ]
        patience = min(moments) - time.monotonic()
        return None if patience == float("inf") else max(0.0, patience)

    def _watches(self, one):
        return any(key.fileobj is one for key in self._selector.get_map().values())

    def _forget(self, one):
        if self._watches(one):
            self._selector.unregister(one)

    def _woken(self):
        os.read(self._wakes, 1 << 16)

    def _start(self, slot):
        try:
            slot.worker = worker = WorkerProcess()
        except OSError as error:
            self._put_off(slot, f"no worker could be started: {error}")
            return
        self._selector.register(
            worker.control, selectors.EVENT_READ, lambda: self._hear(slot, worker)
        )

    def _assign_next(self, slot):
        if not self._queue:
            return
        try:
            slot.worker.assign(self._queue[0])
        except OSError as error:
            why = f"the job could not be handed over: {error}"
            _deliver_fault(self._queue.popleft(), why)
            self._lose(slot, why)
            return
        self._queue.popleft()  # it was still ours, whatever happened on the way
        for line in slot.worker.assignment.lines:
            self._selector.register(
                line.end,
                selectors.EVENT_READ | selectors.EVENT_WRITE,
                lambda line=line: self._advance(line),
            )

    def _advance(self, line):
        line.advance()
        if not line.open:
            self._selector.unregister(line.end)
            line.end.close()  # a program that floods us runs into a broken pipe
        elif not line.sending:
            action = self._selector.get_key(line.end).data
            self._selector.modify(line.end, selectors.EVENT_READ, action)

    def _hear(self, slot, worker):
        try:
            message = worker.receive()
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(slot, str(error))
            return
        if "missing" in message:
            self._lose(slot, f"{message['missing']}: {message['why']}")
        elif "layers" in message:
            worker.layers = message["layers"]
            self.layers = self.layers or message["layers"]
            if all(s.worker is not None and s.worker.layers for s in self._slots):
                self.started.set()
        else:
            slot.failures = 0
            result = _result(worker.assignment, message)
            assignment = self._take_assignment(worker)
            assignment.close()
            assignment.submission.deliver(result)

    def _take_assignment(self, worker):
        assignment, worker.assignment = worker.assignment, None
        for line in assignment.lines:
            self._forget(line.end)
        return assignment

    def _lose(self, slot, why):
        """Ends a worker; its job is our fault, another worker takes its place."""
        worker, slot.worker = slot.worker, None
        was_ready = worker.layers is not None
        self._forget(worker.control)
        why = f"worker {slot.number}: {why} ({worker.end()})"
        if worker.assignment is not None:
            assignment = self._take_assignment(worker)
            assignment.close()
            _deliver_fault(assignment.submission, why)
        self._put_off(slot, None if was_ready else why)

    def _put_off(self, slot, refusal):
        """Another try later, the later the more there were in a row.

        Args:
          refusal: why it could not start; None if it had.
        """
        delay = min(_FIRST_RETRY_SECONDS * 2**slot.failures, _LAST_RETRY_SECONDS)
        slot.retry_at = time.monotonic() + (delay if slot.failures or refusal else 0.0)
        slot.failures += 1
        if refusal is not None:
            self.refusal = refusal
            self.started.set()
            if all(s.worker is None or s.worker.layers is None for s in self._slots):
                self._drop_queue(refusal)

    def _drop_queue(self, why):
        with self._lock:
            dropped = list(self._queue)
            self._queue.clear()
        for submission in dropped:
            _deliver_fault(submission, why)

    def _end(self, why):
        with self._lock:
            self._ended = why
        self.refusal = self.refusal or why
        self.started.set()
        for slot in self._slots:
            worker, slot.worker = slot.worker, None
            if worker is not None:
                worker.end()
                if worker.assignment is not None:
                    worker.assignment.close()
                    _deliver_fault(worker.assignment.submission, why)
        self._drop_queue(why)
        self._selector.close()
        os.close(self._wakes)
        os.close(self._wake)


def _result(assignment, report):
    try:
        return assignment.result(report)
    except Exception:  # what a program sent must not end the work of the others
        why = f"its answers could not be read: {traceback.format_exc(limit=-3)}"
        return jobs.unanswered(
            assignment.submission.job,
            jobs.Ending.OUR_FAULT,
            why,
            seconds_queued=assignment.seconds_queued,
        )


def _deliver_fault(submission, why):
    seconds = time.monotonic() - submission.submitted_at
    submission.deliver(
        jobs.unanswered(
            submission.job, jobs.Ending.OUR_FAULT, why, seconds_queued=seconds
        )
    )
