"""Whole runs on the real clock, programs in a real sandbox; what is refused before."""

import jax
import numpy as np
import pytest

from agentic_grpo.training import leaves, metrics
from agentic_grpo.training.checkpoints import Checkpoints
from agentic_grpo.training.real_clock.journal import FILE_NAME, JournalError, read
from agentic_grpo.training.real_clock.report import MEANINGS
from experiments import train
from experiments.config import build, fields
from experiments.configs import smoke
from experiments.runs import vmapped_seeds

TASKS = "env.python_tasks"
REAL = {
    "env.name": "python_tasks",
    f"{TASKS}.families": ("add",),
    f"{TASKS}.program_width": 8,
    f"{TASKS}.feedback_width": 8,
    f"{TASKS}.workers": 1,
    "warm_start.num_steps": 0,
    "model.hidden_size": 16,
    "model.num_layers": 1,
    "num_ticks": 4,
    "ticks_per_dispatch": 2,
    "rollout.clock": "real",
    "rollout.num_lanes": 4,
    "rollout.decode_slots": 2,
    "rollout.group_size": 2,
    "learner.learning_rate": 1e-3,
    "learner.warmup_ticks": 1,
    "evaluation.every": 2,
    "evaluation.num_problems": 2,
    "evaluation.test_problems": 2,
    "evaluation.batch_size": 2,
    "checkpoint.every": 2,
}


def config(**changes):
    return fields.change(smoke.get_config(), {**REAL, **changes})


def last_state(folder, tick):
    shapes = build.state_shapes(build.build(config()))
    with Checkpoints(folder / "checkpoints") as checkpoints:
        state, _ = checkpoints.restore(shapes, tick)
    return jax.tree.map(leaves.to_array, leaves.named(state))


@pytest.mark.slow
def test_a_run_goes_on_and_is_played_again_to_the_last_bit(tmp_path):
    folder = tmp_path / "run"
    assert train.run(config(num_ticks=2), folder)["ticks"] == 2
    first = (folder / FILE_NAME).read_text()
    assert train.run(config(), folder)["ticks"] == 4
    assert (folder / FILE_NAME).read_text().startswith(first)
    lines = metrics.read(folder)
    assert [line["tick"] for line in lines] == [0, 2, 4]
    assert set(MEANINGS) <= set(lines[-1]) and lines[-1]["clock/in_flight"] > 0
    assert sum(line.get("clock/faults", 0) for line in lines) == 0
    entries = list(read(folder / FILE_NAME))
    assert [entry.tick for entry in entries] == [0, 1, 2, 3]
    assert sum(len(entry.arrived) for entry in entries) > 0

    again = tmp_path / "again"
    replay = {"rollout.real_clock.replay": str(folder / FILE_NAME)}
    train.run(config(**replay), again)
    assert (again / FILE_NAME).read_bytes() == (folder / FILE_NAME).read_bytes()
    one, other = last_state(folder, 4), last_state(again, 4)
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)

    (folder / FILE_NAME).unlink()
    with pytest.raises(JournalError, match="ends before tick 0, and the checkpoint is"):
        train.run(config(num_ticks=6), folder)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"rollout.clock": "wall"},
            "rollout.clock='wall' must be one of simulated, re",
        ),
        (
            {"env.name": "code_execution"},
            "rollout.clock='real' must be 'simulated' with",
        ),
        ({"profile": True}, "profile=True must be False with rollout.clock='real'"),
        (
            {"rollout.real_clock.stage_seconds": 0.0},
            "stage_seconds=0.0 must be above 0",
        ),
        (
            {"rollout.real_clock.verdict_seconds": -1.0},
            "verdict_seconds=-1.0 must be a",
        ),
        ({"rollout.real_clock.retries": -1}, "retries=-1 must be at least 0"),
        ({"rollout.real_clock.queue": 3}, "real_clock.queue=3 must be at least 4, the"),
        (
            {"rollout.real_clock.queue": 2000},
            "real_clock.queue=2000 must be at most 10",
        ),
        (
            {"rollout.real_clock.replay": "no.jsonl"},
            "replay='no.jsonl' must be the jou",
        ),
    ],
)
def test_a_clock_that_makes_no_sense_is_refused(changes, words):
    with pytest.raises(ValueError) as caught:
        build.build(config(**changes))
    assert words in str(caught.value)


def test_seeds_in_one_program_and_ones_own_journal_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"rollout.clock='real' must be 'simulated'"):
        vmapped_seeds.run([tmp_path / "a"], [config()])
    path = tmp_path / FILE_NAME
    path.touch()
    with pytest.raises(ValueError, match="the journal of another workdir"):
        train.run(config(**{"rollout.real_clock.replay": str(path)}), tmp_path)
