"""A config from flags: one line for what is mistyped, whoever reads it."""

import re

import pytest

from experiments.config import command_line

SMOKE = "experiments/configs/smoke.py"


def test_flags_of_fields_are_set_aside_and_split_again():
    argv = [
        "train",
        "--config=a.py",
        "--config.seed=1",
        "-sweep.seed=1,2",
        "--workdir=x",
    ]
    aside = command_line.set_aside(argv)
    assert aside == [
        "train",
        "--config=a.py",
        "--workdir=x",
        "--",
        "--config.seed=1",
        "-sweep.seed=1,2",
    ]
    assert command_line.set_aside(argv[:2]) == argv[:2]
    typed = command_line.split(aside[4:], "config", "sweep")
    assert typed == {"config": ["seed=1"], "sweep": ["seed=1,2"]}


@pytest.mark.parametrize("argument", ["seed=1", "--sweep.seed=1", "--configs.seed=1"])
def test_what_is_no_flag_of_the_program_is_named(argument):
    with pytest.raises(ValueError, match=f"{re.escape(argument)}' is no flag"):
        command_line.split([argument], "config")


def test_the_last_value_of_a_field_counts():
    config = command_line.read_config(SMOKE, ["seed=1", "seed=2", "num_ticks=16"])
    assert (config.seed, config.num_ticks, config.is_locked) == (2, 16, True)


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("no/such.py", [], "config='no/such.py' must be a Python file"),
        ("experiments/configs", [], "must be a Python file"),
        ("README.md", [], "must be a Python file"),
        ("experiments/config/checks.py", [], r"must have a function get_config\(\)"),
        (SMOKE, ["learner.learning_rat=1"], "did you mean 'learner.learning_rate'"),
        (SMOKE, ["profile"], "--config.profile needs a value.*true or false"),
        (SMOKE, ["learner=1"], "'learner' is a group of fields"),
    ],
)
def test_what_cannot_be_read_is_told(file, changes, message):
    with pytest.raises(ValueError, match=message):
        command_line.read_config(file, changes)


def test_a_config_file_may_take_an_argument(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from experiments.configs import smoke\n"
        "def get_config(seed):\n"
        "    c = smoke.get_config()\n"
        "    c.seed = int(seed)\n"
        "    return c\n"
    )
    assert command_line.read_config(f"{path}:7", ["num_ticks=16"]).seed == 7
