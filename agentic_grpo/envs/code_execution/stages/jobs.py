"""Machine work as jobs: stages state their own, one interpreter call runs them all."""

import jax
import jax.numpy as jnp

from agentic_grpo import records
from agentic_grpo.envs.code_execution.vm import interpreter


@records.record
class Jobs:
    """J jobs of each member.

    Attributes:
      program: int32 [N, G, J, L].
      inputs: int32 [N, G, J, 2].
      fuel: int32 [N, G, J]; 0 where there is nothing to run.
    """

    program: jax.Array
    inputs: jax.Array
    fuel: jax.Array

    @property
    def count(self) -> int:
        return self.fuel.shape[-1]


def of_suite(program, inputs, fuel, wanted) -> Jobs:
    """One program of each member on a suite.

    Args:
      program: int32 [N, G, L].
      inputs: int32 [N, 1 or G, J, 2].
      fuel: int32 [N, 1 or G, J].
      wanted: bool [N, G].
    """
    shape = (*program.shape[:2], inputs.shape[2])
    return Jobs(
        program=jnp.broadcast_to(program[:, :, None], (*shape, program.shape[-1])),
        inputs=jnp.broadcast_to(inputs, (*shape, 2)),
        fuel=jnp.broadcast_to(jnp.where(wanted[:, :, None], fuel, 0), shape),
    )


def widen(jobs: Jobs, count: int) -> Jobs:
    """Fills up with jobs that have no fuel."""

    def fill(leaf):
        missing = [(0, 0)] * leaf.ndim
        missing[2] = (0, count - jobs.count)
        return jnp.pad(leaf, missing)

    return jax.tree.map(fill, jobs)


def choose(first: jax.Array, jobs: Jobs, others: Jobs) -> Jobs:
    """``jobs`` for the members [N, G] for whom ``first`` holds, else ``others``."""

    def select(one, other):
        return jnp.where(first.reshape(first.shape + (1,) * (one.ndim - 2)), one, other)

    return jax.tree.map(select, jobs, others)


def run(*parts: Jobs) -> list[interpreter.MachineResult]:
    """Runs all parts in one interpreter call; one result [N, G, J] for each."""
    together = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=2), *parts)
    shape = together.fuel.shape
    result = interpreter.run(
        together.program.reshape(-1, together.program.shape[-1]),
        together.inputs.reshape(-1, 2),
        together.fuel.reshape(-1),
    )
    ends = [sum(part.count for part in parts[: k + 1]) for k in range(len(parts) - 1)]
    pieces = jax.tree.map(
        lambda leaf: jnp.split(leaf.reshape(shape), ends, axis=2), result
    )
    return [
        interpreter.MachineResult(
            ending=pieces.ending[k],
            output=pieces.output[k],
            fuel_used=pieces.fuel_used[k],
        )
        for k in range(len(parts))
    ]
