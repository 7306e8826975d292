"""Solve rate and pass@k against counting by hand; the warm start on the toy."""

import dataclasses
import functools
import itertools

import jax
import numpy as np
import pytest
import toy_environment as toy
import toy_program

from agentic_grpo import episodes
from agentic_grpo.training import evaluation, warm_start

PROBLEMS = 16
SETTINGS = evaluation.EvaluationSettings(
    split="test",
    num_problems=PROBLEMS,
    samples_per_problem=2,
    batch_size=8,
    with_greedy=True,
)


@functools.cache
def evaluator(settings=SETTINGS):
    return jax.jit(
        lambda params, key: evaluation.evaluate(
            toy_program.policy(), params, toy_program.environment(), key, settings
        )
    )


@pytest.mark.parametrize("num_solved", range(5))
@pytest.mark.parametrize("k", [1, 2, 4])
def test_pass_at_k_is_the_share_of_subsets_with_a_success(num_solved, k):
    samples = [True] * num_solved + [False] * (4 - num_solved)
    subsets = list(itertools.combinations(samples, k))
    expected = sum(any(subset) for subset in subsets) / len(subsets)
    got = evaluation.pass_at_k(np.array([num_solved]), np.array([4]), k)
    np.testing.assert_allclose(got, [expected], atol=1e-6)


def test_a_fault_of_the_environment_is_no_failure_of_the_agent():
    # three problems of four samples; judged and solved:
    solved = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]], bool)
    judged = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]], bool)
    policy, params = toy_program.policy(), toy_program.initial_params()
    act = episodes.sample_with(policy, params, temperature=1.0)
    rows = play(act, num_problems=3, num_members=4)
    rows = dataclasses.replace(rows, solved=solved, verdict_mask=judged)
    rates = evaluation.read(
        evaluation.measure(rows, toy_program.environment().spec, (1, 2, 3, 4))
    )
    assert rates["solve_rate"] == pytest.approx(3 / 5)
    # of the first problem 2 of 2, of the second 1 of 3, of the third nothing is known
    assert rates["pass_at_1"] == pytest.approx((1 + 1 / 3) / 2)
    assert rates["pass_at_2"] == pytest.approx((1 + 2 / 3) / 2)
    assert rates["pass_at_3"] == pytest.approx(1.0)  # the second problem alone
    assert "pass_at_4" not in rates


def play(act, *, num_problems, num_members):
    return episodes.play_episodes(
        act,
        toy_program.environment(),
        jax.random.split(jax.random.key(0), num_problems),
        split="test",
        num_members=num_members,
    )


def test_an_agent_that_is_always_right_solves_everything():
    always_right = episodes.write_with(toy.ToyAgent(answer_offset=0))
    rows = play(always_right, num_problems=PROBLEMS, num_members=1)
    rates = evaluation.read(evaluation.measure(rows, toy_program.environment().spec))
    assert rates["solve_rate"] == rates["verdict"] == 1.0
    assert rates["stage_reward/guess"] == rates["stage_reward/answer"] == 1.0


def test_levels_are_counted_apart_and_add_up():
    metrics = evaluator()(toy_program.initial_params(), jax.random.key(1))
    even, odd = metrics["solve_rate/even"], metrics["solve_rate/odd"]
    assert float(even.total + odd.total) == float(metrics["solve_rate"].total)
    assert float(even.count + odd.count) == float(metrics["solve_rate"].count)


def test_greedy_play_counts_every_problem_once():
    metrics = evaluator()(toy_program.initial_params(), jax.random.key(1))
    greedy = metrics["greedy_solve_rate"]
    assert greedy.count <= PROBLEMS < metrics["solve_rate"].count
    by_level = metrics["greedy_solve_rate/even"], metrics["greedy_solve_rate/odd"]
    assert float(sum(x.total for x in by_level)) == float(greedy.total)


def test_what_was_sampled_is_scored_alike():
    metrics = evaluator()(toy_program.initial_params(), jax.random.key(1))
    assert metrics["log_prob_gap"] < 1e-5


def test_the_same_key_gives_the_same_evaluation():
    first, second, other = (
        evaluation.read(evaluator()(toy_program.initial_params(), jax.random.key(seed)))
        for seed in (1, 1, 2)
    )
    assert first == second
    assert first != other


def test_a_rate_of_what_did_not_occur_is_left_out():
    zero = evaluation.Mean(np.float32(0.0), np.float32(0.0))
    one = evaluation.Mean(np.float32(0.0), np.float32(1.0))
    assert evaluation.read({"none": zero, "zero": one}) == {"zero": 0.0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_problems": 10}, "num_problems=10 must be a multiple of batch_size=8"),
        ({"pass_at": (3,)}, "pass_at=3 must be in"),
    ],
)
def test_bad_settings_name_the_field(changes, message):
    with pytest.raises(ValueError, match=message):
        evaluation.EvaluationSettings(
            **{
                "split": "test",
                "num_problems": 8,
                "samples_per_problem": 2,
                "batch_size": 8,
                **changes,
            }
        )


def test_the_warm_start_learns_what_the_agent_writes_and_depends_on_its_key():
    settings = warm_start.WarmStartSettings(
        num_steps=60, episodes_per_step=32, learning_rate=1e-2, steps_per_dispatch=30
    )
    run = jax.jit(
        functools.partial(
            warm_start.run_steps,
            toy_program.policy(),
            toy.ToyAgent(answer_offset=0),
            toy_program.environment(),
            settings,
        )
    )
    carry = warm_start.init(toy_program.initial_params(), settings)
    carry, first = run(carry, jax.random.key(0))
    carry, last = run(carry, jax.random.key(0))
    assert last[-1] < 0.5 * first[0]
    rates = evaluation.read(evaluator()(carry[0], jax.random.key(1)))
    assert rates["solve_rate"] > 0.6
    assert int(carry[2]) == 60


def test_a_warm_start_that_does_not_fill_its_dispatches_is_refused():
    with pytest.raises(ValueError, match="num_steps=30 must be a multiple"):
        warm_start.WarmStartSettings(
            num_steps=30, episodes_per_step=1, learning_rate=1.0, steps_per_dispatch=25
        )


@pytest.mark.parametrize("num_steps", [1, 2, 19, 20, 60, 500])
def test_no_step_of_the_warm_start_is_played_for_nothing(num_steps):
    # the first step had rate 0
    settings = warm_start.WarmStartSettings(
        num_steps=num_steps,
        episodes_per_step=1,
        learning_rate=1e-2,
        steps_per_dispatch=1,
    )
    rates = np.array([warm_start.schedule_of(settings)(k) for k in range(num_steps)])
    warmup = max(num_steps // 20, 1)
    np.testing.assert_allclose(rates[0], 1e-2 / (warmup + 1), rtol=1e-5)
    assert (rates > 0).all()
    np.testing.assert_allclose(rates.max(), 1e-2 if num_steps > 1 else 5e-3, rtol=1e-5)
