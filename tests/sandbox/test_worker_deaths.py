"""Workers that die or hang, hosts that end: no exception, and nothing is left."""

import os
import signal
import sys

import pytest
import sandbox_hosts
from sandbox_jobs import (
    adding,
    collect,
    descendants,
    ended,
    looping,
    processor_ticks,
    wait_until,
)

from agentic_grpo.sandbox import hostile, worker_process
from agentic_grpo.sandbox.jobs import Check, Ending, Limits, SandboxUnavailable
from agentic_grpo.sandbox.pool import Pool


def test_a_worker_that_dies_is_our_fault_and_is_replaced(own_pool):
    (worker,) = own_pool.worker_numbers
    own_pool.submit("lost", looping())
    own_pool.submit("next", adding(1))
    wait_until(lambda: hostile.children(worker))
    (child,) = hostile.children(worker)
    os.kill(worker, signal.SIGKILL)
    (_, lost), (_, following) = collect(own_pool, 2)
    assert lost.ending is Ending.OUR_FAULT
    assert "worker 0" in lost.text and "status -9" in lost.text
    assert following.outcomes[0].value == 2
    assert own_pool.worker_numbers != [worker]
    wait_until(lambda: ended(child))  # the program went with its worker


def test_a_worker_that_dies_idle_is_replaced(own_pool):
    for _ in range(3):
        (worker,) = own_pool.worker_numbers
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda old=worker: old not in own_pool.worker_numbers)
        (result,) = own_pool.run([adding(1)])
        # a job that was handed to the dying worker is lost with it, and says so
        assert result.ending in (Ending.ANSWERED, Ending.OUR_FAULT)
    assert own_pool.run([adding(1)])[0].ending is Ending.ANSWERED


def test_a_worker_that_hangs_is_ended_at_its_deadline(own_pool, monkeypatch):
    monkeypatch.setattr(worker_process, "_GRACE_SECONDS", 0.2)
    (worker,) = own_pool.worker_numbers
    os.kill(worker, signal.SIGSTOP)
    (result,) = own_pool.run([adding(1, cpu_seconds=0.1, wall_seconds=0.2)])
    assert result.ending is Ending.OUR_FAULT
    assert "it did not report in time" in result.text
    monkeypatch.undo()
    assert own_pool.run([adding(1)])[0].outcomes[0].value == 2


def test_a_program_that_someone_else_kills_died_and_the_worker_did_not(own_pool):
    (worker,) = own_pool.worker_numbers
    own_pool.submit("killed", looping())
    wait_until(lambda: hostile.children(worker))
    (child,) = hostile.children(worker)
    wait_until(lambda: processor_ticks(child) > 10)  # it is in its loop
    os.kill(child, signal.SIGKILL)
    ((_, result),) = collect(own_pool, 1)
    assert result.ending is Ending.DIED and "signal 9" in result.text
    assert own_pool.worker_numbers == [worker]


def test_a_program_that_waits_is_ended_by_the_wall_limit(own_pool):
    job = Check(
        program="import os\ndef f(): os.read(4, 1)",
        entry="f",
        checker="def check(candidate): candidate()",
        limits=Limits(cpu_seconds=0.1, wall_seconds=0.3),
    )
    (result,) = own_pool.run([job])
    assert result.ending is Ending.TOO_SLOW and "0.3 s of wall time" in result.text
    assert not hostile.children(own_pool.worker_numbers[0])


def test_while_no_worker_can_be_started_jobs_are_our_fault(own_pool, monkeypatch):
    (worker,) = own_pool.worker_numbers
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    own_pool.submit("lost", looping())
    own_pool.submit("waiting", adding(1))
    wait_until(lambda: hostile.children(worker))
    os.kill(worker, signal.SIGKILL)
    found = dict(collect(own_pool, 2))
    assert {result.ending for result in found.values()} == {Ending.OUR_FAULT}
    assert "no worker could be started" in found["waiting"].text
    monkeypatch.undo()
    wait_until(lambda: own_pool.worker_numbers)
    assert own_pool.run([adding(1)])[0].outcomes[0].value == 2


