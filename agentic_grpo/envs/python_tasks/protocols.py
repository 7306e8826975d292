"""What the Python tasks need of a tokenizer, of conversations and of a sandbox.

They are given as arguments: the rooms ``texts`` and ``sandbox`` have them, and know
nothing of environments.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol


class Tokenizer(Protocol):
    """As ``texts.Tokenizer``; ``decode`` takes any integers whatever."""

    vocabulary_size: int
    begin_tokens: tuple[int, ...]
    end_tokens: tuple[int, ...]
    special_tokens: Mapping[str, int]

    def encode(self, text: str) -> list[int]: ...

    def decode(self, tokens: Iterable[int]) -> str: ...


class Chat(Protocol):
    """As ``texts.chat.Chat``: turns of a conversation as tokens."""

    marker: int
    turn_end: int
    end_tokens: tuple[int, ...]

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> list[int]: ...

    def observation(
        self, messages: Sequence[Mapping[str, str]], *, is_closed: bool
    ) -> list[int]: ...


class Pool(Protocol):
    """As ``sandbox.pool.Pool``; nobody else polls it."""

    def submit(self, ticket, job) -> None: ...

    def poll(self, timeout: float) -> list[tuple[Any, Any]]: ...

    def run(self, batch: Sequence) -> list[Any]: ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sandbox:
    """Where programs run, and how to ask it.

        Sandbox(pool=Pool(2), calls=jobs.Calls, check=jobs.Check, limits=jobs.Limits,
                judge=judging.judge)

    Attributes:
      pool: runs jobs.
      calls: (program, entry, arguments, limits) -> a job that calls a function.
      check: (program, entry, checker, limits) -> a job of assertions.
      limits: (cpu_seconds, memory_bytes) -> what a job may use.
      judge: (result, expected) -> a judgement with ``kind`` and ``right``, by exact
        type; outside the sandbox.
    """

    pool: Pool
    calls: Callable[..., Any]
    check: Callable[..., Any]
    limits: Callable[..., Any]
    judge: Callable[..., Any]
