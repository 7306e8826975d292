import ast
import collections
import pathlib
import subprocess
import sys

import pytest

import experiments

MAINS = sorted(pathlib.Path(experiments.__file__).parent.glob("*.py"))

#: A main that does what its first word says.
PROGRAM = '''"""A program."""

import sys

from agentic_grpo.training.checkpoint_errors import CheckpointError
from experiments import front

WORKDIR = front.define_workdir()
ERRORS = {error.__name__: error for error in (ValueError, CheckpointError, OSError)}
ERRORS |= {error.__name__: error for error in (KeyError, KeyboardInterrupt)}


def main(words):
    if words[0] in ERRORS:
        raise ERRORS[words[0]]("\\x1b[2Jno")
    print(WORKDIR.value, words)
    return words[0] == "undone"


if __name__ == "__main__":
    front.run(
        main,
        takes_fields="--workdir=fields" in sys.argv,
        refusals=[OSError],
        goes_on="--workdir=on" in sys.argv,
    )
'''


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("front") / "program.py"
    path.write_text(PROGRAM)

    def run(*words):
        root = pathlib.Path(experiments.__file__).parents[1]
        return subprocess.run(
            [sys.executable, str(path), *words],
            env={"PYTHONPATH": str(root), "JAX_PLATFORMS": "cpu"},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize("error", ["ValueError", "CheckpointError", "OSError"])
def test_a_refusal_is_one_line_that_steers_no_terminal(program, error):
    done = program("--workdir=x", error)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: \\x1b[2Jno\n"


def test_any_other_error_keeps_its_traceback(program):
    done = program("--workdir=x", "KeyError")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


@pytest.mark.parametrize(("word", "status"), [("undone", 1), ("done", 0)])
def test_a_main_gets_words_and_flags_of_fields_and_returns_the_status(
    program, word, status
):
    done = program("--config.seed=1", word, "--workdir=fields")
    assert done.returncode == status
    assert done.stdout == f"fields {[word, '--config.seed=1']}\n"


def test_flags_of_fields_are_unknown_to_a_main_that_takes_none(program):
    done = program("--config.seed=1", "done", "--workdir=x")
    assert done.returncode == 1
    assert "Unknown command line flag 'config.seed'" in done.stderr


def test_a_program_that_goes_on_says_so_when_it_is_stopped(program):
    done = program("--workdir=on", "KeyboardInterrupt")
    assert done.returncode == 130
    assert done.stderr == "stopped, all saved; the same command goes on\n"
    assert "Traceback" in program("--workdir=x", "KeyboardInterrupt").stderr


def test_help_lists_shared_flags_as_the_mains_own(program):
    assert "  --workdir: The run's folder.\n" in program("--help").stdout


def test_a_flag_of_several_mains_is_defined_once():
    found = collections.Counter(
        ast.unparse(node)
        for path in MAINS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and "DEFINE_" in ast.unparse(node.func)
    )
    assert len(found) > 30
    assert not [call for call, times in found.items() if times > 1]


def test_every_main_is_run_by_the_front():
    for path in MAINS:
        text = path.read_text(encoding="utf-8")
        if path.stem not in ("front", "door") and "__main__" in text:
            assert "\n    front.run(main" in text, path.stem
            assert "app.run" not in text, path.stem
