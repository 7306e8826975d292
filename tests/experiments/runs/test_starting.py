"""A run starts from another's parameters; whoever asks gets them as well."""

import json
import os
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

from agentic_grpo.training.checkpoints import CheckpointError
from experiments import train
from experiments.config import fields
from experiments.configs import smoke
from experiments.runs import starting

ROOT = pathlib.Path(starting.__file__).resolve().parents[2]


#: A bonus on entropy moves the parameters where no reward tells members apart.
USUAL = {"learner.entropy_weight": 0.1, "checkpoint.keep": 4}


def config(**changes):
    return fields.change(smoke.get_config(), USUAL | changes)


def branch(of, **changes):
    return config(**{"init_from": str(of), "warm_start.num_steps": None, **changes})


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first") / "run"
    train.run(config(), folder)
    return folder


def params(folder, tick=None):
    return starting.load_policy(folder, tick)[1]


def same(one, other):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def test_a_branch_starts_where_the_run_ended_and_goes_on_by_itself(first, tmp_path):
    summary = train.run(branch(first, seed=1), tmp_path / "branch")
    assert same(params(tmp_path / "branch", "0"), params(first, "8"))
    assert not same(params(tmp_path / "branch"), params(first))
    ended = json.loads((first / "summary.json").read_text())
    assert summary["before"] == ended["after"]
    assert train.run(branch(first, seed=1), tmp_path / "branch") == summary


def test_a_tick_may_be_named(first, tmp_path):
    train.run(branch(f"{first}@4"), tmp_path / "branch")
    assert same(params(tmp_path / "branch", "0"), params(first, "4"))
    assert not same(params(first, "4"), params(first, "8"))


@pytest.mark.parametrize(
    ("ending", "match"),
    [
        ("@5", r"init_from=.*@5' must be a run@tick of .*4, 8, or best"),
        ("@worst", r"--tick='worst' must be a tick, or best"),
        ("/nowhere", r"init_from=.*must be RUN or RUN@TICK of a run that has saved"),
    ],
)
def test_what_is_not_there_is_refused_before_anything_is_written(
    first, tmp_path, ending, match
):
    with pytest.raises(ValueError, match=match):
        train.run(branch(f"{first}{ending}"), tmp_path / "branch")
    assert not (tmp_path / "branch").exists()


def test_a_warm_start_on_top_is_refused(first, tmp_path):
    given = branch(first, **{"warm_start.num_steps": 2})
    with pytest.raises(ValueError, match=r"warm_start.num_steps=2 must be 0, or none"):
        train.run(given, tmp_path / "branch")


def test_another_model_is_refused_by_its_leaves(first, tmp_path):
    wider = branch(first, **{"model.mlp_size": 16})
    with pytest.raises(CheckpointError, match=r"mlp"):
        train.run(wider, tmp_path / "branch")


def test_the_policy_of_a_run_can_be_asked(first):
    policy, found, environment = starting.load_policy(first, "best")
    start = environment.start(
        jax.random.split(jax.random.key(0), 2), split="test", num_members=1
    )
    columns = environment.spec.layout.num_columns
    tokens = np.zeros((2, columns), np.int32)
    mask = np.zeros((2, columns), bool)
    width = start.prompt_tokens.shape[1]
    tokens[:, :width], mask[:, :width] = start.prompt_tokens, start.prompt_mask
    log_probs, entropy = policy.score(found, tokens, mask, temperature=1.0)
    assert log_probs.shape == entropy.shape == (2, columns)
    assert np.isfinite(log_probs).all()


def evaluate(folder, *flags):
    words = (f"--workdir={folder}", "--problems=8", *flags)
    return subprocess.run(
        [sys.executable, "-m", "experiments.evaluate", *words],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )


def test_other_problems_and_another_temperature_can_be_asked_for(first):
    field = "env.code_execution.num_hidden_tests"
    done = evaluate(first, f"--config.{field}=3", "--temperature=0.5", "--tick=4")
    assert done.returncode == 0, done.stderr
    rates = json.loads(done.stdout)
    assert rates[field] == 3 and rates["tick"] == 4 and "solve_rate" in rates


@pytest.mark.parametrize(
    ("flag", "match"),
    [
        ("--config.model.num_layers=2", "must be a field of env: of what is asked"),
        ("--config.env.code_execution.stages=3", "must be a tuple"),
        ("--temperature=0.5 --greedy", "left out: --greedy is temperature 0"),
    ],
)
def test_what_an_evaluation_cannot_change_is_refused(first, flag, match):
    done = evaluate(first, *flag.split())
    assert done.returncode == 1 and match in done.stderr
