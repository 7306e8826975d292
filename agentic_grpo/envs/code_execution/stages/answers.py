"""What the environment answers to each stage: reward, feedback, verdict."""

import dataclasses

import jax
import jax.numpy as jnp

from agentic_grpo.envs.code_execution import judging, lookup
from agentic_grpo.envs.code_execution.problems.family import NUM_LEVELS
from agentic_grpo.envs.code_execution.stages import (
    feedback,
    hypothesis,
    own_tests,
    summary,
    texts,
)
from agentic_grpo.envs.code_execution.stages.execution import Executed
from agentic_grpo.envs.code_execution.stages.feedback import Observation
from agentic_grpo.envs.code_execution.stages.setting import Setting
from agentic_grpo.envs.code_execution.state import CodeState, Members


def note(
    setting: Setting, members: Members, stage: jax.Array, executed: Executed
) -> Members:
    """Enters what became of the members' programs."""
    ran = setting.at(stage, "code", "debug")
    ran_own = setting.at(stage, "code", "debug", "tests")
    return dataclasses.replace(
        members,
        keeps_status=members.keeps_status | ran,
        visible_status=jnp.where(
            ran[..., None], executed.visible_status, members.visible_status
        ),
        own_status=jnp.where(
            ran_own[..., None], executed.own_status, members.own_status
        ),
    )


def answer(
    setting: Setting,
    state: CodeState,
    members: Members,
    stage: jax.Array,
    text: texts.Text,
    executed: Executed,
) -> tuple[jax.Array, Observation, Members]:
    """Reward float32 [N, G] and observation of each lane's stage.

    The members come back with what they have learnt or forgotten.
    """
    config, width = setting.config, setting.layout.max_observation_width
    reward = estimate(setting, state, members, executed)
    told = _program_feedback(setting, state, members, stage, executed, width)
    if "hypothesis" in config.stages:
        here = setting.at(stage, "hypothesis")
        answers = hypothesis.case_answers(
            setting.table, state.problem, config.num_cases
        )
        findings = hypothesis.check(text, answers, width)
        reward = jnp.where(here, findings.reward, reward)
        told = _choose(here, findings.observation, told)
        revealed = members.revealed | (here & findings.well_formed)
        members = dataclasses.replace(members, revealed=revealed)
    if "tests" in config.stages:
        here = setting.at(stage, "tests")
        assert setting.mutants is not None  # as there is a tests stage
        attack = own_tests.attack(
            executed.mutant_status,
            members.own_valid,
            lookup.rows(setting.mutants.exists, state.problem),
            members.own_status,
            width,
        )
        reward = jnp.where(here, attack.reward, reward)
        told = _choose(here, attack.observation, told)
    if "summary" in config.stages:
        here = setting.at(stage, "summary")
        digit = lookup.rows(setting.table.digit, state.problem)[:, None]
        status, _ = feedback.first_failure(members.visible_status)
        expected = summary.facts(setting.facts, digit, members.plan, status)
        kept = summary.kept(text, expected)
        reward = jnp.where(here, jnp.mean(kept, axis=-1, dtype=jnp.float32), reward)
        told = _choose(here, summary.observation(kept, width), told)
        members = forget(setting.facts, members, kept | ~here[..., None])
    return reward, told, members


def forget(names, members, kept) -> Members:
    """Notes which facts [N, G, F] a summary has kept."""
    changes = {
        f"keeps_{name}": getattr(members, f"keeps_{name}") & kept[..., place]
        for place, name in enumerate(names)
        if name != "plan"  # it binds whether or not the member knows it
    }
    return dataclasses.replace(members, **changes)


def estimate(setting, state, members, executed) -> jax.Array:
    """float32 [N, G]: the visible suite's mean score, charged as the verdict is."""
    num_visible = setting.config.num_visible_tests
    scores = judging.score_tests(
        executed.visible_status,
        executed.visible_fuel,
        _of_members(state.suites.brute_fuel[:, :num_visible], executed.visible_fuel),
        _of_members(state.suites.timed[:, :num_visible], executed.visible_fuel),
        deceptive=setting.config.fidelity_mode == "deceptive",
        **_scoring(setting),
    )
    return _charge(setting, state, members, jnp.mean(scores, axis=-1))


def verdict(setting, state, members, executed) -> tuple[jax.Array, jax.Array]:
    """Verdict float32 [N, G] and ``solved`` bool [N, G] of the current programs."""
    num_visible = setting.config.num_visible_tests
    scores = judging.score_tests(
        executed.hidden_status,
        executed.hidden_fuel,
        _of_members(state.suites.brute_fuel[:, num_visible:], executed.hidden_fuel),
        _of_members(state.suites.timed[:, num_visible:], executed.hidden_fuel),
        **_scoring(setting),
    )
    judged, solved = judging.verdict_of_suite(
        executed.hidden_status, scores, graded=setting.config.verdict == "graded"
    )
    return _charge(setting, state, members, judged), solved


def _scoring(setting):
    config = setting.config
    return {
        "out_of_fuel_score": config.out_of_fuel_score,
        "full_speedup": config.full_speedup if config.speed_score else None,
    }


def _charge(setting, state, members, score):
    level = lookup.rows(setting.table.level, state.problem)[:, None]
    return judging.charge(
        score,
        members.stages_written,
        members.tokens_written / setting.layout.action_widths.sum(),
        level,
        stage_cost=setting.config.stage_cost,
        length_penalty=setting.config.length_penalty,
        num_levels=NUM_LEVELS,
    )


def _of_members(leaf, like):
    return jnp.broadcast_to(leaf[:, None], like.shape)


def _program_feedback(setting, state, members, stage, executed, width):
    """The visible suite's answer; on a plan only the status and the number passed."""
    at_algorithm = setting.at(stage, "algorithm")
    own = None
    if setting.mutants is not None:
        own, _ = feedback.first_failure(members.own_status, members.own_valid)
    inputs = state.suites.inputs[:, : setting.config.num_visible_tests]
    told = feedback.of_suite(executed.visible_status, inputs, width, own)
    if "algorithm" not in setting.config.stages:
        return told
    of_plan = feedback.of_plan(executed.visible_status, width)
    return _choose(at_algorithm, of_plan, told)


def _choose(here, one: Observation, other: Observation) -> Observation:
    return Observation(
        tokens=jnp.where(here[..., None], one.tokens, other.tokens),
        length=jnp.where(here, one.length, other.length),
    )
