"""The processes of one job: joining them, and what they must do or decide together.

Everything here is for any number of processes; a job of one asks nobody.
"""

import os

import jax
import numpy as np
from jax.experimental import multihost_utils


def join(*, heartbeat_timeout_seconds=20):
    """Makes this process one of a job's, before anything else is asked of JAX.

    JAX finds the others itself under Slurm, Open MPI, Kubernetes and on TPU pods;
    elsewhere JAX_COORDINATOR_ADDRESS (host:port of process 0), JAX_NUM_PROCESSES and
    JAX_PROCESS_ID say who they are.

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
    try:
        jax.distributed.initialize(
            **numbers,
            heartbeat_timeout_seconds=heartbeat_timeout_seconds,
            shutdown_timeout_seconds=heartbeat_timeout_seconds,
        )
    except ValueError as error:
        raise ValueError(
            f"distributed=True must be said where JAX finds a cluster ({error}); "
            "without one, set JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and "
            "JAX_PROCESS_ID, or leave the flag out"
        ) from error


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
