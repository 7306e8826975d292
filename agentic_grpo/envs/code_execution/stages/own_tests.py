"""The tests stage: inputs that the agent writes to break programs."""

import jax
import jax.numpy as jnp

from agentic_grpo import records
from agentic_grpo.envs.code_execution.judging import TestStatus
from agentic_grpo.envs.code_execution.problems import vocabulary
from agentic_grpo.envs.code_execution.problems.family import NUM_M
from agentic_grpo.envs.code_execution.stages import feedback, jobs, texts
from agentic_grpo.envs.code_execution.stages.workflow import INPUT_DIGITS


@records.record
class Attack:
    """What own tests did to the mutants.

    Attributes:
      reward: float32 [N, G]; share of mutants killed by valid inputs.
      observation: how many were killed, and how the own program fared.
    """

    reward: jax.Array
    observation: feedback.Observation


def read(
    text: texts.Text, largest_n: jax.Array, num_tests: int
) -> tuple[jax.Array, jax.Array]:
    """Inputs int32 [N, G, k, 2] and their validity [N, G, k].

    A test is two digits of n and one of m; it is valid if they are digits and the judge
    might ask them: n <= largest_n [N], m < NUM_M. Invalid ones are told as (0, 0).
    """
    digits, are_digits = texts.as_digits(text, INPUT_DIGITS * num_tests)
    shape = (*digits.shape[:2], num_tests, INPUT_DIGITS)
    digits, are_digits = digits.reshape(shape), are_digits.reshape(shape)
    n, m = 10 * digits[..., 0] + digits[..., 1], digits[..., 2]
    limit = largest_n[:, None, None]
    valid = jnp.all(are_digits, axis=-1) & (n <= limit) & (m < NUM_M)
    inputs = jnp.where(valid[..., None], jnp.stack([n, m], axis=-1), 0)
    return inputs, valid


def mutant_jobs(mutants, inputs, valid, wanted, *, strict_fuel: int) -> jobs.Jobs:
    """Every mutant [N, M, L] on every own test [N, G, k, 2]; k * M jobs."""
    num_mutants, length = mutants.shape[1:]
    shape = (*valid.shape, num_mutants)
    fuel = jnp.where(valid & wanted[..., None], strict_fuel, 0)[..., None]

    def flat(leaf, *tail):
        wide = jnp.broadcast_to(leaf, (*shape, *tail))
        return wide.reshape(*shape[:2], -1, *tail)

    return jobs.Jobs(
        program=flat(mutants[:, None, None], length),
        inputs=flat(inputs[..., None, :], 2),
        fuel=flat(fuel).astype(jnp.int32),
    )


def attack(status, valid, exists, own_status, width: int) -> Attack:
    """Which mutants died.

    Args:
      status: int32 [N, G, k, M] TestStatus of the mutants.
      valid: bool [N, G, k].
      exists: bool [N, M]; false for places without a mutant.
      own_status: int32 [N, G, k] TestStatus of the member's own program.
      width: columns of the observation.
    """
    fails = valid[..., None] & (status != TestStatus.PASSED)
    killed = jnp.any(fails, axis=2) & exists[:, None]
    num_killed = jnp.sum(killed, axis=-1, dtype=jnp.int32)
    num_mutants = jnp.sum(exists, axis=-1, dtype=jnp.int32)[:, None]
    any_valid = jnp.any(valid, axis=-1)
    own, _ = feedback.first_failure(own_status, valid)
    tokens = [
        jnp.where(any_valid, feedback.digit(num_killed), vocabulary.MALFORMED),
        feedback.status_token(own),
    ]
    return Attack(
        reward=num_killed / jnp.maximum(num_mutants, 1).astype(jnp.float32),
        observation=feedback.observation(tokens, jnp.where(any_valid, 2, 1), width),
    )
