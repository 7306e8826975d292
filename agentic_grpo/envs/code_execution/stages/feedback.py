"""Observations: a few tokens per stage, never an expected output of a test."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from agentic_grpo import records
from agentic_grpo.envs.code_execution import lookup
from agentic_grpo.envs.code_execution.judging import TestStatus
from agentic_grpo.envs.code_execution.problems import vocabulary


@records.record
class Observation:
    """Feedback of one stage: tokens int32 [N, G, O] and their number int32 [N, G]."""

    tokens: jax.Array
    length: jax.Array


def observation(tokens: Sequence[jax.Array], length, width: int) -> Observation:
    """Puts columns [N, G] side by side and pads them to ``width``."""
    told = jnp.stack(jnp.broadcast_arrays(*tokens), axis=-1)[..., :width]
    padding = [(0, 0), (0, 0), (0, width - told.shape[-1])]
    length = jnp.minimum(jnp.broadcast_to(length, told.shape[:2]), width)
    return Observation(
        tokens=jnp.pad(told, padding, constant_values=vocabulary.PAD),
        length=length.astype(jnp.int32),
    )


def digit(value: jax.Array) -> jax.Array:
    """The token of a digit; larger values are told as 9."""
    return vocabulary.FIRST_DIGIT + jnp.clip(value, 0, 9)


def two_digits(value: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The tokens of tens and ones, modulo 100."""
    return digit(value % 100 // 10), digit(value % 10)


def status_token(status: jax.Array) -> jax.Array:
    return vocabulary.FIRST_STATUS + status


def first_failure(status: jax.Array, counts=True) -> tuple[jax.Array, jax.Array]:
    """Status [N, G] of the first failing test of [N, G, J], and its index.

    PASSED (index 0) if none failed; NOT_RUN if no test counts. ``counts`` bool
    [N, G, J] says which tests do.
    """
    counts = jnp.broadcast_to(counts, status.shape) & (status != TestStatus.NOT_RUN)
    failed = counts & (status != TestStatus.PASSED)
    index = jnp.argmax(failed, axis=-1)
    summary = jnp.where(
        jnp.any(failed, axis=-1),
        lookup.pick(status, index),
        jnp.where(jnp.any(counts, axis=-1), TestStatus.PASSED, TestStatus.NOT_RUN),
    )
    return summary.astype(jnp.int32), index


def of_plan(status: jax.Array, width: int) -> Observation:
    """Status and number passed of a plan's reference on the visible tests."""
    return observation(_headline(status), 2, width)


def of_suite(status: jax.Array, inputs: jax.Array, width: int, own=None) -> Observation:
    """Status, number passed, own tests' status; then the first failing input.

    Args:
      status: int32 [N, G, K] TestStatus.
      inputs: int32 [N, K, 2].
      width: columns.
      own: int32 [N, G] TestStatus of the member's own tests; or None.
    """
    headline = _headline(status)
    if own is not None:
        headline.append(status_token(own))
    summary, index = first_failure(status)
    n, m = (lookup.pick(inputs[:, None, :, place], index) for place in range(2))
    tokens = [*headline, *two_digits(n), digit(m)]
    passed = summary == TestStatus.PASSED
    return observation(tokens, jnp.where(passed, len(headline), len(tokens)), width)


def _headline(status) -> list[jax.Array]:
    summary, _ = first_failure(status)
    num_passed = jnp.sum(status == TestStatus.PASSED, axis=-1, dtype=jnp.int32)
    return [status_token(summary), digit(num_passed)]
