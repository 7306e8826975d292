"""How a worker and ``benchmark_peers`` talk: JSON lines, the standard library alone.

A worker says that it is ready, does its work once for every line it reads, and tells
how long that took. While it waits it uses no processor, so that workers can take turns.
"""

import json
import os
import resource
import sys
import time

# Libraries print what they like; the conversation has a descriptor of its own.
_conversation = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)


def serve(work) -> None:
    """Warms ``work()`` up, then calls it for every request until there are no more."""
    work()
    work()
    while wait():
        started = now()
        work()
        tell(started)


def now() -> tuple[float, float]:
    """(time of the clock, time of all processors that this process has used)."""
    return time.perf_counter(), time.process_time()


def wait() -> bool:
    """Waits for a request; False when there are no more."""
    print(json.dumps({"ready": True}), file=_conversation)
    return sys.stdin.readline().strip() == "go"


def tell(started: tuple[float, float]) -> None:
    """Answers a request: time since then, and the most memory held so far."""
    seconds, cpu_seconds = (b - a for a, b in zip(started, now(), strict=True))
    # Linux counts kibibytes, macOS bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    answer = {"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_bytes": peak}
    print(json.dumps(answer), file=_conversation)


def settings() -> dict:
    """What to do: the JSON of the first argument."""
    return json.loads(sys.argv[1])
