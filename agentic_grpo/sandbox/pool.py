"""N warm workers, a bounded queue, tickets in and results out.

    with Pool(2) as pool:
        pool.submit("a ticket", jobs.Calls(...))    # returns at once
        for ticket, result in pool.poll(10.0): ...  # waits for the first, at most 10 s

Whatever happens to a worker becomes the result of its job (`Ending.OUR_FAULT`); neither
`submit` nor `poll` raises for it. This process never forks, so it may have threads.
"""

import atexit
import collections
import platform
import sys
import threading
import time
from collections.abc import Hashable, Sequence

from agentic_grpo.sandbox import filters, jobs, payloads
from agentic_grpo.sandbox.dispatcher import Dispatcher, Submission

#: Tickets and the results of their jobs.
_Arrived = collections.deque[tuple[Hashable, jobs.Result]]

#: The layers that must stand, what each is, and what to do where it does not.
REQUIRED = {
    "system calls": (
        "the allow-list of `filters`, by seccomp",
        "use a kernel with CONFIG_SECCOMP_FILTER, and a container that lets its "
        "processes call prctl(PR_SET_SECCOMP)",
    ),
    "limits": (
        "processor time, memory, files, processes",
        "start the job without limits that contradict those of `jobs.Limits`",
    ),
    "no new privileges": (
        "no capabilities and none to be had",
        "use Linux 3.5 or later, and a container that lets prctl and capset through",
    ),
    "one process per job": (
        "forked, alone with its own job, all else closed",
        "use a container that lets its processes fork and call setsid and prctl",
    ),
    "deadline": (
        "the worker ends the program, the host ends the worker",
        "use a container that lets a process signal its children",
    ),
}


class QueueFull(RuntimeError):
    """More jobs than the pool's capacity are submitted and not polled."""


class Pool:
    """See the module.

    Attributes:
      layers: tuple of `jobs.Layer`, the required ones first.
    """

    def __init__(self, workers: int, *, capacity: int = 4096):
        """Starts the workers and waits until all are ready.

        Args:
          workers: how many programs run at a time; one per core that is free.
          capacity: how many jobs may be submitted and not polled.

        Raises:
          ValueError: one of them is not positive.
          SandboxUnavailable: a layer that must stand does not.
        """
        for name, value in (("workers", workers), ("capacity", capacity)):
            if value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1")
        _refuse_other_machines()
        self._capacity = capacity
        self._changed = threading.Condition()
        self._arrived: _Arrived = collections.deque()  # for poll
        self._outstanding = 0  # submitted, and not polled
        self._closed = False
        self._dispatcher = Dispatcher(workers)
        self._dispatcher.start()
        self._dispatcher.started.wait()
        if self._dispatcher.refusal is not None:
            self.close()
            raise _unavailable(self._dispatcher.refusal)
        assert self._dispatcher.layers is not None  # as every worker is ready
        self.layers = tuple(
            [jobs.Layer(name, True, True, what) for name, (what, _) in REQUIRED.items()]
            + [
                jobs.Layer(name, False, standing, detail)
                for name, standing, detail in self._dispatcher.layers
            ]
        )
        # so that the workers end before the threads of a process that is ending do
        atexit.register(self.close)

    @property
    def worker_numbers(self) -> list[int]:
        """Process numbers of the workers that live."""
        return self._dispatcher.worker_numbers

    @property
    def outstanding(self) -> int:
        """How many jobs are submitted and not polled."""
        return self._outstanding

    def submit(self, ticket, job: jobs.Calls | jobs.Check) -> None:
        """Queues a job; ``ticket`` comes back with its result.

        Raises:
          ValueError: the job is none (arguments that are no plain data, or too many).
          QueueFull: poll first.
          RuntimeError: the pool is closed.
        """
        texts = payloads.of_job(job)
        with self._changed:
            if self._outstanding >= self._capacity:
                raise QueueFull(
                    f"{self._outstanding} jobs are submitted and not polled, which is "
                    "the capacity; poll, or give the pool a larger one"
                )
            self._send(job, texts, ticket, self._arrived)
            self._outstanding += 1

    def poll(self, timeout: float) -> list[tuple]:
        """The (ticket, result) that have arrived since the last time.

        Waits for the first of them for ``timeout`` seconds, unless none is to come.
        """
        deadline = time.monotonic() + timeout
        with self._changed:
            while not self._arrived and self._outstanding:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    break
                self._changed.wait(remaining)
            taken = list(self._arrived)
            self._arrived.clear()
            self._outstanding -= len(taken)
        return taken

    def run(self, batch: Sequence) -> list[jobs.Result]:
        """The results of jobs in their order; waits for all of them.

        They do not count against the capacity, and `poll` does not see them.

        Raises:
          ValueError: as `submit`, before any is run.
          RuntimeError: the pool is closed.
        """
        texts = [payloads.of_job(job) for job in batch]
        arrived: _Arrived = collections.deque()
        with self._changed:
            for index, job in enumerate(batch):
                self._send(job, texts[index], index, arrived)
            while len(arrived) < len(batch):
                self._changed.wait()
        results = dict(arrived)
        return [results[index] for index in range(len(batch))]

    def _send(self, job, texts, ticket, arrived):
        """With the lock; the result will be put into ``arrived``."""
        if self._closed:
            raise RuntimeError("the pool is closed")

        def deliver(result):
            with self._changed:
                arrived.append((ticket, result))
                self._changed.notify_all()

        size = len(job.program.encode("utf-8", "replace"))
        if size > jobs.MAX_PROGRAM_BYTES:
            text = f"a program of {size} bytes; at most {jobs.MAX_PROGRAM_BYTES}"
            deliver(jobs.unanswered(job, jobs.Ending.TOO_LARGE, text))
            return
        self._dispatcher.submit(
            Submission(
                job=job,
                payloads=texts,
                deliver=deliver,
                submitted_at=time.monotonic(),
            )
        )

    def close(self) -> None:
        """Ends the workers; what they had not done arrives as our fault. Idempotent."""
        with self._changed:
            self._closed = True
        self._dispatcher.close()
        atexit.unregister(self.close)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def _refuse_other_machines():
    if sys.platform != "linux":
        raise jobs.SandboxUnavailable(
            f"programs run behind walls that only Linux has, and this is "
            f"{sys.platform}; run the job in a Linux container or virtual machine"
        )
    if platform.machine() not in filters.NUMBERS or sys.maxsize < 1 << 32:
        raise jobs.SandboxUnavailable(
            f"the list of allowed system calls is written for 64-bit "
            f"{' and '.join(filters.NUMBERS)}, and this is {platform.machine()}; "
            "use such a machine"
        )


def _unavailable(refusal):
    for name, (_, remedy) in REQUIRED.items():
        if f"{name}: " in refusal:
            return jobs.SandboxUnavailable(
                f"a wall that must stand does not. {refusal}. To mend it: {remedy}"
            )
    return jobs.SandboxUnavailable(f"no worker can be started. {refusal}")
