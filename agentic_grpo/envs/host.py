"""Environments that work on the host and take their time: real programs, real judges.

A ``HostEnvironment`` is asked and answers later; it holds no episode. What a member has
written so far is all that an answer depends on, so work can be handed in again after a
restart. ``simulated_clock.on_simulated_clock`` makes an ``base.Environment`` of it.
"""

import dataclasses
import time
from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

import numpy as np
from absl import logging

from agentic_grpo.envs import base
from agentic_grpo.errors import require, require_choice
from agentic_grpo.records import EndReason


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ProblemTable:
    """All problems of a host environment, by number; NumPy arrays.

    Attributes:
      prompt_tokens: int32 [K, prompt_width].
      prompt_mask: bool [K, prompt_width]; real tokens, a prefix of the columns.
      level: int32 [K].
      of_split: split -> int32 [J]; the numbers of its problems.
    """

    prompt_tokens: np.ndarray
    prompt_mask: np.ndarray
    level: np.ndarray
    of_split: Mapping[str, np.ndarray]

    def numbers(self, split: str) -> np.ndarray:
        """int32 [J]: the problems of a split.

        Raises:
          Refused: it is unknown or empty.
        """
        require_choice("split", split, self.of_split)
        counts = {name: len(numbers) for name, numbers in self.of_split.items()}
        rule = f"a split that has problems; there are {counts}"
        require(counts[split] > 0, "split", split, rule)
        return self.of_split[split]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Work:
    """A stage that a member has written and that waits for its answer.

    Attributes:
      ticket: comes back with the answers.
      problem: its number.
      actions: what the member wrote in each stage so far, this one last: token ids,
        any whatever, the end token included.
    """

    ticket: Hashable
    problem: int
    actions: tuple[tuple[int, ...], ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class StageArrival:
    """The answer to a stage; after one that ends the member a verdict follows.

    Attributes:
      ticket: of the work.
      end_reason: RUNNING while the member goes on. FAULT: *we* failed; no verdict
        follows, and nothing else here means anything.
      reward: in [0, 1]; None if the stage has none.
      observation: token ids that the member reads next; at most as many as the stage's
        ``observation_width``.
      state_id: equal ids within a group mean equal states.
      seconds_queued, seconds_run: of what was executed for it; 0 if nothing was.
    """

    ticket: Hashable
    end_reason: EndReason
    reward: float | None = None
    observation: tuple[int, ...] = ()
    state_id: int = 0
    seconds_queued: float = 0.0
    seconds_run: float = 0.0

    @property
    def is_judged(self) -> bool:
        """A verdict follows."""
        return self.end_reason not in (EndReason.RUNNING, EndReason.FAULT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class VerdictArrival:
    """The hidden judge's answer; may come before that of the stage.

    Attributes:
      ticket: of the member's last work.
      is_fault: *we* failed; the member leaves its group.
      verdict: in [0, 1].
      solved: the judge is fully satisfied.
      seconds_queued, seconds_run: as of a StageArrival.
    """

    ticket: Hashable
    is_fault: bool = False
    verdict: float = 0.0
    solved: bool = False
    seconds_queued: float = 0.0
    seconds_run: float = 0.0


class HostEnvironment(Protocol):
    """Answers later. Used by one thread at a time.

    Attributes:
      spec: what the rest of the house must know; latencies in it are 0, since the clock
        is another's.
      problems: what can be asked.
      num_asked: questions that work has led to so far.
      num_known: of them, those whose answer was known or on its way already.
    """

    num_asked: int
    num_known: int
    spec: base.EnvironmentSpec
    problems: ProblemTable

    def submit(self, works: Sequence[Work]) -> None:
        """Hands in work and returns at once; never raises for what was written."""
        ...

    def poll(self, timeout: float) -> list[StageArrival | VerdictArrival]:
        """What has arrived; waits for the first of it, at most ``timeout`` seconds.

        Returns at once, with nothing, if nothing is to come.
        """
        ...

    def spell(self, tokens) -> str:
        """Token ids as a person would read them; padding left out."""
        ...

    def describe_problem(self, problem: int) -> list[str]:
        """What the agents are not told of a problem; one line each."""
        ...

    def describe_work(self, problem: int, actions) -> list[str]:
        """What was executed for the last of the ``actions`` of a ``Work``."""
        ...


def wait_for_all(
    environment: HostEnvironment, works: Sequence[Work], *, patience: float
) -> dict[Hashable, tuple[StageArrival, VerdictArrival | None]]:
    """Submits work and waits for the answer to each, with the verdict if one follows.

    Args:
      environment: asked by nobody else meanwhile.
      works: tickets that were never used before; answers to others are dropped.
      patience: seconds after which what is missing is given up.

    Returns:
      Of each ticket, unless its stage or verdict is missing or our fault.
    """
    stages: dict[Hashable, StageArrival] = {}
    verdicts: dict[Hashable, VerdictArrival] = {}
    awaited: set[tuple[Hashable, type]] = {
        (work.ticket, StageArrival) for work in works
    }
    if works:
        environment.submit(works)
    deadline = time.monotonic() + patience
    ours = {work.ticket for work in works}
    while awaited:
        arrived = environment.poll(max(0.0, deadline - time.monotonic()))
        if not arrived:
            message = "%d answers did not come within %.0f s, and count as our fault"
            logging.error(message, len(awaited), patience)
            break
        for arrival in arrived:
            if arrival.ticket not in ours:
                continue
            awaited.discard((arrival.ticket, type(arrival)))
            if isinstance(arrival, VerdictArrival):
                verdicts[arrival.ticket] = arrival
                continue
            stages[arrival.ticket] = arrival
            if arrival.is_judged and arrival.ticket not in verdicts:
                awaited.add((arrival.ticket, VerdictArrival))
    complete = {}
    for ticket, stage in stages.items():
        verdict = verdicts.get(ticket) if stage.is_judged else None
        missing = stage.is_judged and (verdict is None or verdict.is_fault)
        if stage.end_reason != EndReason.FAULT and not missing:
            complete[ticket] = stage, verdict
    return complete
