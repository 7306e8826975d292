"""Who may enter, on which problems, and what is refused before anything is computed."""

import dataclasses
import json
import subprocess
import sys

import jax
import numpy as np
import pytest

from agentic_grpo.envs.code_execution import CodeExecution, CodeExecutionConfig
from agentic_grpo.envs.code_execution.problems.families import FAMILIES
from agentic_grpo.training import run_folder, tick
from agentic_grpo.training.checkpoints import Checkpoints
from experiments import train
from experiments.config import fields
from experiments.config.build import build
from experiments.configs import smoke
from experiments.contests import desk, entering, problems
from experiments.contests.entering import Entry

HELD_OUT = {name for name, family in FAMILIES.items() if family.held_out}


def entered(tmp_path, **changes):
    """(folder, config) of a run that has written nothing but its config."""
    changes = {name.replace("__", "."): value for name, value in changes.items()}
    config = fields.change(smoke.get_config(), changes)
    (tmp_path / "config.json").write_text(config.to_json())
    return tmp_path, config


def code(config):
    return config.code_execution


def test_the_problems_are_the_runs_own_and_the_held_out_compositions(tmp_path):
    folder, config = entered(tmp_path)
    env = entering.read_env(folder, Entry(num_ticks=9, budget=2))
    own = config.env.code_execution.families
    assert set(env.code_execution.families) == {*own, *HELD_OUT}
    without = Entry(num_ticks=9, budget=2, compositions=False)
    assert entering.read_env(folder, without).code_execution.families == own


def test_fidelities_by_family_cover_the_added_ones(tmp_path):
    pairs = (("multiples", 0.5), ("toggle", 1.0))
    folder, config = entered(tmp_path, env__code_execution__fidelity_of_family=pairs)
    env = entering.read_env(folder, Entry(num_ticks=9, budget=2)).code_execution
    found = dict(env.fidelity_of_family)
    assert found["multiples"] == 0.5 and found["toggle"] == 1.0
    rest = config.env.code_execution.visible_fidelity
    assert {found[name] for name in HELD_OUT} == {rest}


def test_what_the_judges_solution_would_tell_is_no_reward(tmp_path):
    stages = ("code", "tests", "debug")
    folder, _ = entered(
        tmp_path,
        env__code_execution__stages=stages,
        env__code_execution__hidden_rate=0.0,
    )
    env = entering.read_env(folder, Entry(num_ticks=9, budget=2)).code_execution
    assert env.unrewarded_stages == ("tests",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env__name": "tool_workflow"}, "env.name='tool_workflow' must be 'code_exec"),
        (
            {"env__code_execution__stages": ("hypothesis", "algorithm", "code")},
            r"env.code_execution.stages=.* must be of hypothesis, code, tests, debug",
        ),
    ],
)
def test_a_run_that_cannot_compete_is_refused(tmp_path, changes, message):
    folder, _ = entered(tmp_path, **changes)
    with pytest.raises(ValueError, match=message):
        entering.read_env(folder, Entry(num_ticks=9, budget=2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 0}, "budget=0 must be at least 1"),
        ({"num_ticks": 0}, "ticks=0 must be at least 1"),
        ({"learning_rate": -1.0}, r"learning_rate=-1.0 must be in \[0, 1\]"),
        ({"learning_rate": float("nan")}, "learning_rate=nan must be"),
    ],
)
def test_what_a_contest_asks_is_checked_first(options, message):
    with pytest.raises(ValueError, match=message):
        Entry(**{"num_ticks": 9, "budget": 2} | options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "by_dificulty"}, "did you mean 'by_difficulty'"),
        ({"limit": 0}, r"limit=0 must be in 1 .. 64"),
        ({"per_group": 7}, r"per_group=7 must be in 1 .. limit=6"),
    ],
)
def test_what_a_desk_cannot_do_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        desk.DeskSettings(**options)


@pytest.mark.parametrize(
    ("changes", "budget", "message"),
    [
        ({}, 3, r"budget=3 must be a multiple of 2, the group of"),
        (
            {"env__code_execution__verdict_latency__minimum": 1},
            2,
            r"verdict_latency.minimum=1 must be above 1, the slowest stage",
        ),
        (
            {"rollout__verdict_deadline": 2},
            2,
            r"rollout.verdict_deadline=2 must be at least 3",
        ),
    ],
)
def test_a_budget_and_a_judge_that_do_not_fit_are_refused(
    tmp_path, changes, budget, message
):
    folder, _ = entered(tmp_path, **changes)
    entry = Entry(num_ticks=9, budget=budget, compositions=False)
    env = entering.read_env(folder, entry)
    with pytest.raises(ValueError, match=message):
        entering.enter(folder, env, entry, name="x")


