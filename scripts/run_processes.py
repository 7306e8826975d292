"""Trains one job as several processes on this machine.

  python scripts/run_processes.py --processes=2 --config=experiments/configs/smoke.py \
      --workdir=runs/x --config.rollout.num_blocks=2 --config.devices.data=0

Everything but --processes goes to ``experiments.train``. SIGTERM and Ctrl-C ask every
process to save and stop; after a minute, or the second time, what is left is killed,
with its children. When one of them dies, the others notice by themselves within the
heartbeat timeout; what is still there after that is killed too. The last line says who
died how.
"""

import argparse
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from agentic_grpo.training.stopping import sigterm_interrupts
from experiments.runs import process_groups

ROOT = pathlib.Path(__file__).resolve().parents[1]

#: Seconds that the others get once one has died: to miss its heartbeat, and to go.
GRACE = 60


def start(processes: int, arguments: list[str]) -> list[subprocess.Popen]:
    """The processes of a job, process 0 first; their output comes in one stream."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    job = []
    for index in range(processes):
        environment = os.environ | {
            "JAX_COORDINATOR_ADDRESS": address,
            "JAX_NUM_PROCESSES": str(processes),
            "JAX_PROCESS_ID": str(index),
        }
        environment.pop("JAX_COORDINATOR_BIND_ADDRESS", None)  # nobody else's business
        command = [sys.executable, "-m", "experiments.train", "--distributed"]
        process = subprocess.Popen(
            [*command, *arguments],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C comes here alone, and children go along
        )
        threading.Thread(target=_echo, args=(process, index), daemon=True).start()
        job.append(process)
    return job


def _echo(process, index):
    for line in process.stdout:
        print(f"[{index}] {line}", end="", flush=True)


def wait(job: list[subprocess.Popen], *, grace=GRACE) -> dict[int, int]:
    """{process: exit code}, in the order in which they ended.

    Those that outlive one that failed by ``grace`` seconds are killed. When this is
    interrupted, all are asked to end and killed ``grace`` seconds later; in any case
    nothing that they have started is left behind.
    """
    ended: dict[int, int] = {}
    deadline = float("inf")
    try:
        while len(ended) < len(job) and time.monotonic() < deadline:
            _note_ended(job, ended)
            if any(ended.values()):
                deadline = min(deadline, time.monotonic() + grace)
            time.sleep(0.1)
    except KeyboardInterrupt:
        with contextlib.suppress(KeyboardInterrupt):  # the second kills them at once
            process_groups.end_process_groups(job, seconds=grace)
    finally:
        for process in job:
            process_groups.kill_process_group(process)
    _note_ended(job, ended)
    return ended


def _note_ended(job, ended):
    for index, process in enumerate(job):
        if index not in ended and process.poll() is not None:
            ended[index] = process.returncode


def describe(code: int) -> str:
    """ "ended with code 1", "was killed by SIGKILL"."""
    if code >= 0:
        return f"ended with code {code}"
    return f"was killed by {signal.Signals(-code).name}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, required=True)
    options, arguments = parser.parse_known_args()
    with sigterm_interrupts():
        ended = wait(start(options.processes, arguments))
    if any(ended.values()):
        ends = [f"process {index} {describe(code)}" for index, code in ended.items()]
        sys.exit(
            f"error: {', then '.join(ends)}. The same command goes on from the last "
            "checkpoint, with this or another number of processes."
        )


if __name__ == "__main__":
    main()
