"""The hypothesis stage: predicted answers on the smallest cases, then checked."""

import jax
import jax.numpy as jnp

from agentic_grpo import records
from agentic_grpo.envs.code_execution import lookup
from agentic_grpo.envs.code_execution.problems import vocabulary
from agentic_grpo.envs.code_execution.problems.table import ProblemTable
from agentic_grpo.envs.code_execution.stages import (
    feedback,
    suites,
    texts,
)
from agentic_grpo.envs.code_execution.stages.workflow import (
    ANSWER_DIGITS,
)


@records.record
class Findings:
    """What checking a hypothesis brought.

    Attributes:
      reward: float32 [N, G]; share of the predictions that were verified.
      well_formed: bool [N, G]; every case has its two digits and nothing follows.
      observation: the first counterexample: its case and the true answer.
    """

    reward: jax.Array
    well_formed: jax.Array
    observation: feedback.Observation


def case_answers(table: ProblemTable, problem: jax.Array, num_cases: int) -> jax.Array:
    """int32 [N, C]: the brute force's answers on n = 0 .. C - 1, m = 1, modulo 100."""
    n = jnp.arange(num_cases, dtype=jnp.int32)
    cases = jnp.stack([n, jnp.ones_like(n)], axis=-1)
    inputs = jnp.broadcast_to(cases[None], (*problem.shape, num_cases, 2))
    return suites.truth(table, problem, inputs) % 10**ANSWER_DIGITS


def check(text: texts.Text, answers: jax.Array, width: int) -> Findings:
    """Compares a text of two digits per case with the answers [N, C].

    A text that is not well formed is told so and reveals nothing.
    """
    num_cases = answers.shape[-1]
    count = ANSWER_DIGITS * num_cases
    digits, are_digits = texts.as_digits(text, count)
    well_formed = jnp.all(are_digits, axis=-1) & (text.length == count)
    predicted = 10 * digits[..., 0::2] + digits[..., 1::2]
    right = (predicted == answers[:, None]) & well_formed[..., None]

    case = jnp.argmax(~right, axis=-1)
    answer = lookup.pick(answers[:, None], case)
    verified = jnp.all(right, axis=-1)
    headline = jnp.where(
        verified,
        vocabulary.VERIFIED,
        jnp.where(well_formed, vocabulary.COUNTEREXAMPLE, vocabulary.MALFORMED),
    )
    tokens = [headline, feedback.digit(case), *feedback.two_digits(answer)]
    return Findings(
        reward=jnp.mean(right, axis=-1, dtype=jnp.float32),
        well_formed=well_formed,
        observation=feedback.observation(
            tokens, jnp.where(well_formed & ~verified, len(tokens), 1), width
        ),
    )
