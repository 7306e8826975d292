"""Drawing problems and tests: from uniform numbers to the suites of a group."""

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.envs.code_execution import lookup
from agentic_grpo.envs.code_execution.problems.family import NUM_M, NUM_N
from agentic_grpo.envs.code_execution.problems.table import ProblemTable
from agentic_grpo.envs.code_execution.stages.setting import Setting
from agentic_grpo.envs.code_execution.state import Suites


def below(uniform: jax.Array, count) -> jax.Array:
    """int32 in 0 .. count - 1 from uniform numbers in [0, 1)."""
    scaled = jnp.floor(uniform * count).astype(jnp.int32)
    return jnp.minimum(scaled, jnp.asarray(count, jnp.int32) - 1)


def between(uniform: jax.Array, bounds: jax.Array) -> jax.Array:
    """int32 [N, J] in bounds [N, 2], both ends included, one draw in each of J strata.

    Strata keep the inputs of a suite apart; uniform is float [N, J].
    """
    num_strata = uniform.shape[1]
    place = (jnp.arange(num_strata)[None] + uniform) / num_strata
    low, high = bounds[:, :1], bounds[:, 1:]
    return low + below(place, high - low + 1)


def draw_problem(uniform: jax.Array, rows: list[np.ndarray]) -> jax.Array:
    """int32 [N]: a family first, then one of its rows, uniformly; uniform is [N, 2]."""
    counts = np.array([len(members) for members in rows], np.int32)
    table = np.zeros((len(rows), counts.max()), np.int32)
    for index, members in enumerate(rows):
        table[index, : len(members)] = members
    family = below(uniform[:, 0], len(rows))
    member = below(uniform[:, 1], lookup.rows(counts, family))
    return lookup.rows(table.reshape(-1), family * table.shape[1] + member)


def truth(table: ProblemTable, problem: jax.Array, inputs: jax.Array) -> jax.Array:
    """f(n, m) int32 [N, J] of problems [N] at inputs [N, J, 2], kept in the domain."""
    return look_up(table, table.truth, problem, inputs)


def look_up(table, values, problem, inputs) -> jax.Array:
    """int32 [N, J]: values [D], laid out as ``table.truth``, at inputs [N, J, 2]."""
    start = lookup.rows(table.truth_start, problem)
    stride = lookup.rows(table.truth_stride, problem)
    n = jnp.clip(inputs[..., 0], 0, NUM_N - 1)
    m = jnp.clip(inputs[..., 1], 0, NUM_M - 1)
    place = start[:, None] + stride[:, :1] * n + stride[:, 1:] * m
    return lookup.rows(values, place)


def draw_suites(uniform: jax.Array, problem: jax.Array, setting: Setting) -> Suites:
    """The visible and the hidden suite of each group.

    A visible test is hidden-like with its family's fidelity. The first hidden test is
    small, so that a program which is right on large inputs alone does not solve the
    problem; its fuel is strict all the same.

    Args:
      uniform: float [N, 3, K + H].
      problem: int32 [N].
      setting: the tables.
    """
    config, table = setting.config, setting.table
    for_n, for_m, for_kind = uniform[:, 0], uniform[:, 1], uniform[:, 2]
    num_visible = config.num_visible_tests
    place = jnp.arange(uniform.shape[-1])[None]
    share = lookup.rows(setting.fidelity[table.family], problem)
    strict = (place >= num_visible) | (for_kind < share[:, None])
    large = strict & (place != num_visible)

    def bounds(name):
        return lookup.rows(getattr(table, name), problem)

    def strata(bounds):
        parts = jnp.split(for_n, [num_visible], axis=1)
        return jnp.concatenate([between(part, bounds) for part in parts], axis=1)

    n = jnp.where(large, strata(bounds("large_n")), strata(bounds("small_n")))
    low, high = bounds("small_m")[:, :1], bounds("small_m")[:, 1:]
    small_m = low + below(for_m, high - low + 1)
    m = jnp.where(large, 1 + below(for_m, NUM_M - 1), small_m)
    inputs = jnp.stack([n, m], axis=-1)
    if setting.brute_fuel is None:
        brute_fuel = jnp.zeros_like(n)
    else:
        brute_fuel = look_up(table, setting.brute_fuel, problem, inputs)
    return Suites(
        inputs=inputs,
        expected=truth(table, problem, inputs),
        fuel=jnp.where(strict, config.strict_fuel, config.loose_fuel).astype(jnp.int32),
        timed=large,
        brute_fuel=brute_fuel,
    )
