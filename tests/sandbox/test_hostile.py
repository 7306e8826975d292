"""The hostile programs, one by one, and the damage they did."""

import os
import subprocess
import sys

import pytest

from agentic_grpo.sandbox import hostile
from agentic_grpo.sandbox.jobs import Ending
from agentic_grpo.sandbox.pool import Pool

NAMES = [attack.name for attack in hostile.ATTACKS]


@pytest.fixture(scope="module")
def suite():
    """Attempts by name, and the damage; of a pool whose workers saw nothing else."""
    os.environ["SANDBOX_CANARY"] = "in the environment of the host"
    try:
        with Pool(2) as pool:
            attempts, damages = hostile.run(pool)
    finally:
        del os.environ["SANDBOX_CANARY"]
    return {attempt.attack.name: attempt for attempt in attempts}, damages


def test_there_are_many_and_each_has_its_name():
    assert len(NAMES) == len(set(NAMES)) >= 43


@pytest.mark.parametrize("name", NAMES)
def test_the_attack_does_not_get_through(suite, name):
    attempt = suite[0][name]
    assert not attempt.passed, attempt
    assert not attempt.escaped, attempt
    assert not attempt.outlived, attempt
    assert attempt.result.ending in attempt.attack.endings, attempt.result
    assert attempt.result.ending is not Ending.OUR_FAULT


def test_nothing_was_damaged_or_left(suite):
    assert suite[1] == []


def test_right_answers_would_be_seen_as_right():
    # The same way as an attack goes, so that "passed" is a thing that can happen.
    square = hostile.Attack("squares", (Ending.ANSWERED,), "def solve(x): return x * x")
    by_checker = hostile.Attack("squares", square.endings, square.program, True)
    with hostile.Host() as host, Pool(1) as pool:
        for attack in (square, by_checker):
            (result,) = pool.run([hostile.job_of(attack, host, [0, 1])])
            assert hostile.attempt_of(attack, result, [0, 1]).passed
            (result,) = pool.run([hostile.job_of(attack, host, [1, 1])])
            attempt = hostile.attempt_of(attack, result, [5, 5])
            assert attempt.passed is False


WITHOUT_WALLS = [
    "deletes a file",
    "deletes by the shell",
    "deletes by posix_spawn",
    "becomes a shell",
    "renames a file",
    "truncates a file",
    "writes a file",
    "writes a file by libc",
    "makes a folder",
    "makes a symlink",
    "changes permissions",
    "reads a file",
    "reads the environment",
    "connects by socket",
    "connects by libc",
]


@pytest.mark.parametrize("name", WITHOUT_WALLS)
def test_without_walls_the_same_program_does_its_harm(name):
    # Only those that harm nothing but what the suite has prepared for them.
    (attack,) = [attack for attack in hostile.ATTACKS if attack.name == name]
    text = "import sys; exec(sys.argv[1]); print(solve(1))"
    with hostile.Host() as host:
        done = subprocess.run(
            [sys.executable, "-I", "-c", text, host.fill_in(attack.program)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "SANDBOX_CANARY": "x"},
        )
        assert host.damages() or "ESCAPED" in done.stdout, done
