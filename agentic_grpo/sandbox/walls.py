"""The layers between a program and the machine; runs in the worker and its children.

`confine_worker` raises, once, what a kernel may or may not offer: namespaces of its own
(network, mounts, messages, host name), an empty and deleted folder as root, an ordinary
user in the place of root, Landlock without a single right. `confine_program` raises, in
every child, what must stand: limits, no new privileges, the filter of system calls.

There is no namespace of process numbers: a program can neither signal nor fork, and the
kernel ends it with its worker and the worker with the thread that started it.
"""

import ctypes
import errno
import fcntl
import math
import os
import platform
import resource
import signal
import struct

from agentic_grpo.sandbox import filters

#: Descriptors of a worker stay below; so closing all of them is quick on any kernel.
OPEN_FILES = 64
_ASIDE = 32
#: The first descriptor that a program has, after 0 to 2.
FIRST_DESCRIPTOR = 3

_NEW_MOUNTS, _NEW_HOST_NAME, _NEW_MESSAGES = 0x00020000, 0x04000000, 0x08000000
_NEW_USERS, _NEW_NETWORK = 0x10000000, 0x40000000
_NOBODY = 65534
_DEATH_SIGNAL, _DUMPABLE, _SECCOMP, _NO_NEW_PRIVILEGES = 1, 4, 22, 38  # of prctl
_SECCOMP_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446  # the same numbers on all machines
_STACK_BYTES = 8 << 20

_libc = ctypes.CDLL(None, use_errno=True)


class Missing(Exception):
    """A required layer does not stand. Arguments: its name, and why."""


def _call(function, *arguments):
    """A function of libc; raises OSError where it says -1."""
    result = function(*arguments)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _prctl(option, value, pointer=None):
    zero = ctypes.c_ulong(0)
    value, pointer = ctypes.c_ulong(value), ctypes.c_void_p(pointer)
    _call(_libc.prctl, option, value, pointer, zero, zero)


# once, in the worker


def limit_worker():
    """Keeps the worker's descriptors few.

    Raises:
      Missing: limits cannot be set.
    """
    _limit(resource.RLIMIT_NOFILE, OPEN_FILES, OPEN_FILES)


def confine_worker(folder):
    """Raises the extra layers, as far as they go.

    Args:
      folder: where a folder can be made, that is removed at once.

    Returns:
      list of (name, whether it stands, detail).

    Raises:
      Missing: privileges cannot be given up.
    """
    user = os.geteuid()  # in a namespace of users we look like another
    layers = [
        _attempt("namespaces", lambda: _leave_namespaces(user)),
        _attempt("empty root", lambda: _enter_empty_root(folder)),
        _attempt("ordinary user", lambda: _become_ordinary(user)),
    ]
    try:
        _drop_capabilities()
        _prctl(_NO_NEW_PRIVILEGES, 1)
    except OSError as error:
        raise Missing("no new privileges", str(error)) from error
    layers.append(_attempt("Landlock", _allow_no_files))
    return layers


def _attempt(name, raise_wall):
    try:
        return name, True, raise_wall()
    except OSError as error:
        return name, False, str(error)


def _leave_namespaces(user):
    own = _NEW_NETWORK | _NEW_MOUNTS | _NEW_MESSAGES | _NEW_HOST_NAME
    if user == 0:
        _call(_libc.unshare, own)
        return "network, mounts, messages, host name"
    # Not for root, who would look like another user there and still own its files.
    _call(_libc.unshare, _NEW_USERS | own)
    return "users, network, mounts, messages, host name"


def _enter_empty_root(folder):
    # In a folder that is deleted nothing can be made, and nothing of it is left.
    empty = os.path.join(folder, f"sandbox-{os.urandom(8).hex()}")
    os.mkdir(empty, 0o700)
    try:
        os.chdir(empty)
    finally:
        os.rmdir(empty)
    os.chroot(".")
    return "a deleted folder"


def _become_ordinary(user):
    if user != 0:
        return f"user {user}"
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    return f"user {_NOBODY} instead of root"


def _drop_capabilities():
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _call(_libc.capset, header, bytes(24))