def test_a_contestant_is_what_its_checkpoint_knows_on_the_contests_terms(tmp_path):
    folder, config = entered(tmp_path, rollout__num_lanes=8, algorithm__pilot_groups=2)
    experiment = build(config)
    params = experiment.program.policy.init(experiment.init_key)
    state = tick.init(experiment.program, params, experiment.run_key)
    state = dataclasses.replace(
        state, learner=dataclasses.replace(state.learner, step=state.learner.step + 7)
    )
    with Checkpoints(folder / run_folder.CHECKPOINTS) as checkpoints:
        checkpoints.save(8, state, {"config": config.to_json()})
    entry = Entry(num_ticks=9, budget=6)
    env = entering.read_env(folder, entry)
    who = entering.enter(folder, env, entry, name="x")
    assert int(who.state.learner.step) == 7
    for ours, saved in zip(
        jax.tree.leaves(who.state.learner.params), jax.tree.leaves(params), strict=True
    ):
        np.testing.assert_array_equal(ours, saved)
    sizes = who.program.rollout
    # three groups of 2 write in a tick; 4 lanes to a slot, as it was trained
    assert (sizes.decode_slots, sizes.num_lanes, sizes.num_members) == (3, 12, 2)
    assert who.program.pilot_groups == 0
    rates = [float(who.program.schedule(tick)) for tick in (0, 8)]
    assert rates == [0.064 / 16] * 2  # of its width and one layer, from the start
    fixed = dataclasses.replace(entry, learning_rate=0.0)
    still = entering.enter(folder, env, fixed, name="x")
    assert still.program.schedule(3) == 0.0


def draw(environment, **changes):
    options = dict(num_contests=3, num_problems=6, num_compositions=2, num_members=2)
    key = jax.random.key(0)
    return problems.draw(environment, key, **options | changes)


@pytest.fixture(scope="module")
def environment():
    families = ("multiples", "staircase", "power", *sorted(HELD_OUT))
    return CodeExecution(CodeExecutionConfig(families=families))


def test_problems_rise_in_level_and_are_held_out(environment):
    drawn = draw(environment)
    assert drawn.level.shape == (3, 6)
    assert (np.diff(drawn.level, axis=1) >= 0).all()
    table = environment.setting.table
    families = table.family[drawn.state.problem]
    names = [[environment.config.families[f] for f in row] for row in families]
    assert all(sum(name in HELD_OUT for name in row) == 2 for row in names)
    # four functions over the levels 2, 3 and 4: each is there
    assert all({1, 2, 3} == set(row.tolist()) for row in drawn.level)
    known = {0: "train", 1: "validation", 2: "test", 3: "compositions"}
    splits = {known[int(s)] for s in table.split[drawn.state.problem].reshape(-1)}
    assert splits == {"test", "compositions"}
    for tokens in drawn.prompt_tokens:
        assert len(np.unique(tokens, axis=0)) == 6


def test_contests_differ_and_are_drawn_again_alike(environment):
    one, same = draw(environment), draw(environment)
    for ours, theirs in zip(jax.tree.leaves(one), jax.tree.leaves(same), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert len(np.unique(one.state.problem, axis=0)) == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_problems": 0, "num_compositions": 0}, r"problems=0 must be in 1 .. 8"),
        ({"num_problems": 9}, r"problems=9 must be in 1 .. 8"),
        ({"num_compositions": 7}, r"compositions=7 must be in 0 .. problems=6"),
        ({"num_contests": 0}, "contests=0 must be at least 1"),
    ],
)
def test_numbers_of_problems_are_checked(environment, changes, message):
    with pytest.raises(ValueError, match=message):
        draw(environment, **changes)


def test_a_split_that_cannot_give_so_many_says_so():
    few = CodeExecution(CodeExecutionConfig(families=("square",)))
    with pytest.raises(ValueError, match="split is 'compositions', which is empty"):
        draw(few)
    # four parameters, and what else tells statements apart is hidden
    scarce = CodeExecution(
        CodeExecutionConfig(families=("triangle_of_per",), hidden_rate=1.0)
    )
    with pytest.raises(ValueError, match="5 different ones of split 'test' are asked"):
        draw(scarce, num_problems=5, num_compositions=0)


@pytest.mark.slow
def test_a_contest_from_run_to_file_and_the_base_stays_as_it_was(tmp_path):
    folder = tmp_path / "run"
    train.run(smoke.get_config().lock(), folder)

    def checkpoints():
        files = sorted((folder / run_folder.CHECKPOINTS).rglob("*"))
        return {path: path.read_bytes() for path in files if path.is_file()}

    before = checkpoints()
    command = [sys.executable, "-m", "experiments.contest", f"--workdir={folder}"]
    small = ["--contests=2", "--ticks=8", "--budget=2", "--scripted=5", "--problems=6"]

    def contest(*options):
        return subprocess.run(
            [*command, *small, *options], capture_output=True, text=True, check=False
        )

    ended = contest("--adapt")
    assert ended.returncode == 0, ended.stderr
    assert "median rank" in ended.stdout and "run" in ended.stdout
    tree = json.loads((folder / "contest_adapted.json").read_text())
    assert len(tree["contests"]) == 2 and len(tree["records"]) == 1
    assert tree["settings"]["adapt"] is True
    assert checkpoints() == before and before

    other = tmp_path / "none"
    refused = contest(f"--field={other}")
    assert refused.returncode == 1
    assert "field=" in refused.stderr and "the folder of a run" in refused.stderr
