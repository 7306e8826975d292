"""Programs that want at processes, the network or the kernel."""

from agentic_grpo.sandbox.attacks import LIBC, Attack
from agentic_grpo.sandbox.jobs import Ending

RAISED, ANSWERED = (Ending.RAISED,), (Ending.ANSWERED,)

#: Everything that a kernel can be asked and that opens a way out, by its number.
_NUMBERS = """
import platform
numbers = {
    # clone fork vfork execve kill ptrace socket open openat io_uring_setup bpf
    # perf_event_open keyctl userfaultfd memfd_create setns unshare mount seccomp
    # process_vm_readv pidfd_open pidfd_getfd clone3 openat2 execveat name_to_handle_at
    "x86_64": [56, 57, 58, 59, 62, 101, 41, 2, 257, 425, 321, 298, 250, 323, 319, 308,
               272, 165, 317, 310, 434, 438, 435, 437, 322, 303],
    # the same without fork, vfork and open, which aarch64 does not have
    "aarch64": [220, 221, 129, 117, 198, 56, 425, 280, 241, 219, 282, 279, 268, 97, 40,
                277, 270, 434, 438, 435, 437, 281, 264],
}[platform.machine()]
"""

ATTACKS = [
    Attack(
        "reads its memory as a file",
        RAISED,
        """
def solve(x): return "ESCAPED" + str(open("/proc/self/mem", "rb"))
""",
    ),
    Attack(
        "writes the worker's memory",
        RAISED,
        """
import os
def solve(x): return "ESCAPED" + str(open(f"/proc/{os.getppid()}/mem", "r+b"))
""",
    ),
    Attack(
        "reads the worker's memory",
        ANSWERED,
        LIBC
        + """
def solve(x):
    buffer = ctypes.create_string_buffer(8)
    class Span(ctypes.Structure):
        _fields_ = [("start", ctypes.c_void_p), ("size", ctypes.c_size_t)]
    span = Span(ctypes.addressof(buffer), 8)
    worker = libc.getppid() if libc.getppid() > 0 else @HOST@
    return told(libc.process_vm_readv(
        worker, ctypes.byref(span), 1, ctypes.byref(span), 1, 0))
""",
    ),
    Attack(
        "traces the worker",
        ANSWERED,
        LIBC
        + """
def solve(x): return told(libc.ptrace(16, @HOST@, 0, 0))  # PTRACE_ATTACH
""",
    ),
    Attack(
        "kills the worker",
        RAISED,
        """
import os
def solve(x):
    os.kill(os.getppid(), 9)
    return "ESCAPED"
""",
    ),
    Attack(
        "kills the host",
        RAISED,
        """
import os
def solve(x):
    os.kill(@HOST@, 9)
    return "ESCAPED"
""",
    ),
    Attack(
        "kills everyone",
        ANSWERED,
        LIBC
        + """
def solve(x): return told(libc.kill(-1, 9))
""",
    ),
    Attack(
        "connects by socket",
        RAISED,
        """
import socket
socket.socket().connect(("127.0.0.1", @PORT@))
""",
    ),
    Attack(
        "connects by libc",
        ANSWERED,
        LIBC
        + """
def solve(x):
    one = libc.socket(2, 1, 0)
    address = b"\\2\\0" + (@PORT@).to_bytes(2, "big") + b"\\x7f\\0\\0\\1" + bytes(8)
    return told(one if one < 0 else libc.connect(one, address, 16))
""",
    ),
    Attack(
        "sends a datagram",
        ANSWERED,
        LIBC
        + """
def solve(x): return told(libc.socket(2, 2, 0))
""",
    ),
    Attack(
        "asks the kernel over netlink",
        ANSWERED,
        LIBC
        + """
def solve(x): return told(libc.socket(16, 3, 0))
""",
    ),
    Attack(
        "uses inherited descriptors",
        ANSWERED,
        """
import os
def solve(x):
    for one in range(5, 4096):
        for attempt in (lambda: os.read(one, 1), lambda: os.write(one, b"x")):
            try: attempt()
            except OSError: continue
            return "ESCAPED"
    return 0
""",
    ),
    Attack(
        "breaks out of the root",
        ANSWERED,
        LIBC
        + """
def solve(x):
    libc.mkdir(b"a", 0o700)
    left = libc.chroot(b"a")
    for _ in range(64): libc.chdir(b"..")
    return told(max(left, libc.chroot(b".")))
""",
    ),
    Attack(
        "mounts",
        ANSWERED,
        LIBC
        + """
def solve(x): return told(libc.mount(b"proc", b"/", b"proc", 0, None))
""",
    ),
    Attack(
        "takes namespaces of its own",
        ANSWERED,
        LIBC
        + """
def solve(x): return told(max(libc.unshare(flag) for flag in (1 << 28, 1 << 17)))
""",
    ),
    Attack(
        "becomes root",
        ANSWERED,
        LIBC
        + """
def solve(x): return told(max(libc.setuid(0), libc.setresuid(0, 0, 0)))
""",
    ),
    Attack(
        "adds a filter",
        ANSWERED,
        LIBC
        + """
def solve(x): return told(max(libc.prctl(option, 1, 0, 0, 0) for option in (4, 22)))
""",
    ),
    Attack(
        "runs a program from memory",
        ANSWERED,
        LIBC
        + """
def solve(x): return told(libc.memfd_create(b"x", 0))
""",
    ),
    Attack(
        "makes memory executable",
        ANSWERED,
        LIBC
        + """
def solve(x):
    libc.mmap.restype = ctypes.c_ssize_t
    return told(libc.mmap(None, ctypes.c_size_t(4096), 7, 0x22, -1, 0))
""",
    ),
    Attack(
        "asks for every way out by number",
        ANSWERED,
        LIBC
        + _NUMBERS
        + """
def solve(x):
    zeros = [ctypes.c_long(0)] * 5
    for number in numbers:
        if libc.syscall(ctypes.c_long(number), ctypes.c_long(-1), *zeros) != -1:
            return "ESCAPED"
        if ctypes.get_errno() != 1:
            return f"ESCAPED: {number} failed with {ctypes.get_errno()}"
    return 0
""",
    ),
    Attack(
        "asks through another interface",
        (Ending.DIED, Ending.ANSWERED),
        LIBC
        + """
def solve(x): return told(libc.syscall(ctypes.c_long(0x40000000 | 39)))
""",
    ),
]