def test_a_pool_without_a_python_to_start_says_so(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(SandboxUnavailable, match=r"no worker can be started.*nowhere"):
        Pool(1)


def test_a_fault_of_the_dispatcher_is_told_and_leaves_nobody_waiting(
    own_pool, monkeypatch
):
    def broken(*_):
        raise KeyError("a bug")

    monkeypatch.setattr(worker_process.WorkerProcess, "assign", broken)
    (result,) = own_pool.run([adding(1)])
    assert result.ending is Ending.OUR_FAULT and "a bug" in result.text
    (result,) = own_pool.run([adding(1)])
    assert result.ending is Ending.OUR_FAULT and "a bug" in result.text
    assert own_pool.worker_numbers == []


def test_answers_that_cannot_be_read_are_one_jobs_fault_only(own_pool, monkeypatch):
    def broken(*_, **__):
        raise KeyError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(worker_process.transcripts, "read", broken)
        (result,) = own_pool.run([adding(1)])
    assert result.ending is Ending.OUR_FAULT and "a bug" in result.text
    assert own_pool.run([adding(1)])[0].outcomes[0].value == 2


@pytest.mark.parametrize("way", ["SIGKILL", "exit", "os._exit"])
def test_workers_and_programs_end_with_their_host(way):
    script = sandbox_hosts.start(
        f"""
import signal, time
from agentic_grpo.sandbox import hostile
pool = Pool(2)
limits = jobs.Limits(cpu_seconds=600.0)
program = "def f():\\n    while True: pass"
for ticket in range(2):
    pool.submit(ticket, jobs.Calls(
        program=program, entry="f", arguments=[()], limits=limits))
numbers = pool.worker_numbers
while len(programs := [c for n in numbers for c in hostile.children(n)]) < 2:
    time.sleep(0.01)
print(*numbers, *programs, flush=True)
if {way!r} == "SIGKILL": os.kill(os.getpid(), signal.SIGKILL)
if {way!r} == "os._exit": os._exit(0)
"""
    )
    with script:
        numbers = [int(word) for word in script.stdout.read().split()]
    assert len(numbers) == 4
    wait_until(lambda: all(map(ended, numbers)))


def test_the_host_never_forks():
    # Threads of JAX hold locks that a fork would copy for ever.
    told = sandbox_hosts.run(
        """
import signal, threading
forks = []
os.register_at_fork(before=lambda: forks.append(1))
threading.Thread(target=threading.Event().wait, daemon=True).start()
job = jobs.Calls(program="def f(): return 1", entry="f", arguments=[()])
with Pool(1) as pool:
    pool.run([job])
    os.kill(pool.worker_numbers[0], signal.SIGKILL)
    while pool.run([job])[0].ending is not jobs.Ending.ANSWERED: pass
print(len(forks))
"""
    )
    assert told == "0\n"


def test_time_outs_leave_no_process_and_no_descriptor(own_pool):
    own_pool.run([looping(cpu_seconds=0.02)] * 3)
    processes, files = descendants(), len(os.listdir("/proc/self/fd"))
    results = own_pool.run([looping(cpu_seconds=0.02)] * 20)
    assert {result.ending for result in results} == {Ending.TOO_SLOW}
    assert descendants() == processes
    assert len(os.listdir("/proc/self/fd")) == files


@pytest.mark.slow
def test_200_time_outs_leave_the_processes_as_they_were():
    with Pool(2) as pool:
        pool.run([looping(cpu_seconds=0.05)] * 4)
        processes, files = descendants(), len(os.listdir("/proc/self/fd"))
        results = pool.run([looping(cpu_seconds=0.1)] * 200)
        assert {result.ending for result in results} == {Ending.TOO_SLOW}
        assert descendants() == processes
        assert len(os.listdir("/proc/self/fd")) == files
