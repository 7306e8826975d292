"""One pool for all that only ask it something."""

import pytest

from agentic_grpo.sandbox import jobs
from agentic_grpo.sandbox.pool import Pool


@pytest.fixture(scope="package")
def pool():
    with Pool(2) as started:
        yield started


@pytest.fixture
def call(pool):
    """Runs a program; ``call(program, (1,), (2,), cpu_seconds=0.1)`` -> Result."""

    def run(program, *arguments, entry="f", **limits):
        job = jobs.Calls(
            program=program,
            entry=entry,
            arguments=list(arguments),
            limits=jobs.Limits(**limits),
        )
        return pool.run([job])[0]

    return run


@pytest.fixture
def check(pool):
    """Lets a checker question ``f`` of a program."""

    def run(program, checker, **limits):
        job = jobs.Check(
            program=program, entry="f", checker=checker, limits=jobs.Limits(**limits)
        )
        return pool.run([job])[0]

    return run


@pytest.fixture
def own_pool():
    """A pool that a test may hurt."""
    with Pool(1) as started:
        yield started
