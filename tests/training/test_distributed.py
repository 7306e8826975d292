"""Two processes are one job: the numbers of one, and an end in bounded time."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import recorded_run

from agentic_grpo.training import devices, metrics, processes

TESTS = pathlib.Path(__file__).resolve().parents[1]
ROOT = TESTS.parent


@pytest.mark.slow
def test_two_processes_of_four_devices_give_the_numbers_of_one_device(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    job = [
        subprocess.Popen(
            [sys.executable, TESTS / "recorded_run.py", tmp_path / "state.npz"],
            env=os.environ
            | {
                "JAX_COORDINATOR_ADDRESS": address,
                "JAX_NUM_PROCESSES": "2",
                "JAX_PROCESS_ID": str(index),
                "JAX_NUM_CPU_DEVICES": "4",
                "PYTHONPATH": str(ROOT),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for index in range(2)
    ]
    one = devices.make_layout(num_blocks=recorded_run.BLOCKS)
    states, _, _ = recorded_run.run(one, recorded_run.program())
    said = [process.communicate(timeout=600)[0] for process in job]
    assert [process.returncode for process in job] == [0, 0], said
    with np.load(tmp_path / "state.npz", allow_pickle=False) as file:
        got = dict(file)
    assert got.keys() == states[-1].keys()
    for name, wanted in states[-1].items():
        if name.startswith("learner/params"):
            error = np.linalg.norm(got[name] - wanted)
            assert error <= 1e-4 * np.linalg.norm(wanted), name
        elif np.issubdtype(wanted.dtype, np.integer) or wanted.dtype == bool:
            np.testing.assert_array_equal(got[name], wanted, err_msg=name)


def train(folder, *, num_processes, devices_each, **config):
    flags = {"rollout.num_blocks": 4, "rollout.decode_slots": 4, "devices.data": 0}
    flags |= {"learner.entropy_weight": 0.01, "checkpoint.every": 2, **config}
    return subprocess.Popen(
        [
            sys.executable,
            ROOT / "scripts" / "run_processes.py",
            f"--processes={num_processes}",
            "--config=experiments/configs/smoke.py",
            f"--workdir={folder}",
            *(f"--config.{name}={value}" for name, value in flags.items()),
        ],
        cwd=ROOT,
        env=os.environ | {"JAX_NUM_CPU_DEVICES": str(devices_each)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def children(process):
    """The processes that a process has started, oldest first (Linux)."""
    path = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in path.read_text().split()]


def wait_for_tick(folder, tick, process):
    while not (folder / metrics.FILE_NAME).exists() or (
        metrics.read(folder)[-1]["tick"] < tick
    ):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for children in /proc")
def test_a_killed_process_ends_the_job_and_another_number_goes_on(tmp_path):
    folder = tmp_path / "run"
    job = train(folder, num_processes=2, devices_each=2, **{"num_ticks": 10_000})
    wait_for_tick(folder, 6, job)
    os.kill(children(job)[1], signal.SIGKILL)
    killed = time.monotonic()
    said = job.communicate(timeout=120)[0]
    # the heartbeat is missed after 20 s; what is left after 60 s more is killed
    assert time.monotonic() - killed < 100
    assert job.returncode == 1
    last = said.strip().split("\n")[-1]
    assert last.startswith("error: process 1 was killed by SIGKILL, then process 0 ")
    assert "goes on from the last checkpoint" in last

    done = metrics.read(folder)[-1]["tick"]
    num_ticks = {"num_ticks": done + 4}
    job = train(folder, num_processes=1, devices_each=4, **num_ticks)
    said = job.communicate(timeout=600)[0]
    assert job.returncode == 0, said
    assert "[0] goes on from tick" in said
    ticks = [line["tick"] for line in metrics.read(folder)]
    assert ticks == list(range(0, done + 5, 2))


@pytest.mark.slow
def test_sigterm_to_one_stops_all_at_the_same_tick(tmp_path):
    folder = tmp_path / "run"
    job = train(folder, num_processes=2, devices_each=1, **{"num_ticks": 10_000})
    wait_for_tick(folder, 4, job)
    os.kill(children(job)[1], signal.SIGTERM)
    said = job.communicate(timeout=600)[0]
    assert job.returncode == 0, said
    assert "the same command goes on from there" in said


@pytest.mark.slow
def test_two_processes_with_different_configs_both_end(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    code = (
        "import sys\n"
        "from agentic_grpo.training import processes\n"
        "processes.join()\n"
        "processes.require_same({'x': 'long ' * 9 * (1 + int(sys.argv[1]))})\n"
    )
    job = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(index)],
            cwd=ROOT,
            env=os.environ
            | {
                "JAX_COORDINATOR_ADDRESS": address,
                "JAX_NUM_PROCESSES": "2",
                "JAX_PROCESS_ID": str(index),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for index in range(2)
    ]
    said = [process.communicate(timeout=600)[0] for process in job]
    assert "another process was not; it says how" in said[0]
    assert "x is 'long long" in said[1]
    assert [process.returncode for process in job] == [1, 1]


def test_a_job_of_one_process_asks_nobody():
    assert processes.is_first_process()
    assert processes.any_process(True) and not processes.any_process(False)
    processes.wait_for_all("anything")


def test_joining_nothing_is_refused_with_what_to_set(monkeypatch):
    def initialize(**options):
        raise ValueError("coordinator_address should be defined.")

    monkeypatch.setattr(processes.jax.distributed, "initialize", initialize)
    with pytest.raises(ValueError, match=r"JAX_COORDINATOR_ADDRESS, JAX_NUM_PROC"):
        processes.join()


def test_plain_variables_say_who_is_who(monkeypatch):
    asked = {}
    monkeypatch.setattr(
        processes.jax.distributed, "initialize", lambda **options: asked.update(options)
    )
    monkeypatch.setenv("JAX_NUM_PROCESSES", "3")
    monkeypatch.setenv("JAX_PROCESS_ID", "2")
    processes.join()
    assert asked["num_processes"] == 3 and asked["process_id"] == 2
    assert asked["heartbeat_timeout_seconds"] == 20


@pytest.mark.parametrize(
    ("variables", "bound"),
    [
        ({}, None),  # a cluster's: JAX knows the address, we do not
        ({"JAX_COORDINATOR_ADDRESS": "10.0.0.1:7777"}, "10.0.0.1:7777"),
        (
            {
                "JAX_COORDINATOR_ADDRESS": "10.0.0.1:7777",
                "JAX_COORDINATOR_BIND_ADDRESS": "127.0.0.1:7777",
            },
            "127.0.0.1:7777",
        ),
    ],
)
def test_the_coordinator_listens_where_it_is_named(monkeypatch, variables, bound):
    asked = {}
    monkeypatch.setattr(
        processes.jax.distributed, "initialize", lambda **options: asked.update(options)
    )
    for name in ("JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_BIND_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    processes.join()
    assert asked["coordinator_bind_address"] == bound


class Job:
    """What two processes say to each other, as seen by one of them."""

    def __init__(self, monkeypatch, *, index, first, differs_elsewhere=False):
        content = json.dumps(first).encode()
        answers = iter([np.int32(len(content)), np.frombuffer(content, np.uint8)])
        monkeypatch.setattr(processes.jax, "process_count", lambda: 2)
        monkeypatch.setattr(processes.jax, "process_index", lambda: index)
        monkeypatch.setattr(
            processes.multihost_utils,
            "broadcast_one_to_all",
            lambda mine: self.asked.append(mine) or next(answers),
        )
        monkeypatch.setattr(
            processes.multihost_utils,
            "process_allgather",
            lambda mine: np.array([mine, differs_elsewhere]),
        )
        self.asked, self.first_size = [], len(content)


def test_processes_that_are_started_alike_go_on(monkeypatch):
    job = Job(monkeypatch, index=1, first={"a": [1], "b": 2.5})
    processes.require_same({"b": 2.5, "a": (1,)})
    assert len(job.asked[1]) == job.asked[0]


def test_a_process_with_another_config_names_what_differs(monkeypatch):
    job = Job(monkeypatch, index=1, first={"learning_rate": 0.1, "seed": 0, "new": 1})
    with pytest.raises(
        ValueError,
        match=r"alike: learning_rate is 0\.2 in process 1 and 0\.1 in process 0; "
        r"new is 'missing' in process 1 and 1 in process 0$",
    ):
        processes.require_same({"learning_rate": 0.2, "seed": 0})
    assert len(job.asked[1]) == int(job.first_size)


def test_the_others_end_too(monkeypatch):
    Job(monkeypatch, index=0, first={"seed": 0}, differs_elsewhere=True)
    with pytest.raises(ValueError, match="another process was not; it says how"):
        processes.require_same({"seed": 0})
