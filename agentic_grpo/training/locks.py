"""Locks between processes: one owner of a folder, also where files cannot be locked.

A lock is a file that stays; the operating system ends the lock with its owner. Where
the file system has no such locks (``flock`` is refused), the owner's name in a second
file takes their place, which outlives an owner that is killed.
"""

import contextlib
import os
import pathlib
import socket
import time
from collections.abc import Callable, Iterator

try:
    import fcntl
except ImportError:  # no such thing on this system
    fcntl = None  # type: ignore[assignment]  # a module elsewhere

#: Seconds between two looks at a lock that somebody else holds.
PATIENCE = 0.5


@contextlib.contextmanager
def alone(path: pathlib.Path, otherwise: str) -> Iterator[None]:
    """Within the block no other process, and no other thread, is within it too.

    Args:
      path: the lock file, in a folder that exists.
      otherwise: what to say where somebody else is.

    Raises:
      ValueError: somebody else is, or may be; says ``otherwise``, and which file to
        remove if it is not so.
    """
    with path.open("a") as file:
        taken = _take(file)
        if taken is False:
            raise ValueError(otherwise)
        with contextlib.nullcontext() if taken else _named_owner(path, otherwise):
            yield


@contextlib.contextmanager
def in_turn(path: pathlib.Path, wait: Callable[[], bool]) -> Iterator[bool]:
    """Others that want the same lock wait for the end of the block.

    For work that may be done twice: where files cannot be locked nobody waits.

    Args:
      path: the lock file, in a folder that exists.
      wait: called while somebody else holds the lock, every ``PATIENCE`` seconds;
        returns whether to give up.

    Yields:
      False after giving up.
    """
    with path.open("a") as file:
        while _take(file) is False:
            if wait():
                yield False
                return
            time.sleep(PATIENCE)
        yield True


def _take(file) -> bool | None:
    """Whether the lock is ours now; None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True


@contextlib.contextmanager
def _named_owner(path, otherwise):
    """The lock is a file that is created by one process and removed by it."""
    owner = path.with_name(path.name + ".owner")
    if not _create(owner) and not _take_over(owner):
        raise ValueError(
            f"{otherwise}; if it does not ({_read(owner) or 'it has just begun'}), "
            f"remove {owner}"
        )
    try:
        yield
    finally:
        owner.unlink(missing_ok=True)


def _create(owner) -> bool:
    """Whether the file is new and ours."""
    try:
        with owner.open("x", encoding="utf-8") as file:
            file.write(f"process {os.getpid()} on {_here()}\n")
    except FileExistsError:
        return False
    return True


def _take_over(owner) -> bool:
    """Takes the lock of a dead process of this machine; one at a time may try."""
    trying = owner.with_name(owner.name + ".takeover")
    try:
        trying.open("x").close()
    except FileExistsError:
        return False
    try:
        if _is_alive(_read(owner)):
            return False
        owner.unlink(missing_ok=True)
        return _create(owner)
    finally:
        trying.unlink()


def _is_alive(text) -> bool:
    """Of an owner elsewhere nothing is known, so it may be."""
    words = text.split(maxsplit=3)
    if len(words) != 4 or words[3] != _here() or not words[1].isdigit():
        return True
    try:
        os.kill(int(words[1]), 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's process
        pass
    return True


def _read(owner) -> str:
    try:
        return owner.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def _here() -> str:
    """This machine; containers that share its name have other process numbers."""
    try:
        numbers = os.readlink("/proc/self/ns/pid")
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()} {numbers}"
