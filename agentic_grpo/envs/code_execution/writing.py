"""What the members of a group hold after writing a stage: programs, plans, tests."""

import dataclasses

import jax
import jax.numpy as jnp

from agentic_grpo.envs.code_execution import own_tests, plans, texts, vocabulary
from agentic_grpo.envs.code_execution.setting import Setting
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
        remembered=~zeros(dtype=bool),
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
    members: Members,
    stage: jax.Array,
    text: texts.Text,
    submits: jax.Array,
) -> Members:
    """Reads the text of each lane's stage.

    A program that breaks its plan is replaced by one that is a fault; a submission
    leaves the current program as it is.
    """
    program = texts.as_program(text, setting.table.program_width)
    obeys = plans.obeys(program, members.plan)
    program = jnp.where(obeys[..., None], program, texts.NOT_AN_OPCODE)
    writes_program = setting.at(stage, "code", "debug") & ~submits

    token = text.tokens[..., 0] - vocabulary.FIRST_PLAN
    names_plan = (text.length == 1) & (token >= 0) & (token < len(plans.PLANS))
    plan = jnp.where(names_plan, token, plans.UNPLANNED)

    inputs, valid = own_tests.read(text, setting.config.num_own_tests)
    writes_tests = setting.at(stage, "tests")[..., None]
    return dataclasses.replace(
        members,
        program=jnp.where(writes_program[..., None], program, members.program),
        plan=jnp.where(setting.at(stage, "algorithm"), plan, members.plan),
        own_inputs=jnp.where(writes_tests[..., None], inputs, members.own_inputs),
        own_valid=jnp.where(writes_tests, valid, members.own_valid),
        stages_written=members.stages_written + 1,
        tokens_written=members.tokens_written + text.written,
    )


def keep(acting: jax.Array, new: Members, old: Members) -> Members:
    """``new`` for the members [N, G] that acted, ``old`` for all others."""

    def select(one, other):
        return jnp.where(acting.reshape(acting.shape + (1,) * (one.ndim - 2)), one, other)

    return jax.tree.map(select, new, old)
