"""Sets the hostile programs of `attacks` on a pool and looks at what they left.

An attack has *passed* if a call was judged right: what is expected are numbers drawn
here, so nothing computes them. It has *escaped* if it says so, *outlived* if it took
more than its limits. Beside the programs' own word, the host looks at a folder with a
file in it, at a listener on the loopback, at the workers and at their children.
"""

import contextlib
import dataclasses
import os
import pathlib
import secrets
import socket
import tempfile

from agentic_grpo.sandbox import jobs, judging
from agentic_grpo.sandbox.attacks import (
    ESCAPED,
    Attack,
    on_files,
    on_limits,
    on_the_machine,
    on_the_verdict,
)

ATTACKS = (
    *on_limits.ATTACKS,
    *on_files.ATTACKS,
    *on_the_machine.ATTACKS,
    *on_the_verdict.ATTACKS,
)

_WALL_SECONDS = 3.0
LIMITS = jobs.Limits(cpu_seconds=0.3, wall_seconds=_WALL_SECONDS, memory_bytes=64 << 20)
#: Of processor and wall time on top of the limits: ticks of the clock, a busy machine.
_SLACK_SECONDS = 0.5
_SLACK_WALL_SECONDS = 5.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attempt:
    """What became of one attack."""

    attack: Attack
    result: jobs.Result
    passed: bool
    escaped: bool

    @property
    def outlived(self) -> bool:
        late = self.result.seconds_cpu > LIMITS.cpu_seconds + _SLACK_SECONDS
        return late or self.result.seconds_run > _WALL_SECONDS + _SLACK_WALL_SECONDS

    @property
    def held(self) -> bool:
        """Nothing of the above, and it ended as such an attack should."""
        as_foreseen = self.result.ending in self.attack.endings
        return as_foreseen and not (self.passed or self.escaped or self.outlived)


class Host:
    """What there is to be damaged. A context manager.

    Attributes:
      folder: holds the file ``canary``.
      port: of a listener on the loopback.
    """

    _CONTENT = "a bird in a mine"

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            self.folder = pathlib.Path(folder)
            (self.folder / "canary").write_text(self._CONTENT, encoding="utf-8")
            self._mode = (self.folder / "canary").stat().st_mode
            self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            self._listener.setblocking(False)
            self.port = self._listener.getsockname()[1]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception):
        self._stack.close()

    def fill_in(self, program: str) -> str:
        """The program with our places in it."""
        for mark, place in (
            ("@FOLDER@", self.folder),
            ("@PORT@", self.port),
            ("@HOST@", os.getpid()),
        ):
            program = program.replace(mark, str(place))
        return program

    def damages(self) -> list[str]:
        """What is no longer as it was."""
        found, canary = [], self.folder / "canary"
        names = sorted(path.name for path in self.folder.glob("*"))
        if names != ["canary"]:
            found.append(f"the folder holds {names}")
        elif canary.stat().st_mode != self._mode:
            found.append("the permissions of the file were changed")
        elif canary.read_text(encoding="utf-8") != self._CONTENT:
            found.append("the file was changed")
        with contextlib.suppress(BlockingIOError):
            self._listener.accept()[0].close()
            found.append("the listener was called")
        return found


def children(process: int) -> list[int]:
    """Process numbers of the children of a process, those not reaped included."""
    found = []
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            after_name = status.read_text(errors="replace").rpartition(")")[2].split()
            if int(after_name[1]) == process:
                found.append(int(status.parent.name))
    return found


def job_of(attack: Attack, host: Host, expected) -> jobs.Calls | jobs.Check:
    """The attack as a job; a checker is told ``expected``, the program never."""
    program = host.fill_in(attack.program)
    if attack.by_checker:
        asserts = "".join(
            f"    assert candidate({x}) == {value}\n"
            for x, value in enumerate(expected)
        )
        checker = f"def check(candidate):\n{asserts}"
        return jobs.Check(
            program=program, entry="solve", checker=checker, limits=LIMITS
        )
    arguments = [(x,) for x in range(len(expected))]
    return jobs.Calls(
        program=program, entry="solve", arguments=arguments, limits=LIMITS
    )


def run(pool, attacks=ATTACKS) -> tuple[list[Attempt], list[str]]:
    """Runs the attacks; returns their attempts and what was damaged or left behind."""
    expected = [secrets.randbits(62) + (1 << 62) for _ in range(2)]
    workers = pool.worker_numbers
    with Host() as host:
        results = pool.run([job_of(attack, host, expected) for attack in attacks])
        damages = host.damages()
    if pool.worker_numbers != workers:
        damages.append("a worker had to be started again")
    for worker in pool.worker_numbers:
        damages += [f"process {child} was left" for child in children(worker)]
    attempts = [
        attempt_of(attack, result, expected)
        for attack, result in zip(attacks, results, strict=True)
    ]
    return attempts, damages


def attempt_of(attack: Attack, result: jobs.Result, expected) -> Attempt:
    """Judges what came back, and looks for the word of an attack that got through."""
    wanted = [True] if attack.by_checker else expected
    told = [outcome.value for outcome in result.outcomes]
    told += [outcome.text + outcome.printed for outcome in result.outcomes]
    return Attempt(
        attack=attack,
        result=result,
        passed=any(judging.judge(result, wanted).right),
        escaped=any(ESCAPED in str(one)[:1000] for one in told),
    )
