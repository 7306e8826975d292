"""The filter of system calls, run by a slow interpreter of its language."""

import struct

import pytest

from agentic_grpo.sandbox import filters

ALLOWED, DENIED, KILLED = filters.ALLOW, filters.DENY, filters.KILL
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

#: What programs of hostile intent ask for, by their numbers.
REFUSED = {
    "x86_64": {
        "open": 2,
        "sendfile": 40,
        "rt_sigaction": 13,
        "rt_sigprocmask": 14,
        "rt_sigreturn": 15,
        "ioctl": 16,
        "nanosleep": 35,
        "setitimer": 38,
        "socket": 41,
        "clone": 56,
        "fork": 57,
        "vfork": 58,
        "execve": 59,
        "kill": 62,
        "ptrace": 101,
        "prctl": 157,
        "setrlimit": 160,
        "openat": 257,
        "prlimit64": 302,
        "seccomp": 317,
        "memfd_create": 319,
        "execveat": 322,
        "pkey_mprotect": 329,
        "io_uring_setup": 425,
        "clone3": 435,
    },
    "aarch64": {
        "ioctl": 29,
        "openat": 56,
        "nanosleep": 101,
        "setitimer": 103,
        "ptrace": 117,
        "kill": 129,
        "rt_sigaction": 134,
        "rt_sigprocmask": 135,
        "rt_sigreturn": 139,
        "setrlimit": 164,
        "prctl": 167,
        "socket": 198,
        "clone": 220,
        "execve": 221,
        "prlimit64": 261,
        "seccomp": 277,
        "memfd_create": 279,
        "execveat": 281,
        "pkey_mprotect": 288,
        "io_uring_setup": 425,
        "clone3": 435,
    },
}


def decide(program, number, arguments=(0,) * 6, architecture=ARCHITECTURES["x86_64"]):
    """What the kernel would do: classic BPF over struct seccomp_data."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, *arguments)
    code = list(struct.iter_unpack("<HBBI", program))
    register, at = None, 0
    while True:
        operation, then, otherwise, value = code[at]
        at += 1
        if operation == 0x20:  # load a word
            (register,) = struct.unpack_from("<I", data, value)
        elif operation == 0x54:
            register &= value
        elif operation == 0x15:
            at += then if register == value else otherwise
        elif operation == 0x35:
            at += then if register >= value else otherwise
        elif operation == 0x06:
            return value
        else:
            raise AssertionError(f"no instruction {operation:#x}")


@pytest.fixture(params=sorted(filters.NUMBERS))
def machine(request):
    return request.param


def decision(machine, number, arguments=(0,) * 6):
    program = filters.assemble(machine)
    return decide(program, number, arguments, ARCHITECTURES[machine])


def test_exactly_the_listed_calls_pass(machine):
    numbers = filters.NUMBERS[machine]
    assert len(set(numbers.values())) == len(numbers)
    listed = set(numbers.values()) - {numbers[call] for call in filters.RULES}
    for number in range(600):
        wanted = ALLOWED if number in listed else DENIED
        if number in numbers.values() and number not in listed:
            continue  # by their arguments, below
        assert decision(machine, number) == wanted, number


def test_the_calls_of_an_attack_are_refused(machine):
    for call, number in REFUSED[machine].items():
        assert call not in filters.NUMBERS[machine]
        assert decision(machine, number) == DENIED, call


@pytest.mark.parametrize("call", ["mmap", "mprotect"])
@pytest.mark.parametrize(
    ("protection", "wanted"),
    [(0, ALLOWED), (3, ALLOWED), (4, DENIED), (5, DENIED), (7, DENIED)],
)
def test_no_memory_becomes_executable(machine, call, protection, wanted):
    arguments = (1 << 40, 4096, protection, 0x22, 0, 0)
    assert decision(machine, filters.NUMBERS[machine][call], arguments) == wanted
    # the upper half of an argument says nothing to the kernel, and nothing to us
    high = (1 << 40, 4096, protection | 0xF << 32, 0x22, 0, 0)
    assert decision(machine, filters.NUMBERS[machine][call], high) == wanted


@pytest.mark.parametrize(
    ("operation", "wanted"),
    [
        (1, ALLOWED),  # wake
        (129, ALLOWED),  # the same, private
        (0, DENIED),  # wait
        (128, DENIED),
        (137, DENIED),  # wait for bits
        (393, DENIED),
    ],
)
def test_a_lock_may_be_opened_but_not_waited_for(machine, operation, wanted):
    number = filters.NUMBERS[machine]["futex"]
    assert decision(machine, number, (0, operation, 0, 0, 0, 0)) == wanted


def test_calls_of_another_architecture_end_the_process(machine):
    program = filters.assemble(machine)
    for name, architecture in ARCHITECTURES.items():
        number = filters.NUMBERS[machine]["read"]
        wanted = ALLOWED if name == machine else KILLED
        assert decide(program, number, architecture=architecture) == wanted
    i386 = 0x40000003
    assert decide(program, 3, architecture=i386) == KILLED


def test_the_second_interface_of_x86_64_ends_the_process():
    for number in (0, 1, 59, 520):
        assert decision("x86_64", 0x40000000 | number) == KILLED


def test_both_machines_have_the_same_list():
    x86_64, aarch64 = filters.NUMBERS["x86_64"], filters.NUMBERS["aarch64"]
    assert x86_64.keys() - aarch64.keys() == {"time"}
    assert aarch64.keys() <= x86_64.keys()
