"""Which walls stand, what happens where one does not, and what is behind them."""

import os
import pathlib
import platform

import pytest
import sandbox_hosts

from agentic_grpo.sandbox import jobs, worker
from agentic_grpo.sandbox import pool as pools

#: Numbers of system calls, to be forbidden to a host and all it starts.
PRCTL = {"x86_64": [157], "aarch64": [167]}
EXTRAS = {
    "x86_64": [272, 161, 444, 106, 114, 117, 119],
    "aarch64": [97, 51, 444, 144, 146, 147, 149],
}  # unshare, chroot, landlock_create_ruleset, set(res)uid, set(res)gid ...
#: What a layer cannot do without, and for prctl the option.
REQUIRED_BY = {
    "limits": ({"x86_64": [302, 160], "aarch64": [261, 164]}, None),  # setrlimit
    "no new privileges": ({"x86_64": [126], "aarch64": [91]}, None),  # capset
    "one process per job": (PRCTL, 1),  # PR_SET_PDEATHSIG
    "system calls": (PRCTL, 22),  # PR_SET_SECCOMP
}

EVERYTHING_QUICK = """
from agentic_grpo.sandbox import hostile
from agentic_grpo.sandbox.attacks import on_files, on_the_machine, on_the_verdict
with Pool(1) as pool:
    for layer in pool.layers:
        print(layer.name, layer.standing, layer.detail, sep="|")
    attacks = [*on_files.ATTACKS, *on_the_machine.ATTACKS, *on_the_verdict.ATTACKS]
    attempts, damages = hostile.run(pool, attacks)
    wrong = [attempt for attempt in attempts if not attempt.held]
    assert len(attempts) > 43 and not wrong and not damages, (wrong, damages)
"""


def layers_told(output):
    rows = [line.split("|") for line in output.splitlines() if "|" in line]
    return {name: (standing == "True", detail) for name, standing, detail in rows}


def test_every_layer_that_must_stand_stands_and_the_others_are_listed(pool):
    required = [layer for layer in pool.layers if layer.required]
    extra = [layer for layer in pool.layers if not layer.required]
    assert [layer.name for layer in required] == list(pools.REQUIRED)
    assert all(layer.standing for layer in required)
    assert [layer.name for layer in extra] == [
        "namespaces",
        "empty root",
        "ordinary user",
        "Landlock",
    ]
    assert all(layer.detail for layer in extra)  # what it is, or why it is not


def test_the_kernel_agrees_with_the_list_of_layers(pool):
    standing = {layer.name: layer.standing for layer in pool.layers}
    for number in pool.worker_numbers:
        status = pathlib.Path(f"/proc/{number}/status").read_text(encoding="utf-8")
        fields = dict(line.split(":\t", 1) for line in status.splitlines())
        assert fields["NoNewPrivs"] == "1"
        assert int(fields["CapEff"], 16) == int(fields["CapPrm"], 16) == 0
        assert fields["Threads"] == "1"
        if standing["ordinary user"]:
            assert "0" not in fields["Uid"].split()
        own = os.readlink(f"/proc/{number}/ns/net")
        assert (own != os.readlink("/proc/self/ns/net")) == standing["namespaces"]
        if standing["empty root"]:
            assert os.readlink(f"/proc/{number}/root").endswith("(deleted)")


def test_the_worker_holds_nothing_of_the_host(pool):
    for number in pool.worker_numbers:
        environment = pathlib.Path(f"/proc/{number}/environ").read_bytes()
        assert environment == b"PYTHONHASHSEED=0\0"
        # /dev/null twice, its words, the line to the host; none that closing misses
        assert sorted(os.listdir(f"/proc/{number}/fd")) == ["0", "1", "2", "3"]


def test_without_extra_layers_the_attacks_are_held_all_the_same():
    told = layers_told(sandbox_hosts.run(f"forbid({EXTRAS})\n{EVERYTHING_QUICK}"))
    assert {name for name, (standing, _) in told.items() if standing} >= set(
        pools.REQUIRED
    )
    for name in ("namespaces", "empty root", "Landlock"):
        standing, why = told[name]
        assert not standing and "Operation not permitted" in why
    # root could not become another; whoever is not root has nothing to become
    assert told["ordinary user"][0] == (os.geteuid() != 0)


def test_a_host_without_any_privilege_holds_them_too(pool):
    # In a namespace of users without a mapping we are nobody; where there are none,
    # the script runs as who we are.
    script = f"""
unshared = libc.unshare(0x10000000) == 0
print("unshared", unshared, os.geteuid())
{EVERYTHING_QUICK}"""
    output = sandbox_hosts.run(script)
    told = layers_told(output)
    if output.startswith("unshared True"):
        user = int(output.split()[2])
        assert user != 0
        assert told["ordinary user"] == (True, f"user {user}")
        assert not told["empty root"][0]
    else:
        standing = {layer.name: layer.standing for layer in pool.layers}
        assert {name: told[name][0] for name in standing} == standing


def test_an_ordinary_host_has_namespaces_of_its_own_where_there_are_any(pool):
    # As user 1000 in a namespace of users, with the files of whom we are outside.
    output = sandbox_hosts.run(
        f"""
user, group = os.geteuid(), os.getegid()
unshared = libc.unshare(0x10000000) == 0
if unshared:
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"1000 {{user}} 1"),
        ("gid_map", f"1000 {{group}} 1"),
    ):
        with open(f"/proc/self/{{name}}", "w") as file: file.write(text)
print("unshared", unshared, os.geteuid())
{EVERYTHING_QUICK}"""
    )
    told = layers_told(output)
    if output.startswith("unshared True"):
        assert told["ordinary user"] == (True, "user 1000")
        assert told["empty root"][0] and told["namespaces"][0]
        assert told["namespaces"][1].startswith("users, network")
    else:
        standing = {layer.name: layer.standing for layer in pool.layers}
        assert {name: told[name][0] for name in standing} == standing


