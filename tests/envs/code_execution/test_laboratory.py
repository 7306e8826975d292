"""The two dials that make the environment a laboratory, and no stage is scenery."""

import jax
import numpy as np
import pytest

from agentic_grpo.envs.code_execution import (
    CodeExecution,
    CodeExecutionConfig,
    ScriptedAgent,
    diagnostics,
)
from scripts import describe_environment

NUM_MEMBERS = 4


@pytest.fixture(scope="module")
def workflow():
    """Every stage once; families whose efficient programs a loop's plan allows, so that
    slow code can be mended within its plan; visible tests that are blind."""
    environment = CodeExecution(
        CodeExecutionConfig(
            families=("walk", "rectangle", "excess", "mirror", "power"),
            stages=("hypothesis", "algorithm", "summary", "code", "tests", "debug"),
            visible_fidelity=0.0,
        )
    )
    return environment, diagnostics.player(
        environment, split="train", num_members=NUM_MEMBERS
    )


def play(workflow, *, num_groups=256, **dials):
    environment, player = workflow
    keys = jax.random.split(jax.random.key(0), num_groups)
    return player(keys, ScriptedAgent(environment, **dials).dials)


def test_no_stage_is_scenery(workflow):
    """An agent that is of two minds about its programs, and competent at every stage:
    what any one stage contributes is at least 0.15 of its solve rate."""
    dials = {"efficient_share": 0.5, "repair_share": 0.5}
    solve_rate = float(np.mean(play(workflow, **dials).solved))
    for stage in workflow[0].config.stages:
        corrupted = play(workflow, **dials, competence={stage: 0.0})
        assert solve_rate - float(np.mean(corrupted.solved)) >= 0.15, stage


def test_solve_rate_follows_the_efficient_share(workflow):
    """Without repair it is the share itself: brute force solves nothing here."""
    for share in (0.0, 0.25, 1.0):
        episodes = play(workflow, efficient_share=share, repair_share=0.0)
        solved = float(np.mean(episodes.solved))
        assert abs(solved - share) < 4 * 0.5 / np.sqrt(256 * NUM_MEMBERS)
        assert share not in (0.0, 1.0) or solved == share
        np.testing.assert_array_equal(episodes.verdict, episodes.solved)


def test_rewards_that_are_blind_do_not_foretell_the_verdict(workflow):
    """code: every program passes the small tests, so nothing varies; debug likewise.

    The correlation is undefined there, and must be told so: not as 0, nor as NaN's
    cousin, the 1e8 of a division by a float's noise.
    """
    episodes = play(workflow, efficient_share=0.5)
    table = diagnostics.reward_verdict_correlation(episodes, 5)
    assert table.shape == (5, 6)
    assert np.all(np.isnan(table[:, 3]))
    assert np.all(np.isnan(table[[0, 4]]))  # no families of levels 1 and 5 here
    competence = {"code": 0.5, "debug": 0.5}
    episodes = play(workflow, efficient_share=1.0, competence=competence)
    table = diagnostics.reward_verdict_correlation(episodes, 5)
    assert np.all(table[1:4, 5] > 0.99)  # noise fails both suites, the rest neither


FIDELITIES = {2: 0.0, 3: 0.5, 4: 1.0}  # level -> fidelity: one family of each level


@pytest.fixture(scope="module", params=["blind", "deceptive"])
def gaps(request):
    """mode, level -> E[r | efficient] - E[r | brute force] of the code stage."""
    environment = CodeExecution(
        CodeExecutionConfig(
            families=("toggle", "cubes", "power"),
            stages=("code",),
            hidden_rate=0.0,
            visible_fidelity=tuple(
                zip(("toggle", "cubes", "power"), FIDELITIES.values(), strict=True)
            ),
            fidelity_mode=request.param,
        )
    )
    player = diagnostics.player(environment, split="train", num_members=1)
    keys = jax.random.split(jax.random.key(0), 512)
    slow, quick = (
        player(keys, ScriptedAgent(environment, efficient_share=share).dials)
        for share in (0.0, 1.0)
    )
    gain = np.asarray(quick.reward - slow.reward)[:, 0, 0]
    return request.param, {
        level: float(np.mean(gain[np.asarray(quick.level) == level - 1]))
        for level in FIDELITIES
    }


def test_the_advantage_of_efficient_programs_rises_with_fidelity(gaps):
    """A hidden-like test tells 1 from 0.1; a small one 1 from 1, or 0.5 from 1.

    blind: 0.9 f; deceptive: 0.9 f - 0.5 (1 - f).
    """
    mode, gap = gaps
    at_zero = 0.0 if mode == "blind" else -0.5
    assert gap[2] == pytest.approx(at_zero, abs=1e-6)
    assert gap[3] == pytest.approx(0.45 + at_zero / 2, abs=0.1)
    assert gap[4] == pytest.approx(0.9, abs=1e-6)
    assert gap[2] < gap[3] < gap[4]


def test_at_fidelity_0_blind_rewards_are_silent_and_deceptive_ones_mislead(gaps):
    mode, gap = gaps
    assert gap[2] == 0.0 if mode == "blind" else gap[2] <= -0.2


def test_means_are_over_those_who_wrote_the_stage():
    """Two of four members reached the second stage; with rewards 1 and 0.5."""
    acted = np.array([[[1, 1], [1, 0]], [[1, 1], [1, 0]]], bool)
    reward = np.array([[[0.5, 1.0], [0.5, 0.0]], [[0.5, 0.5], [0.5, 0.0]]])
    episodes = diagnostics.Episodes(
        level=np.array([0, 0]),
        acted=acted,
        reward=reward,
        verdict=np.zeros((2, 2)),
        solved=np.zeros((2, 2), bool),
    )
    np.testing.assert_allclose(diagnostics.mean_rewards(episodes), [0.5, 0.75])
    nobody = np.zeros_like(acted)
    episodes = diagnostics.Episodes(
        level=np.array([0, 0]),
        acted=nobody,
        reward=reward,
        verdict=np.zeros((2, 2)),
        solved=np.zeros((2, 2), bool),
    )
    assert np.all(np.isnan(diagnostics.mean_rewards(episodes)))


def test_correlation_is_pearsons_over_one_level():
    """Rewards 0, 1, 1 and verdicts 0, 0, 1: covariance 1/9, deviations sqrt(2)/3."""
    episodes = diagnostics.Episodes(
        level=np.array([1]),
        acted=np.ones((1, 3, 1), bool),
        reward=np.array([[[0.0], [1.0], [1.0]]]),
        verdict=np.array([[0.0, 0.0, 1.0]]),
        solved=np.zeros((1, 3), bool),
    )
    table = diagnostics.reward_verdict_correlation(episodes, 2)
    np.testing.assert_allclose(table[1], [0.5])
    assert np.isnan(table[0, 0])


def test_the_environment_can_be_described_on_the_command_line(capsys, monkeypatch):
    arguments = ["--families=cubes", "--stages=code", "--fidelity=1", "--groups=8"]
    monkeypatch.setattr("sys.argv", ["describe_environment.py", *arguments])
    describe_environment.main()
    printed = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    assert ["cubes", "3", "62", "10", "18", "0"] in printed
    assert ["brute", "force", "0.10", "0.00", "0.00"] in printed
    assert ["efficient", "1.00", "1.00", "1.00"] in printed
