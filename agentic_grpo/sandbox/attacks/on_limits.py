"""Programs that want more time, memory or room than they have."""

from agentic_grpo.sandbox.attacks import Attack
from agentic_grpo.sandbox.jobs import Ending

SLOW, RAISED, DIED, LARGE = (
    (Ending.TOO_SLOW,),
    (Ending.RAISED,),
    (Ending.DIED,),
    (Ending.TOO_LARGE,),
)

ATTACKS = [
    Attack("endless loop", SLOW, "def solve(x):\n    while True: pass"),
    Attack("endless loop on import", SLOW, "while True: pass"),
    Attack("endless loop before a checker", SLOW, "while True: pass", True),
    Attack(
        "swallows every exception",
        SLOW,
        """
def solve(x):
    while True:
        try:
            while True: pass
        except BaseException: pass
""",
    ),
    Attack(
        "ignores every signal",
        SLOW,
        """
import signal
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
def solve(x):
    while True: pass
""",
    ),
    Attack(
        "blocks every signal",
        SLOW,
        """
import signal
try: signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
except OSError: pass
while True: pass
""",
    ),
    Attack(
        "stops the clock",
        SLOW,
        """
import signal
try: signal.setitimer(signal.ITIMER_PROF, 0)
except OSError: pass
while True: pass
""",
    ),
    Attack(
        "raises its limits",
        SLOW,
        """
import resource
for which in range(16):
    for most in (resource.RLIM_INFINITY, 1 << 40):
        try: resource.setrlimit(which, (most, most))
        except (OSError, ValueError): pass
while True: pass
""",
    ),
    Attack("sleeps", RAISED, "import time\ndef solve(x): time.sleep(3600)"),
    Attack(
        "locks itself out",
        DIED,
        """
import _thread
lock = _thread.allocate_lock()
for _ in range(2): lock.acquire()
""",
    ),
    Attack(
        "stops itself",
        RAISED,
        "import os, signal\ndef solve(x): os.kill(os.getpid(), signal.SIGSTOP)",
    ),
    Attack(
        "waits for its checker, which waits for it",
        SLOW,
        "import os\ndef solve(x): os.read(4, 1)",
        True,
    ),
    Attack(
        "fork bomb",
        RAISED,
        """
import os
def solve(x):
    if os.fork() >= 0: return "ESCAPED"
    while True: os.fork()
""",
    ),
    Attack(
        "grandchild that holds the line",
        RAISED,
        """
import os
def solve(x):
    if os.fork() == 0:
        while True: pass
    os._exit(0)
""",
    ),
    Attack(
        "lingering thread",
        RAISED,
        """
import _thread
def linger():
    while True: pass
def solve(x):
    _thread.start_new_thread(linger, ())
    return "ESCAPED"
""",
    ),
    Attack(
        "eight gigabytes at once", RAISED, "def solve(x): return len(bytes(8 << 30))"
    ),
    Attack(
        "eight gigabytes in pieces",
        (Ending.RAISED, Ending.TOO_SLOW),
        """
def solve(x):
    kept = []
    while True: kept.append(bytearray(1 << 20))
""",
    ),
    Attack("a gigabyte printed", RAISED, "def solve(x): print('x' * (1 << 30))"),
    Attack("prints for ever", SLOW, "def solve(x):\n    while True: print(x)"),
    Attack(
        "floods the line",
        (Ending.TOO_LARGE,),
        """
import os
def solve(x):
    while True: os.write(3, b"[" * 65536)
""",
    ),
    Attack("a huge answer", LARGE, "def solve(x): return 'x' * 10_000_000"),
    Attack(
        "an answer of 200,000 brackets",
        LARGE,
        """
def solve(x):
    nested = []
    for _ in range(200_000): nested = [nested]
    return nested
""",
    ),
    Attack(
        "an answer that contains itself",
        LARGE,
        "def solve(x):\n    a = []\n    a.append(a)\n    return a",
    ),
    Attack(
        "an answer of 2^60 parts",
        LARGE,
        """
def solve(x):
    twice = [0]
    for _ in range(60): twice = [twice, twice]
    return twice
""",
    ),
    Attack("an int of 300,000 digits", LARGE, "def solve(x): return 10 ** 300_000"),
    Attack("9**9**9", SLOW, "def solve(x): return 9 ** 9 ** 9"),
    Attack(
        "regex bomb",
        SLOW,
        "import re\ndef solve(x): return re.match('(a+)+$', 'a' * 60 + 'b')",
    ),
    Attack("recursion", RAISED, "def solve(x): return solve(x + 1)"),
    Attack(
        "recursion without a limit",
        (Ending.RAISED, Ending.DIED, Ending.TOO_SLOW),
        """
import sys
sys.setrecursionlimit(10 ** 9)
def solve(x): return sorted([x], key=solve)
""",
    ),
    Attack(
        "compiles brackets",
        (Ending.RAISED, Ending.DIED),
        "def solve(x): return eval('(' * 100_000 + ')' * 100_000)",
    ),
    Attack("crash", DIED, "import ctypes\ndef solve(x): ctypes.string_at(0)"),
    Attack("reads its input", RAISED, "def solve(x): return input()"),
    Attack(
        "reads descriptors",
        (Ending.ANSWERED,),
        """
import os
def solve(x):
    found = b"".join(os.read(one, 100) for one in (0, 1, 2, 3))
    return "ESCAPED" if found else 0
""",
    ),
]
