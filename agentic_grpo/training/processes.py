"""The processes of one job: joining them, and what they must do or decide together.

Everything here is for any number of processes; a job of one asks nobody.
"""

import json
import os
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils


def join(*, heartbeat_timeout_seconds=20):
    """Makes this process one of a job's, before anything else is asked of JAX.

    JAX finds the others itself under Slurm, Open MPI, Kubernetes and on TPU pods;
    elsewhere JAX_COORDINATOR_ADDRESS (host:port of process 0), JAX_NUM_PROCESSES and
    JAX_PROCESS_ID say who they are. Process 0 then listens at that address alone (JAX
    itself would listen at all), unless JAX_COORDINATOR_BIND_ADDRESS names another.

    Args:
      heartbeat_timeout_seconds: after which the job ends because a process is gone.

    Raises:
      ValueError: neither says anything.
    """
    numbers = {
        name: int(os.environ[variable])
        for name, variable in (
            ("num_processes", "JAX_NUM_PROCESSES"),
            ("process_id", "JAX_PROCESS_ID"),
        )
        if variable in os.environ
    }
    named = os.environ.get("JAX_COORDINATOR_ADDRESS")
    try:
        jax.distributed.initialize(
            **numbers,
            coordinator_bind_address=os.environ.get(
                "JAX_COORDINATOR_BIND_ADDRESS", named
            ),
            heartbeat_timeout_seconds=heartbeat_timeout_seconds,
            shutdown_timeout_seconds=heartbeat_timeout_seconds,
        )
    except ValueError as error:
        raise ValueError(
            f"distributed=True must be said where JAX finds a cluster ({error}); "
            "without one, set JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and "
            "JAX_PROCESS_ID, or leave the flag out"
        ) from error


def require_same(values: dict[str, Any]) -> None:
    """Goes on where every process of the job has the same values; all must ask.

    Args:
      values: by name; JSON values.

    Raises:
      ValueError: in every process; one whose values are not those of process 0 names
        them.
    """
    if jax.process_count() == 1:
        return
    theirs = json.loads(_of_first_process(json.dumps(values).encode()))
    ours = json.loads(json.dumps(values))  # as it is read: tuples to lists
    different = [
        f"{name} is {ours.get(name, 'missing')!r} in process {jax.process_index()} "
        f"and {theirs.get(name, 'missing')!r} in process 0"
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]
    if any_process(bool(different)):
        raise ValueError(
            "the processes of a job must be started alike: "
            + ("; ".join(different) or "another process was not; it says how")
        )


def _of_first_process(content: bytes) -> bytes:
    """What process 0 was given."""
    size = int(multihost_utils.broadcast_one_to_all(np.int32(len(content))))
    padded = content[:size].ljust(size, b"\0")
    array = np.frombuffer(padded, np.uint8)
    return np.asarray(multihost_utils.broadcast_one_to_all(array)).tobytes()


def is_first_process() -> bool:
    """Whether this process is the one that writes what all would write alike."""
    return jax.process_index() == 0


def wait_for_all(name: str) -> None:
    """Returns when every process of the job has come here."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)


def any_process(flag: bool) -> bool:
    """Whether the flag is raised in any process; all must ask."""
    if jax.process_count() == 1:
        return flag
    return bool(multihost_utils.process_allgather(np.asarray(flag)).any())