@pytest.mark.parametrize("name", sorted(REQUIRED_BY))
def test_a_machine_without_a_wall_that_must_stand_is_refused(name):
    calls, option = REQUIRED_BY[name]
    told = sandbox_hosts.run(
        f"""
forbid({calls}, first_argument={option})
try: Pool(2)
except jobs.SandboxUnavailable as error: print(error)
"""
    )
    assert f"{name}: " in told and "Operation not permitted" in told
    assert told.rstrip().endswith(f"To mend it: {pools.REQUIRED[name][1]}")


def test_a_filter_that_is_only_said_to_stand_is_found_out():
    # The kernel answers "done" and does nothing: errno 0.
    told = sandbox_hosts.run(
        f"""
forbid({PRCTL}, answer=0x00050000, first_argument=22)
try: Pool(1)
except jobs.SandboxUnavailable as error: print(error)
"""
    )
    assert "system calls: " in told and "was not refused" in told


@pytest.mark.parametrize(
    ("system", "machine", "message"),
    [
        ("darwin", "arm64", "this is darwin; run the job in a Linux container"),
        ("win32", "AMD64", "only Linux has, and this is win32"),
        ("linux", "riscv64", "64-bit x86_64 and aarch64, and this is riscv64"),
    ],
)
def test_another_system_is_refused_with_a_clear_word(
    monkeypatch, system, machine, message
):
    monkeypatch.setattr(pools.sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(jobs.SandboxUnavailable, match=message):
        pools.Pool(1)


def test_what_is_warm_is_the_standard_library():
    names = {name.partition(".")[0] for name in worker.WARM.split()}
    assert names <= pools.sys.stdlib_module_names


#: Reads every page that is mapped near anything it can find: arenas and the heap, used
#: or freed. Asking the kernel for advice on a page tells whether it is there.
SEARCH = """
import ctypes, gc, re
libc = ctypes.CDLL(None)
def f(argument):
    known = [id(thing) for thing in gc.get_objects()]
    known += [id(bytes(1 << n)) for n in range(17)]
    regions = {(address >> 20) + near for address in known for near in (-1, 0, 1)}
    found = set()
    for start in sorted(region << 20 for region in regions):
        for page in range(start, start + (1 << 20), 4096):
            if libc.madvise(ctypes.c_void_p(page), ctypes.c_size_t(4096), 0) == 0:
                text = ctypes.string_at(page, 4096)
                found.update(re.findall(rb"canary-[0-9a-f]{16}", text))
    return sorted(found)
"""


def test_memory_holds_nothing_of_earlier_jobs():
    secret = f"canary-{os.urandom(8).hex()}"
    limits = jobs.Limits(cpu_seconds=20.0)

    def job(program, argument):
        return jobs.Calls(
            program=program, entry="f", arguments=[(argument,)], limits=limits
        )

    check = jobs.Check(
        program="def f(): return 1",
        entry="f",
        checker=f"def check(candidate): assert candidate() == 1, {secret!r}",
        limits=limits,
    )
    with pools.Pool(1) as pool:
        own = pool.run([job(SEARCH, secret)])[0]
        assert own.outcomes[0].value == [secret.encode()]  # it can find what is there
        before = [
            job("def f(x): return x", secret),
            job(f"def f(x): return {secret!r}", 1),
            job("def f(x): raise ValueError(x)", secret),
            check,
        ]
        for result in pool.run(before * 5):
            assert result.ending in (jobs.Ending.ANSWERED, jobs.Ending.RAISED)
        later = pool.run([job(SEARCH, 1)])[0]
        assert later.outcomes[0].value == []


def test_a_checker_is_not_in_the_memory_of_the_program(pool):
    secret = f"canary-{os.urandom(8).hex()}"
    checker = f"def check(candidate): assert not candidate(1), {secret!r}"
    limits = jobs.Limits(cpu_seconds=20.0)
    job = jobs.Check(program=SEARCH, entry="f", checker=checker, limits=limits)
    (result,) = pool.run([job])
    assert result.outcomes[0].value is True, result


def test_limits_are_those_of_the_job(call):
    # getrlimit is refused behind the walls, so by what can be had
    program = "def f(n): return len(bytes(n << 20))"
    for size, ending in ((40, jobs.Ending.ANSWERED), (90, jobs.Ending.RAISED)):
        result = call(program, (size,), memory_bytes=64 << 20)
        assert result.ending is ending, result
    assert result.text == "MemoryError: line 1"


DESCRIPTORS = """
import os
def f(highest):
    there = []
    for one in range(highest):
        try: os.write(one, b"")
        except OSError: continue
        there.append(one)
    return there
"""


def test_descriptors_of_a_program_are_three_and_its_line(call):
    assert call(DESCRIPTORS, (5000,)).outcomes[0].value == [0, 1, 2, 3]


def test_a_host_with_many_open_files_passes_none_of_them_on():
    told = sandbox_hosts.run(
        f"""
kept = [os.open("/dev/null", os.O_RDWR) for _ in range(300)]
for one in kept: os.set_inheritable(one, True)
with Pool(1) as pool:
    job = jobs.Calls(program={DESCRIPTORS!r}, entry="f", arguments=[(5000,)])
    print(pool.run([job])[0].outcomes[0].value)
"""
    )
    assert told == "[0, 1, 2, 3]\n"
