"""Every field is listed as it is typed, with its default and its comment."""

import pathlib
import subprocess
import sys

from experiments.config import command_line, comments, fields
from experiments.configs import default, quickstart


def listed(config, *words):
    return comments.lines(dict(fields.flatten(config)), list(words))


def test_every_field_is_listed_once_and_can_be_typed_again():
    told = listed(default.get_config())
    flags = [line.split("  ")[0].removeprefix("--config.") for line in told]
    assert len(flags) == len(fields.kinds())
    again = command_line.read_config("default", flags)
    assert again.to_json() == default.get_config().to_json()


def test_a_comment_beside_a_field_is_its_comment():
    told = comments.of_fields()
    assert told["rollout.group_size"].startswith("members on one problem")
    assert told["rollout.decode_slots"] == "of them, how many write a stage per tick"
    assert told["algorithm.agentic.immediate_weight"].startswith("0.3 is safer")
    assert told["checkpoint.keep_best"].startswith("and the best by eval/solve_rate")


def test_what_comes_from_the_library_has_its_docstring():
    told = comments.of_fields()
    fidelity = told["env.code_execution.visible_fidelity"]
    assert "hidden" in fidelity or "probability" in fidelity
    assert told["env.tool_workflow.stage_latency.minimum"]
    assert told["algorithm.turn_mix.outcome_weight"]
    silent = [name for name, words in told.items() if not words]
    assert len(silent) < len(told) / 8, silent


def test_what_differs_from_the_default_says_so():
    (line,) = listed(quickstart.get_config(), "model.num_layers")
    usual = default.get_config().model.num_layers
    value = quickstart.get_config().model.num_layers
    assert (f"(default {usual})" in line) == (value != usual)
    changed = command_line.read_config("default", ["seed=3"])
    (line,) = listed(changed, "config.seed")
    assert line.startswith("--config.seed=3  (default 0)")


def test_the_program_lists_what_is_asked_for():
    words = ("--config=smoke", "--config.seed=3", "seed")
    done = subprocess.run(
        [sys.executable, "-m", "experiments.describe", *words],
        cwd=pathlib.Path(default.__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    first, *others = done.stdout.splitlines()
    assert first.startswith("--config.evaluation.seed=1000  # of its problems")
    assert any(line.startswith("--config.seed=3  (default 0)") for line in others)
