"""What the members of a group hold after writing a stage: programs, plans, tests."""

import dataclasses

import jax
import jax.numpy as jnp

from agentic_grpo.envs.code_execution import lookup
from agentic_grpo.envs.code_execution.problems import plans, vocabulary
from agentic_grpo.envs.code_execution.stages import own_tests, texts
from agentic_grpo.envs.code_execution.stages.setting import Setting
from agentic_grpo.envs.code_execution.state import Members


def newcomers(setting: Setting, seed: jax.Array) -> Members:
    """Members [N, G] that have done nothing yet; ``seed`` is uniform float [N, G]."""

    def zeros(*tail, dtype=jnp.int32):
        return jnp.zeros((*seed.shape, *tail), dtype)

    num_own = setting.config.num_own_tests
    return Members(
        seed=seed,
        program=zeros(setting.table.program_width),
        plan=zeros() + plans.UNBOUND,
        revealed=zeros(dtype=bool),
        keeps_digit=~zeros(dtype=bool),
        keeps_status=~zeros(dtype=bool),
        visible_status=zeros(setting.config.num_visible_tests),
        own_inputs=zeros(num_own, 2),
        own_valid=zeros(num_own, dtype=bool),
        own_status=zeros(num_own),
        stages_written=zeros(),
        tokens_written=zeros(),
        ended=zeros(dtype=bool),
    )


def write(
    setting: Setting,
    problem: jax.Array,
    members: Members,
    stage: jax.Array,
    text: texts.Text,
    submits: jax.Array,
) -> Members:
    """Reads the text of each lane's stage.

    A program that breaks its plan is replaced by one that is a fault; a submission
    leaves the current program as it is.

    Args:
      setting: the tables.
      problem: int32 [N].
      members: before the stage.
      stage: int32 [N].
      text: what they wrote.
      submits: bool [N, G]; those who handed their work in instead of writing a program.
    """
    changes = {
        "stages_written": members.stages_written + 1,
        "tokens_written": members.tokens_written + text.written,
    }
    program = texts.as_program(text, setting.table.program_width)
    if "algorithm" in setting.config.stages:
        obeys = plans.obeys(program, members.plan)
        program = jnp.where(obeys[..., None], program, texts.NOT_AN_OPCODE)
        here, plan = setting.at(stage, "algorithm"), _read_plan(text)
        changes["plan"] = jnp.where(here, plan, members.plan)
    writes = (setting.at(stage, "code", "debug") & ~submits)[..., None]
    changes["program"] = jnp.where(writes, program, members.program)
    if "tests" in setting.config.stages:
        largest_n = lookup.rows(setting.table.large_n, problem)[:, 1]
        inputs, valid = own_tests.read(text, largest_n, setting.config.num_own_tests)
        here = setting.at(stage, "tests")[..., None]
        changes["own_valid"] = jnp.where(here, valid, members.own_valid)
        changes["own_inputs"] = jnp.where(here[..., None], inputs, members.own_inputs)
    return dataclasses.replace(members, **changes)


def _read_plan(text):
    """int32 [N, G]: the plan that a text names, UNPLANNED if it names none."""
    plan = text.tokens[..., 0] - vocabulary.FIRST_PLAN
    names_one = (text.length == 1) & (plan >= 0) & (plan < len(plans.PLANS))
    return jnp.where(names_one, plan, plans.UNPLANNED)


def keep(acting: jax.Array, new: Members, old: Members) -> Members:
    """``new`` for the members [N, G] that acted, ``old`` for all others."""

    def select(one, other):
        return jnp.where(
            acting.reshape(acting.shape + (1,) * (one.ndim - 2)), one, other
        )

    return jax.tree.map(select, new, old)
