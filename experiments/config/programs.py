"""The sandbox of a run: workers that start when the first program is to be run."""

import contextlib
from collections.abc import Iterator, Sequence

from agentic_grpo.envs.python_tasks import Sandbox
from agentic_grpo.sandbox import jobs, judging
from agentic_grpo.sandbox.pool import Pool


class LazyPool:
    """Has what ``sandbox.pool.Pool`` has; a config is built without any worker."""

    def __init__(self, workers: int):
        self._workers, self._pool = workers, None

    def start(self) -> Pool:
        """Starts the workers, unless they are there.

        Raises:
          ValueError: this machine lacks a wall that must stand; names it.
        """
        if self._pool is None:
            try:
                self._pool = Pool(self._workers)
            except jobs.SandboxUnavailable as error:
                raise ValueError(f"env.name='python_tasks': {error}") from error
        return self._pool

    def submit(self, ticket, job) -> None:
        self.start().submit(ticket, job)

    def poll(self, timeout: float) -> list[tuple]:
        return self.start().poll(timeout)

    def run(self, batch: Sequence) -> list[jobs.Result]:
        return self.start().run(batch)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Within the block the workers are there, and after it they are not.

        Raises:
          ValueError: as ``start``.
        """
        self.start()
        try:
            yield
        finally:
            self._pool.close()
            self._pool = None


def sandbox_of(pool) -> Sandbox:
    """What the environment asks a pool with."""
    return Sandbox(
        pool=pool,
        calls=jobs.Calls,
        check=jobs.Check,
        limits=jobs.Limits,
        judge=judging.judge,
    )
