"""The library passes its own tests where only the installed package can be found."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"

#: Tests that use more than the library, by what they import or look for.
USES_THE_REPOSITORY = re.compile(
    r"^(from|import) (experiments|scripts|fake_runs|published_models)|parents\[",
    re.MULTILINE,
)
WHERE = """
import pathlib
import agentic_grpo
home = pathlib.Path(agentic_grpo.__file__).resolve()
assert home.is_relative_to(pathlib.Path("installed").resolve()), home
"""


def library_tests():
    return [
        path.relative_to(ROOT).as_posix()
        for path in sorted(TESTS.rglob("test_*.py"))
        if not USES_THE_REPOSITORY.search(path.read_text(encoding="utf-8"))
    ]


def test_most_tests_are_of_the_library():
    tests = library_tests()
    assert "tests/test_learner.py" in tests and "tests/training/test_tick.py" in tests
    assert "tests/experiments/test_train.py" not in tests
    assert len(tests) > 40


@pytest.mark.slow
def test_the_library_passes_its_tests_when_it_is_installed(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(ROOT / "agentic_grpo", source / "agentic_grpo")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    shutil.copytree(TESTS, tmp_path / "tests")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)

    def run(*arguments):
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path / "installed")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]

    install = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-index")
    run(*install, "--no-build-isolation", "--target=installed", str(source))
    run("-c", WHERE)
    run("-m", "pytest", "-q", "-m", "not slow", *library_tests())
