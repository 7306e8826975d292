"""Programs that try to get out, to stay in, or to be called right; see `hostile`.

A program defines ``solve(x)`` and is asked for numbers that it cannot know. Where an
attack succeeds it answers with ESCAPED. It may name places of the host that the suite
prepares: @FOLDER@ with a file `canary`, @PORT@ of a listener on the loopback, @HOST@,
the process number of the host.
"""

import dataclasses

from agentic_grpo.sandbox.jobs import Ending

ESCAPED = "ESCAPED"

#: What some of them share; a call of libc by hand goes around all of Python.
LIBC = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def told(result):
    return "ESCAPED" if result >= 0 else ctypes.get_errno()
"""


@dataclasses.dataclass(frozen=True)
class Attack:
    """A program, the endings it may come to, and whether a checker questions it."""

    name: str
    endings: tuple[Ending, ...]
    program: str
    by_checker: bool = False
