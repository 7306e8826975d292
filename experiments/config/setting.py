"""What an environment of a config comes with."""

import contextlib
import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """An environment, and what belongs to it.

    Attributes:
      environment: an ``envs.base.Environment``.
      agent: its scripted agent, of the warm start; None: there is none.
      at_work: () -> a context manager; within it the environment can be asked. It may
        refuse with a ValueError what can only be found out by trying.
      digest: () -> a name for what it read from files, by the contents.
      makers: functions from outside the repository that made it.
    """

    environment: Any
    agent: Any
    at_work: Callable[[], AbstractContextManager] = contextlib.nullcontext
    digest: Callable[[], str] = lambda: ""
    makers: tuple[Callable, ...] = ()
