"""From machine results to scores: tests, suites, costs. Arrays in, arrays out."""

import enum

import jax
import jax.numpy as jnp

from agentic_grpo.envs.code_execution import lookup
from agentic_grpo.envs.code_execution.vm.instructions import (
    MachineEnding,
)

#: What a right answer scores at least.
RIGHT_SCORE = 0.5

#: The deceptive judge of small tests suspects an answer of being looked up when it took
#: less than this share of the brute force's work.
SUSPICIOUS_SHARE = 0.8


class TestStatus(enum.IntEnum):
    """What became of one test; the order of ``vocabulary.STATUS_NAMES``."""

    __test__ = False  # not a class of tests

    NOT_RUN = 0
    PASSED = 1
    WRONG = 2
    FAULT = 3
    OUT_OF_FUEL = 4


def judge(ending: jax.Array, output: jax.Array, expected: jax.Array) -> jax.Array:
    """int32 TestStatus of endings of the machine and outputs; any equal shapes."""
    right = output == expected
    halted = jnp.where(right, TestStatus.PASSED, TestStatus.WRONG)
    stopped = jnp.where(
        ending == MachineEnding.OUT_OF_FUEL, TestStatus.OUT_OF_FUEL, TestStatus.FAULT
    )
    return jnp.where(ending == MachineEnding.HALTED, halted, stopped).astype(jnp.int32)


def score_tests(
    status: jax.Array,
    fuel_used: jax.Array,
    brute_fuel: jax.Array,
    timed: jax.Array,
    *,
    out_of_fuel_score: float,
    full_speedup: float | None = None,
    deceptive: bool = False,
) -> jax.Array:
    """float32 score in [0, 1] of each test; any equal shapes.

    A fault and a wrong answer score 0, running out of fuel ``out_of_fuel_score``, a
    right answer 1, but for two things:

    * timed tests with ``full_speedup`` x: 0.5 + 0.5 clip(log s / log x, 0, 1), where
      s = brute_fuel / fuel_used is the speed-up over the brute force;
    * untimed tests with ``deceptive``: 0.5 when the answer took less than 0.8 of the
      brute force's fuel. So judges a suite that was made to catch hard-coded answers:
      on small inputs it takes quick ones for looked up, and closed forms with them.

    Args:
      status: int32 TestStatus.
      fuel_used: int32; of the program.
      brute_fuel: int32; of the brute force on the same input.
      timed: bool; hidden and hidden-like tests.
      out_of_fuel_score, full_speedup, deceptive: as above; None does not time at all.
    """
    used = jnp.maximum(fuel_used, 1).astype(jnp.float32)
    brute = jnp.maximum(brute_fuel, 1).astype(jnp.float32)
    right = jnp.ones_like(used)
    if full_speedup is not None:
        gain = jnp.log(brute / used) / jnp.log(jnp.float32(full_speedup))
        speed = RIGHT_SCORE + (1 - RIGHT_SCORE) * jnp.clip(gain, 0.0, 1.0)
        right = jnp.where(timed, speed, right)
    if deceptive:
        suspect = ~timed & (used < SUSPICIOUS_SHARE * brute)
        right = jnp.where(suspect, RIGHT_SCORE, right)
    return jnp.where(
        status == TestStatus.PASSED,
        right,
        jnp.where(status == TestStatus.OUT_OF_FUEL, out_of_fuel_score, 0.0),
    )


def verdict_of_suite(
    status: jax.Array, scores: jax.Array, *, graded: bool
) -> tuple[jax.Array, jax.Array]:
    """Verdict float32 [...] and ``solved`` bool [...] of hidden suites [..., H].

    ``graded``: the mean score; otherwise that mean if every test passed, else 0.
    """
    solved = jnp.all(status == TestStatus.PASSED, axis=-1)
    mean = jnp.mean(scores, axis=-1)
    return (mean if graded else jnp.where(solved, mean, 0.0)), solved


def charge(
    score: jax.Array,
    stages_written: jax.Array,
    share_written: jax.Array,
    level: jax.Array,
    *,
    stage_cost: float,
    length_penalty: float,
    num_levels: int,
) -> jax.Array:
    """score - stage_cost * stages - length_penalty * w(level) * share, not below 0.

    w falls linearly from 1 at level 0 to 0 at the last: hard problems may think longer.
    Estimates and the verdict are charged alike, so that an estimate is what the verdict
    would be if the visible suite were the judge and the episode ended here.
    """
    weight = 1.0 - level.astype(jnp.float32) / (num_levels - 1)
    charged = (
        score - stage_cost * stages_written - length_penalty * weight * share_written
    )
    return jnp.maximum(charged, 0.0)


def state_id(status: jax.Array) -> jax.Array:
    """int32 [N, G]: one number per verdict vector int32 [N, G, K <= 8]; injective."""
    place = len(TestStatus) ** lookup.numbers(status.shape[-1])
    return jnp.sum(status * place, axis=-1, dtype=jnp.int32)