def _allow_no_files():
    version = _call(_libc.syscall, _LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)
    rights = {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)  # on files, so many bits
    handled = [(1 << rights) - 1]
    if version >= 4:
        handled.append(0b11)  # bind and connect TCP
    if version >= 6:
        handled.append(0b11)  # abstract sockets and signals of outsiders
    rules = struct.pack(f"={len(handled)}Q", *handled)
    size = ctypes.c_size_t(len(rules))
    ruleset = _call(_libc.syscall, _LANDLOCK_CREATE, rules, size, 0)
    try:
        _call(_libc.syscall, _LANDLOCK_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)
    return f"version {version}, no rights"


def end_with_parent(parent):
    """The kernel kills this process when the thread that started it ends.

    After a change of user this has to be asked for again.

    Raises:
      Missing: it does not.
    """
    try:
        _prctl(_DEATH_SIGNAL, signal.SIGKILL)
    except OSError as error:
        raise Missing("one process per job", f"prctl: {error}") from error
    if os.getppid() != parent:  # it ended before we asked
        os._exit(1)


def mapped_bytes():
    """The address space in use; /proc must still be there."""
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[0]) * resource.getpagesize()


# in every child


def keep_only(descriptors):
    """These become 3, 4, ... and stay, with /dev/null on 0 to 2; all others close."""
    aside = [fcntl.fcntl(one, fcntl.F_DUPFD, _ASIDE) for one in descriptors]
    for place, one in enumerate(aside, FIRST_DESCRIPTOR):
        os.dup2(one, place)
    for place in (1, 2):
        os.dup2(0, place)
    os.closerange(FIRST_DESCRIPTOR + len(aside), OPEN_FILES)


def confine_program(*, parent, cpu_seconds, address_bytes):
    """Raises what must stand. Nothing can be opened, started or signalled afterwards.

    Args:
      parent: process number of the worker.
      cpu_seconds: after which the kernel ends this process: exactly by a timer whose
        signal cannot be caught any more, and at the next whole second by a limit.
      address_bytes: the whole address space.

    Raises:
      Missing: a wall does not stand.
    """
    os.setsid()
    _limit_program(cpu_seconds, address_bytes)
    end_with_parent(parent)
    _prctl(_DUMPABLE, 0)
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    try:
        _filter_system_calls()
    except OSError as error:
        raise Missing("system calls", f"prctl(PR_SET_SECCOMP): {error}") from error


def _limit_program(cpu_seconds, address_bytes):
    seconds = math.ceil(cpu_seconds) + 1
    for which, soft, hard in (
        (resource.RLIMIT_AS, address_bytes, address_bytes),
        (resource.RLIMIT_CPU, seconds, seconds + 1),
        (resource.RLIMIT_STACK, _STACK_BYTES, _STACK_BYTES),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_NPROC, 0, 0),  # says nothing to root
        (resource.RLIMIT_MEMLOCK, 0, 0),
        (resource.RLIMIT_NOFILE, FIRST_DESCRIPTOR + 2, FIRST_DESCRIPTOR + 2),
    ):
        _limit(which, soft, hard)


def _limit(which, soft, hard):
    try:
        ceiling = resource.getrlimit(which)[1]  # of whoever started us
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        resource.setrlimit(which, (soft, hard))
        taken = resource.getrlimit(which) == (soft, hard)
    except (OSError, ValueError) as error:
        raise Missing("limits", f"limit {which}: {error}") from error
    if not taken:
        raise Missing("limits", f"limit {which} did not take")


def _filter_system_calls():
    program = filters.assemble(platform.machine())
    instructions = ctypes.create_string_buffer(program, len(program))
    count = len(program) // 8
    # struct sock_fprog: a count and, aligned, a pointer
    described = ctypes.create_string_buffer(
        struct.pack("@HP", count, ctypes.addressof(instructions))
    )
    _prctl(_SECCOMP, _SECCOMP_FILTER, ctypes.addressof(described))


def trial():
    """Runs into the walls; to be called behind them.

    Raises:
      Missing: one let us through.
    """
    for name, attempt in (
        ("open", lambda: os.open("/", os.O_RDONLY)),
        ("pipe", os.pipe),
        ("kill", lambda: os.kill(os.getpid(), 0)),
        ("uname", os.uname),
        ("fork", lambda: os.fork() or os._exit(1)),
    ):
        try:
            attempt()
        except OSError as error:
            if error.errno == errno.EPERM:
                continue
        raise Missing("system calls", f"{name} was not refused")
