"""What the reference programs use up on the machine, measured once."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.envs.code_execution.problems import (
    splits,
)
from agentic_grpo.envs.code_execution.problems import (
    table as problem_table,
)
from agentic_grpo.envs.code_execution.vm import interpreter

#: Jobs of one interpreter call; the last call is filled up, so that it compiles once.
_BATCH = 2**15


_run = jax.jit(interpreter.run)


def run_in_batches(programs, inputs, fuel: int) -> interpreter.MachineResult:
    """Runs many jobs with equal fuel; programs [J, L], inputs [J, 2], NumPy arrays."""
    size = min(_BATCH, 2 ** max(len(inputs) - 1, 1).bit_length())
    results = []
    for begin in range(0, len(inputs), size):
        part = slice(begin, begin + size)
        missing = size - len(inputs[part])
        result = _run(
            jnp.asarray(np.pad(programs[part], [(0, missing), (0, 0)])),
            jnp.asarray(np.pad(inputs[part], [(0, missing), (0, 0)])),
            jnp.full(size, fuel, jnp.int32),
        )
        results.append(
            jax.tree.map(lambda x, m=missing: np.asarray(x)[: size - m], result)
        )
    return jax.tree.map(lambda *parts: np.concatenate(parts), *results)


@functools.cache
def brute_fuel(families: tuple[str, ...], limit: int) -> np.ndarray:
    """int32 [D], laid out as ``ProblemTable.truth``: the brute force's fuel, capped."""
    table = problem_table.build(families)
    inputs = [splits.domain(reads_m=bool(reads)) for reads in table.reads_m]
    rows = np.repeat(np.arange(table.num_problems), [len(each) for each in inputs])
    result = run_in_batches(table.brute_force[rows], np.concatenate(inputs), limit)
    return np.asarray(result.fuel_used, np.int32)
