"""What makes it a laboratory: two ways of working, the dials, stages that matter."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo import episodes
from agentic_grpo.envs.tool_workflow import (
    ScriptedAgent,
    ToolWorkflow,
    ToolWorkflowConfig,
    vocabulary,
)


@functools.cache
def player(**fields):
    """(environment, agent, compiled (keys, hidden_like [K], dials) -> episodes)."""
    environment = ToolWorkflow(ToolWorkflowConfig(**fields))
    agent = ScriptedAgent(environment, careful_share=1.0)

    def play(keys, hidden_like, dials):
        class WithChecks:
            """The environment, with checks that look where they are told."""

            spec, step = environment.spec, staticmethod(environment.step)

            @staticmethod
            def start(keys, **options):
                start = environment.start(keys, **options)
                problem = start.state.problem
                looks = jnp.broadcast_to(hidden_like, problem.hidden_like.shape)
                problem = dataclasses.replace(problem, hidden_like=looks)
                state = dataclasses.replace(start.state, problem=problem)
                return dataclasses.replace(start, state=state)

        act = episodes.write_with(lambda *given: agent.write(*given, dials))
        return episodes.play_episodes(
            act, WithChecks, keys, split="train", num_members=2
        )

    return environment, agent, jax.jit(play)


def play(fields=(), *, num_honest=1, competence=(), **dials):
    """256 episodes: a ``SnapshotTable`` on the host. Careful by default."""
    environment, agent, compiled = player(**dict(fields))
    turned = {name: np.float32(value) for name, value in dials.items()}
    stages = environment.config.stages
    known = np.array([dict(competence).get(name, 1.0) for name in stages], np.float32)
    dials = dataclasses.replace(agent.dials, competence=known, **turned)
    looks = np.arange(environment.config.num_checks) < num_honest
    keys = jax.random.split(jax.random.key(0), 128)
    return jax.device_get(compiled(keys, looks, dials))


def mean_rewards(rows):
    return (rows.reward * rows.acted).sum(axis=(0, 1)) / rows.acted.sum(axis=(0, 1))


def test_careful_agents_solve_everything_and_hasty_ones_next_to_nothing():
    assert play().solved.all()
    assert play(careful_share=0.0, repair_share=0.0).solved.mean() < 0.03


def test_careful_agents_submit_unless_a_digit_was_hidden():
    rows = play()
    hidden = (rows.tokens[:, 0, :24] == vocabulary.HIDDEN).any(axis=1)
    submitted = (rows.end_reason == episodes.EndReason.SUBMITTED).all(axis=1)
    # A guess of the hidden digit is right one time in ten, and is then left alone.
    assert submitted[~hidden].all() and submitted[hidden].mean() < 0.2


def test_slips_are_seen_by_the_audit_and_repairs_mend_one_of_them():
    slipping = play(slip_share=0.2, repair_share=0.0).solved.mean()
    mended = play(slip_share=0.2, repair_share=1.0).solved.mean()
    # No slip in three parts, nor in the half of the plans that matter: 0.8 ** 3 * 0.9.
    assert 0.4 < slipping < 0.65
    assert mended > slipping + 0.1


@pytest.mark.parametrize("stage", vocabulary.STAGE_NAMES)
def test_every_stage_matters(stage):
    corrupted = play(competence=((stage, 0.0),))
    assert play().solved.mean() - corrupted.solved.mean() >= 0.15


@pytest.mark.parametrize("mode", ["blind", "deceptive"])
def test_fidelity_turns_the_checks_from_misleading_to_honest(mode):
    gaps = []
    for num_honest in (0, 2, 4):
        fields = (("fidelity_mode", mode),)
        careful = play(fields, num_honest=num_honest)
        hasty = play(fields, num_honest=num_honest, careful_share=0.0)
        gaps.append(mean_rewards(careful)[:3] - mean_rewards(hasty)[:3])
    assert (np.diff(gaps, axis=0) > 0.0).all()
    if mode == "blind":  # the plan and the first two parts all look right
        np.testing.assert_allclose(gaps[0], 0.0, atol=1e-6)
    else:  # the cheap looks better; the plan's price differs in half of the problems
        assert gaps[0][0] < -0.1 and (gaps[0][1:] < -0.4).all()


def test_a_graded_verdict_is_the_share_of_right_slots_within_the_budget():
    graded = play((("verdict", "graded"),), careful_share=0.0, repair_share=0.0)
    strict = play(careful_share=0.0, repair_share=0.0)
    np.testing.assert_array_equal(graded.solved, strict.solved)
    np.testing.assert_allclose(strict.verdict, strict.solved)
    # Of 4 records and 4 slots: multiples of 1/16, most between nothing and everything.
    np.testing.assert_allclose(graded.verdict * 16, np.round(graded.verdict * 16))
    assert 0.1 < graded.verdict.mean() < 0.6


@pytest.mark.parametrize(
    "fields",
    [
        {"stages": ("call",) * 6, "moving_rate": 0.0, "hidden_rate": 0.0},  # 12 calls
        {"stages": ("plan", "call", "check", "call"), "hidden_rate": 1.0},
        {"stages": ("call", "revise", "call", "revise"), "hidden_rate": 0.0},
    ],
    ids=["12 calls", "check first", "no plan"],
)
def test_other_workflows_are_solved_too(fields):
    environment, _, _ = player(**fields)
    names = [stage.name for stage in environment.spec.layout.stages]
    assert len(set(names)) == len(names)
    assert play(tuple(fields.items()), repair_share=1.0).solved.mean() > 0.95
