"""What a step runs on the machine, and what became of it."""

import jax
import jax.numpy as jnp

from agentic_grpo import records
from agentic_grpo.envs.code_execution import judging, lookup
from agentic_grpo.envs.code_execution.judging import TestStatus
from agentic_grpo.envs.code_execution.problems import plans
from agentic_grpo.envs.code_execution.stages import (
    jobs,
    own_tests,
    suites,
)
from agentic_grpo.envs.code_execution.stages.setting import Setting
from agentic_grpo.envs.code_execution.state import CodeState, Members
from agentic_grpo.envs.code_execution.vm import interpreter


@records.record
class Executed:
    """Status (TestStatus) and fuel of one step; meaningless where nothing was to run.

    Attributes:
      visible_status, visible_fuel: int32 [N, G, K]; of the programs, or of the plans'
        references.
      hidden_status, hidden_fuel: int32 [N, G, H]; of members that end.
      own_status: int32 [N, G, k]; NOT_RUN where the own test is not valid.
      mutant_status: int32 [N, G, k, M]; in lanes at the tests stage; M = 0 in a
        workflow without one.
    """

    visible_status: jax.Array
    visible_fuel: jax.Array
    hidden_status: jax.Array
    hidden_fuel: jax.Array
    own_status: jax.Array
    mutant_status: jax.Array


def execute(
    setting: Setting,
    state: CodeState,
    members: Members,
    stage: jax.Array,
    acting: jax.Array,
    ends: jax.Array,
) -> Executed:
    """Runs everything that a step asks for in ONE interpreter call.

    Args:
      setting: the tables.
      state: before the step; its problems and suites.
      members: as they stand after writing.
      stage: int32 [N].
      acting, ends: bool [N, G].
    """
    num_visible = setting.config.num_visible_tests
    tests = state.suites
    tested = members.program
    if "algorithm" in setting.config.stages:
        here = setting.at(stage, "algorithm")[..., None]
        tested = jnp.where(here, _reference(setting, state, members.plan), tested)
    visible = jobs.of_suite(
        tested,
        tests.inputs[:, None, :num_visible],
        tests.fuel[:, None, :num_visible],
        acting & setting.at(stage, "algorithm", "code", "debug"),
    )
    hidden = jobs.of_suite(
        members.program,
        tests.inputs[:, None, num_visible:],
        tests.fuel[:, None, num_visible:],
        ends,
    )
    if setting.mutants is None:
        ran_visible, ran_hidden = jobs.run(visible, hidden)
        own_status = members.own_status
        mutant_status = jnp.zeros((*own_status.shape, 0), jnp.int32)
    else:
        ran_visible, ran_hidden, own_status, mutant_status = _run_with_own_tests(
            setting, state.problem, members, stage, acting, visible, hidden
        )
    return Executed(
        visible_status=_judge(ran_visible, tests.expected[:, None, :num_visible]),
        visible_fuel=ran_visible.fuel_used,
        hidden_status=_judge(ran_hidden, tests.expected[:, None, num_visible:]),
        hidden_fuel=ran_hidden.fuel_used,
        own_status=own_status,
        mutant_status=mutant_status,
    )


def _reference(setting, state, plan):
    """int32 [N, G, L]: the best program of each member's plan; all HALT without one."""
    references = lookup.rows(setting.table.reference, state.problem)
    program = jnp.zeros((*plan.shape, references.shape[-1]), jnp.int32)
    for index in range(len(plans.PLANS)):
        chosen = (plan == index)[..., None]
        program = jnp.where(chosen, references[:, None, index], program)
    return program


def _run_with_own_tests(setting, problem, members, stage, acting, visible, hidden):
    """Runs the suites, the members on their own tests, and the mutants on them.

    The tests stage leaves the visible tests idle: the mutants take their places.
    """
    strict_fuel = setting.config.strict_fuel
    inputs, valid = members.own_inputs, members.own_valid
    lanes, shape = valid.shape[0], valid.shape
    expected = suites.truth(setting.table, problem, inputs.reshape(lanes, -1, 2))
    expected = expected.reshape(shape)

    attacks = acting & setting.at(stage, "tests")
    own = jobs.of_suite(
        members.program,
        inputs,
        jnp.where(valid, strict_fuel, 0),
        acting & setting.at(stage, "tests", "code", "debug"),
    )
    mutants = own_tests.mutant_jobs(
        lookup.rows(setting.mutants.program, problem),
        inputs,
        valid,
        attacks,
        strict_fuel=strict_fuel,
    )
    width = max(visible.count, mutants.count)
    shared, ran_hidden, ran_own = jobs.run(
        jobs.choose(attacks, jobs.widen(mutants, width), jobs.widen(visible, width)),
        hidden,
        own,
    )
    ran_visible = jax.tree.map(lambda leaf: leaf[..., : visible.count], shared)
    ran_mutants = jax.tree.map(
        lambda leaf: leaf[..., : mutants.count].reshape(*shape, -1), shared
    )
    own_status = jnp.where(valid, _judge(ran_own, expected), int(TestStatus.NOT_RUN))
    return ran_visible, ran_hidden, own_status, _judge(ran_mutants, expected[..., None])


def _judge(result: interpreter.MachineResult, expected):
    return judging.judge(
        result.ending, result.output, jnp.broadcast_to(expected, result.output.shape)
    )
