"""An environment and a model from outside the repository, named by a flag."""

import pathlib
import sys

import jax
import pytest
import somebody_elses

from agentic_grpo.training import run_folder
from experiments import train
from experiments.config import build, fields
from experiments.configs import default, smoke
from experiments.runs import base_model
from experiments.sweeps import launch, planning

#: As a reader writes it, beside nothing of ours.
MINE = pathlib.Path(somebody_elses.__file__).read_text(encoding="utf-8")
NAMES = {"env.name": "my_env:make", "learner.learning_rate": 1e-3}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The file of somebody's environment, to be imported."""
    path = tmp_path / "mine" / "my_env.py"
    path.parent.mkdir()
    path.write_text(MINE)
    monkeypatch.syspath_prepend(path.parent)
    yield path
    sys.modules.pop("my_env", None)


def config(**changes):
    return fields.change(smoke.get_config(), NAMES | changes)


def with_both(**changes):
    start = smoke.get_config()
    usual = {
        f"model.{name}": value
        for name, value in default.get_config().model.items()
        if name != "name"
    }
    return fields.change(
        start, usual | NAMES | {"model.name": "my_env:model"} | changes
    )


def test_a_run_of_both_leaves_what_a_run_leaves(mine, tmp_path):
    given = with_both(
        **{"warm_start.num_steps": 0, "model.options": (("hidden_size", 4),)}
    )
    summary = train.run(given, tmp_path / "run")
    assert summary["ticks"] == 8
    saved = run_folder.saved_settings(tmp_path / "run")
    assert saved["env"]["name"] == "my_env:make"
    assert train.run(given, tmp_path / "run") == summary


def test_options_are_the_arguments(mine):
    built = build.build(
        config(**{"env.options": (("verdict_latency", 9),), "warm_start.num_steps": 0})
    )
    assert built.program.environment.spec.max_verdict_latency == 9
    sized = build.build(
        with_both(**{"model.options": (("hidden_size", 4),), "warm_start.num_steps": 0})
    )
    leaves = jax.tree.leaves(build.state_shapes(sized).learner.params)
    assert {4} <= {size for leaf in leaves for size in leaf.shape}


def test_a_scripted_agent_may_come_with_it(mine):
    given = config(**{"env.name": "my_env:make_with_agent", "warm_start.num_steps": 2})
    assert build.build(given).agent is not None
    none = config(**{"warm_start.num_steps": None})
    assert build.build(none).warm_start.num_steps == 0  # nobody to imitate


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"env.name": "my_enw:make"}, r"env.name=.*must be module:function.*my_enw"),
        ({"env.name": "my_env:mak"}, r"env.name=.*must be module:function.*mak"),
        ({"env.name": "my_env:nothing"}, r"env.name=.*must be a function; it is a int"),
        ({"env.name": "my_env:model"}, r"my_env:model.*is refused: .*spec"),
        ({"env.options": (("latency", 1),)}, r"env.options=.*is refused: .*latency"),
        ({"warm_start.num_steps": 2}, r"warm_start.num_steps=2 must be 0, or none"),
        ({"model.name": "my_env:make"}, r"left out with model.name='my_env:make'"),
        ({"model.options": (("a", 1),)}, r"model.options=.* must be \(\)"),
    ],
)
def test_what_is_wrong_is_said_under_its_field(mine, changes, match):
    with pytest.raises(ValueError, match=match):
        build.build(config(**{"warm_start.num_steps": 0} | changes))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        (
            {"learner.packed_rows": 2},
            r"learner.packed_rows=2 must be 0 with model.name",
        ),
        ({"learner.learning_rate": 0.0}, r"learning_rate=0.0 must be given: the rate"),
        ({"model.name": "my_env:make"}, r"returned a ToyEnvironment|is refused"),
    ],
)
def test_what_is_the_decoders_is_refused_with_another_model(mine, changes, match):
    with pytest.raises(ValueError, match=match):
        build.build(with_both(**{"warm_start.num_steps": 0} | changes))


def test_the_base_model_knows_its_source(mine):
    given = with_both(
        **{"env.name": "my_env:make_with_agent", "warm_start.num_steps": 2}
    )
    experiment = build.build(given)
    before = base_model.key(experiment, given)
    assert base_model.key(experiment, given) == before
    mine.write_text(MINE + "# another\n")
    assert base_model.key(experiment, given) != before


def test_a_sweep_is_planned_and_its_jobs_find_the_module(mine, tmp_path, monkeypatch):
    given = config(**{"warm_start.num_steps": 0})
    points = planning.make_points([{"num_ticks": 8}, {"num_ticks": 4}], [0])
    jobs = planning.make_jobs(given, points, tmp_path / "sweep")
    assert all(job.seconds > 0 for job in jobs)
    monkeypatch.chdir(mine.parent)
    ours, theirs = launch._environment()["PYTHONPATH"].split(":")[:2]
    assert pathlib.Path(ours) == launch.ROOT  # no folder of that name hides it
    assert pathlib.Path(theirs) == mine.parent
