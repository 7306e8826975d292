"""The warm worker: forks one child per job, waits for it, and reports how it ended.

Started by exec (`worker_process`), with one thread and nothing of the host in it. It
never reads a job: the descriptors of a job go to the child, which reads it there. So
the memory a child is born with holds no other program, no input and no answer.

Control messages are JSON, one per packet:

    to us      {"processes": 1, "cpu_seconds": , "wall_seconds": , "memory_bytes": }
               with descriptors: for each process its line to the host, and with two
               processes also an end of the line between them
    from us    {"layers": [[name, standing, detail], ...]} or {"missing": , "why": }
               {"ends": [[wait status, CPU seconds, peak bytes], ...], "late": ,
               "seconds": } or {"failed": why}
"""

import contextlib
import gc
import importlib
import importlib.machinery
import json
import os
import signal
import socket
import sys
import time

from agentic_grpo.sandbox import program, walls

#: What a program finds ready to import; there is nothing else behind the walls.
WARM = (
    "__future__ abc array ast base64 binascii bisect calendar cmath collections "
    "collections.abc colorsys contextlib copy csv dataclasses datetime decimal "
    "difflib enum fractions functools graphlib hashlib heapq html inspect io "
    "itertools json keyword locale math numbers operator os pickle pprint queue "
    "random re reprlib secrets shlex statistics string struct sys textwrap "
    "threading time timeit token tokenize traceback types typing unicodedata uuid "
    "warnings weakref zlib _strptime encodings.ascii encodings.cp1252 "
    "encodings.latin_1 encodings.raw_unicode_escape encodings.rot_13 "
    "encodings.unicode_escape encodings.utf_16 encodings.utf_32 "
)

#: The kernel ends the sandbox before the training process when memory runs out.
_FIRST_TO_GO = "1000"


def main(parent, folder):
    """Serves until the host closes the line, a packet socket that we have as input.

    Args:
      parent: process number of the host.
      folder: where a folder can be made for a moment.
    """
    control = socket.socket(fileno=os.dup(0))
    os.dup2(1, 0)  # /dev/null, as the output is
    try:
        layers, base_bytes = prepare(parent, folder)
        try_walls(base_bytes)
    except walls.Missing as missing:
        name, why = missing.args
        _send(control, {"missing": name, "why": why})
        return
    _send(control, {"layers": layers})
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 4096, 4)
        if not message:
            return
        _send(control, run_job(json.loads(message), descriptors, base_bytes))


def _send(control, message):
    control.send(json.dumps(message).encode())


def prepare(parent, folder):
    """Imports what programs may want, and raises the walls that last.

    Returns:
      the layers as `walls.confine_worker` lists them, and the mapped bytes.

    Raises:
      Missing: one that must stand does not.
    """
    for name in WARM.split():
        importlib.import_module(name)
    walls.limit_worker()
    for number in (signal.SIGCHLD, signal.SIGPROF, signal.SIGXCPU):
        signal.signal(number, signal.SIG_DFL)  # whatever the host had made of them
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGCHLD})
    with (
        contextlib.suppress(OSError),  # /proc may be read-only
        open("/proc/self/oom_score_adj", "w", encoding="ascii") as score,
    ):
        score.write(_FIRST_TO_GO)
    base_bytes = walls.mapped_bytes()
    layers = walls.confine_worker(folder)
    walls.end_with_parent(parent)
    # no file can be opened any more, so let no import try
    sys.path.clear()
    sys.path_importer_cache.clear()
    sys.meta_path.remove(importlib.machinery.PathFinder)
    gc.collect()
    gc.freeze()  # what a fork shares stays shared
    return layers, base_bytes


def try_walls(base_bytes):
    """Lets a child run into the walls that must stand.

    Raises:
      Missing: one does not.
    """
    reading, writing = os.pipe()
    worker = os.getpid()
    child = os.fork()
    if child == 0:
        os.dup2(writing, walls.FIRST_DESCRIPTOR)
        found = ["one process per job", "the trial did not come to its end"]
        try:
            walls.keep_only([walls.FIRST_DESCRIPTOR])
            walls.confine_program(
                parent=worker,
                cpu_seconds=10.0,
                address_bytes=base_bytes + (64 << 20),
            )
            walls.trial()
            found = []
        except walls.Missing as missing:
            found = list(missing.args)
        except OSError as error:
            found = ["one process per job", str(error)]
        finally:
            os.write(walls.FIRST_DESCRIPTOR, json.dumps(found).encode())
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    if found := json.loads(said or b'["one process per job", "the trial died"]'):
        raise walls.Missing(*found)


def run_job(wanted, descriptors, base_bytes):
    """Forks the processes of a job and sees to their end; returns the report."""
    started = time.monotonic()
    share = len(descriptors) // wanted["processes"]
    children = []
    try:
        for index in range(wanted["processes"]):
            own = descriptors[index * share : (index + 1) * share]
            children.append(_fork(wanted, own, base_bytes))
    except OSError as error:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        return {"failed": f"fork: {error}"}
    finally:
        for one in descriptors:
            os.close(one)
    ends, late = _wait(children, started + wanted["wall_seconds"])
    return {
        "ends": [ends[child] for child in children],
        "late": late,
        "seconds": time.monotonic() - started,
    }


def _fork(wanted, descriptors, base_bytes):
    worker = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        walls.keep_only(descriptors)
        program.main(
            lambda: walls.confine_program(
                parent=worker,
                cpu_seconds=wanted["cpu_seconds"],
                address_bytes=base_bytes + wanted["memory_bytes"],
            )
        )
    finally:
        os._exit(1)  # whatever happens, this copy of the worker goes no further


def _wait(children, deadline):
    """Until the last of the children has ended or time is up; ends the others too.

    Returns:
      dict child -> [wait status, CPU seconds, peak bytes], and whether it was late.
    """
    ends = {}

    def reap(child, options):
        found, status, usage = os.wait4(child, options)
        if found:
            seconds = usage.ru_utime + usage.ru_stime
            ends[child] = [status, seconds, usage.ru_maxrss << 10]

    def living():
        return [child for child in children if child not in ends]

    while children[-1] not in ends and (left := deadline - time.monotonic()) > 0:
        signal.sigtimedwait({signal.SIGCHLD}, left)
        for child in living():
            reap(child, os.WNOHANG)
    late = children[-1] not in ends
    # the checker first: it must not see the other's end and speak of it
    for child in reversed(living()):
        os.kill(child, signal.SIGKILL)
        reap(child, 0)
    return ends, late
