"""Which system calls a program may make, as a filter in the kernel's own language.

A seccomp filter is classic BPF: a list of 8-byte instructions over the number, the
architecture and the arguments of a call (seccomp(2), linux/filter.h). What is not
listed fails with EPERM, which Python turns into a PermissionError; another
architecture's call (32-bit, x32) ends the process.

Listed is what an interpreter needs to compute, to answer on descriptors it already has
and to end. Not listed, among all others: fork and clone (so no threads), exec, open,
socket, kill, ptrace, setrlimit; setitimer, sigaction, sigprocmask and sigreturn, which
would stop the clock that ends it; and sleeping: a program that waits would hold its
worker for the whole wall limit without costing itself anything.
"""

import struct

#: Numbers of the same calls per ``platform.machine()``.
NUMBERS = {
    "x86_64": {
        "read": 0,
        "write": 1,
        "close": 3,
        "mmap": 9,
        "mprotect": 10,
        "munmap": 11,
        "brk": 12,
        "sched_yield": 24,
        "mremap": 25,
        "madvise": 28,
        "getpid": 39,
        "exit": 60,
        "gettimeofday": 96,
        "getrusage": 98,
        "times": 100,
        "gettid": 186,
        "time": 201,
        "futex": 202,
        "clock_gettime": 228,
        "clock_getres": 229,
        "exit_group": 231,
        "getrandom": 318,
    },
    "aarch64": {  # has no call "time"
        "close": 57,
        "read": 63,
        "write": 64,
        "exit": 93,
        "exit_group": 94,
        "futex": 98,
        "clock_gettime": 113,
        "clock_getres": 114,
        "sched_yield": 124,
        "times": 153,
        "getrusage": 165,
        "gettimeofday": 169,
        "getpid": 172,
        "gettid": 178,
        "brk": 214,
        "munmap": 215,
        "mremap": 216,
        "mmap": 222,
        "mprotect": 226,
        "madvise": 233,
        "getrandom": 278,
    },
}

#: Call -> (argument, mask, value): let through only where argument & mask == value.
RULES = {
    "mmap": (2, 0x4, 0),  # no memory that can be executed
    "mprotect": (2, 0x4, 0),
    # waking, never waiting: with one thread a wait has no end
    "futex": (1, 0x7F, 1),
}

_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # linux/audit.h
_X32 = 0x40000000  # this bit of the number is another interface of x86_64

LOAD, AND = 0x20, 0x54  # BPF_LD | BPF_W | BPF_ABS; BPF_ALU | BPF_AND | BPF_K
IF_EQUAL, IF_AT_LEAST, RETURN = 0x15, 0x35, 0x06
ALLOW, KILL, DENY = 0x7FFF0000, 0x80000000, 0x00050001  # DENY: errno 1, EPERM
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16


def instruction(code, value, *, then=0, otherwise=0) -> bytes:
    """One of them; ``then`` and ``otherwise`` are how many to skip after a test."""
    return struct.pack("=HBBI", code, then, otherwise, value)


def assemble(machine: str) -> bytes:
    """The filter for a machine of NUMBERS."""
    program = [
        instruction(LOAD, ARCHITECTURE_AT),
        instruction(IF_EQUAL, _ARCHITECTURE[machine], then=1),
        instruction(RETURN, KILL),
        instruction(LOAD, NUMBER_AT),
    ]
    if machine == "x86_64":
        program += [
            instruction(IF_AT_LEAST, _X32, otherwise=1),
            instruction(RETURN, KILL),
        ]
    for call, number in NUMBERS[machine].items():
        if call not in RULES:
            program += [
                instruction(IF_EQUAL, number, otherwise=1),
                instruction(RETURN, ALLOW),
            ]
    for call, (argument, mask, value) in RULES.items():
        program += [
            instruction(IF_EQUAL, NUMBERS[machine][call], otherwise=5),
            # the lower half: both machines store it first
            instruction(LOAD, ARGUMENTS_AT + 8 * argument),
            instruction(AND, mask),
            instruction(IF_EQUAL, value, otherwise=1),
            instruction(RETURN, ALLOW),
            instruction(RETURN, DENY),
        ]
    return b"".join([*program, instruction(RETURN, DENY)])
