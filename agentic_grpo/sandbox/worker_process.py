"""The host's side of one worker: its start by exec, the line to it, its job."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

from agentic_grpo.sandbox import transcripts

_START_SECONDS = 120.0
#: On top of the wall limit of a job: for the fork, the report, a machine that swaps.
_GRACE_SECONDS = 15.0
_MAX_REPORT_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 16

# Our package, without running its __init__, which imports JAX.
_BOOTSTRAP = """
import sys, types
ours = types.ModuleType("agentic_grpo")
ours.__path__ = [sys.argv[1]]
sys.modules["agentic_grpo"] = ours
from agentic_grpo.sandbox import worker
worker.main(int(sys.argv[2]), sys.argv[3])
"""


class Line:
    """The host's end of the socket of one process of a job."""

    def __init__(self, end: socket.socket, payload: bytes, limit: int):
        end.setblocking(False)
        self.end = end
        self._unsent = memoryview(payload)
        self._received = bytearray()
        self._limit = limit
        self._overflowed = False
        self.open = True

    @property
    def sending(self) -> bool:
        return len(self._unsent) > 0

    def advance(self) -> None:
        """Sends and receives what can be without waiting."""
        try:
            while self.sending:
                self._unsent = self._unsent[self.end.send(self._unsent) :]
                if not self.sending:
                    self.end.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:  # the process is gone; what it said may still be there
            self._unsent = self._unsent[:0]
        try:
            while self.open:
                part = self.end.recv(_CHUNK_BYTES)
                self._received += part
                self._overflowed = len(self._received) > self._limit
                self.open = bool(part) and not self._overflowed
        except BlockingIOError:
            pass
        except OSError:
            self.open = False

    def stream(self) -> transcripts.Stream:
        data = bytes(self._received[: self._limit])
        return transcripts.Stream(data=data, overflowed=self._overflowed)


class Assignment:
    """A job that a worker has been given."""

    def __init__(self, submission):
        job, payloads = submission.job, submission.payloads
        limits = job.limits
        self.submission = submission
        self.started = time.monotonic()
        self.deadline = self.started + limits.wall_seconds + _GRACE_SECONDS
        self.request = json.dumps(
            {
                "processes": len(payloads),
                "cpu_seconds": limits.cpu_seconds,
                "wall_seconds": limits.wall_seconds,
                "memory_bytes": limits.memory_bytes,
            }
        ).encode()
        self.theirs, self.lines = [], []
        try:
            # each process has a line to us, and two have one between them
            between = socket.socketpair() if len(payloads) == 2 else ()
            self.theirs += between
            for place, payload in enumerate(payloads):
                our_end, their_end = socket.socketpair()
                self.theirs.insert(2 * place, their_end)
                limit = transcripts.stream_limit(job)
                self.lines.append(Line(our_end, payload, limit))
        except OSError:
            self.close()
            raise

    @property
    def seconds_queued(self) -> float:
        return self.started - self.submission.submitted_at

    def result(self, report):
        """What the job left, once its processes have ended."""
        for line in self.lines:
            line.advance()
        return transcripts.read(
            self.submission.job,
            [line.stream() for line in self.lines],
            report,
            seconds_queued=self.seconds_queued,
        )

    def close(self):
        for end in [*self.theirs, *(line.end for line in self.lines)]:
            end.close()


class WorkerProcess:
    """A worker that starts, waits for a job, or has one.

    Attributes:
      control: non-blocking packet socket; readable when the worker has a message.
      layers: as the worker listed them; None until it is ready.
      assignment: what it is doing.
    """

    def __init__(self):
        if not sys.executable:
            raise OSError("sys.executable is empty: no Python to start a worker with")
        self.layers = None
        self.assignment = None
        self._deadline = time.monotonic() + _START_SECONDS
        # The room's parent; its own modules are found from there.
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control, theirs = pair
        self.control.setblocking(False)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 closed in `end`
        # As -I and -S, but for the seed of hashes: a set of strings has one order in
        # every worker. Nothing else of our environment goes along.
        command = [sys.executable, "-P", "-s", "-S", "-B", "-X", "utf8"]
        command += ["-c", _BOOTSTRAP, package, str(os.getpid()), tempfile.gettempdir()]
        try:
            self.process = subprocess.Popen(
                command,
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                env={"PYTHONHASHSEED": "0"},
                start_new_session=True,
            )
        except BaseException:
            self.control.close()
            self._said.close()
            raise
        finally:
            theirs.close()

    @property
    def idle(self) -> bool:
        return self.layers is not None and self.assignment is None

    @property
    def deadline(self) -> float:
        """Of `time.monotonic`; infinity while nothing is awaited of it."""
        if self.layers is None:
            return self._deadline
        return self.assignment.deadline if self.assignment else float("inf")

    def assign(self, submission) -> None:
        """Gives it a job.

        Raises:
          OSError: there are no descriptors left, or the worker is gone.
        """
        assignment = Assignment(submission)
        ends = [end.fileno() for end in assignment.theirs]
        try:
            socket.send_fds(self.control, [assignment.request], ends)
        except OSError:
            assignment.close()
            raise
        for end in assignment.theirs:
            end.close()
        self.assignment = assignment

    def receive(self):
        """The next message.

        Raises:
          BlockingIOError: there is none.
          OSError: the worker is gone.
        """
        message = self.control.recv(_MAX_REPORT_BYTES)
        if not message:
            raise ConnectionResetError("the worker has ended")
        return json.loads(message)

    def end(self) -> str:
        """Kills it, whatever it does; returns its last words."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        try:
            status = self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            status = "unknown: it does not end"
        self.control.close()
        with self._said:
            self._said.seek(0, os.SEEK_END)
            self._said.seek(max(0, self._said.tell() - 1000))
            words = self._said.read().decode(errors="replace").strip()
        return f"status {status}" + (f": {words}" if words else "")
