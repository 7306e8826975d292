"""A host environment whose judge takes its time and no processor: it sleeps.

What is measured with it is the clock, not Python's: a stage takes 20 to 60 ms, a
verdict 0.3 to 0.6 s, each drawn from what was written. A member writes one
digit in each of two stages; it is right if it is the one that the problem shows.
"""

import heapq
import itertools
import threading
import time
import zlib

import numpy as np

from agentic_grpo.envs import base, host
from agentic_grpo.layout import EpisodeLayout, StageKind, StageSpec, fully_visible
from agentic_grpo.records import EndReason

PAD, END, DRAFT, FINAL, DIGITS = range(5)
NUM_DIGITS, STAGES = 10, 2
STAGE_SECONDS, VERDICT_SECONDS = (0.02, 0.06), (0.3, 0.6)
SPEC = base.EnvironmentSpec(
    vocabulary_size=DIGITS + NUM_DIGITS,
    pad_token=PAD,
    end_tokens=(END,),
    layout=EpisodeLayout(
        prompt_width=1,
        stages=tuple(
            StageSpec(
                name=name,
                kind=StageKind.ESTIMATE,
                action_width=2,
                observation_width=0,
                max_latency=0,
                marker=marker,
            )
            for name, marker in (("draft", DRAFT), ("final", FINAL))
        ),
        visibility=fully_visible(STAGES),
    ),
    levels=("one",),
    max_verdict_latency=0,
    min_stages=STAGES,
)


class SlowJudge:
    """Implements ``envs.host.HostEnvironment``; see the module.

    Attributes:
      judged: verdicts that were given.
      seconds_waited: for which somebody was blocked in ``poll``.
    """

    def __init__(self, *, pace: float = 1.0):
        """``pace``: all seconds are multiplied by it."""
        self.spec, self._pace = SPEC, pace
        self.problems = host.ProblemTable(
            prompt_tokens=DIGITS + np.arange(NUM_DIGITS, dtype=np.int32)[:, None],
            prompt_mask=np.ones((NUM_DIGITS, 1), bool),
            level=np.zeros(NUM_DIGITS, np.int32),
            of_split={"train": np.arange(NUM_DIGITS)},
        )
        self.num_asked = self.num_known = self.judged = 0
        self.seconds_waited = 0.0
        self._order = itertools.count()
        self._coming: list = []
        self._idle = threading.Event()  # never set: a wait for it is a sleep

    def submit(self, works) -> None:
        """See ``HostEnvironment``."""
        for work in works:
            is_last = len(work.actions) == STAGES
            right = float(work.actions[-1][:1] == (DIGITS + work.problem,))
            ends = EndReason.OUT_OF_STAGES if is_last else EndReason.RUNNING
            seconds = self._draw(work, STAGE_SECONDS)
            self._send(
                seconds,
                host.StageArrival(
                    ticket=work.ticket,
                    end_reason=ends,
                    reward=right,
                    seconds_run=seconds,
                ),
            )
            if is_last:
                seconds = self._draw(work, VERDICT_SECONDS)
                self._send(
                    seconds,
                    host.VerdictArrival(
                        ticket=work.ticket,
                        verdict=right,
                        solved=right == 1.0,
                        seconds_run=seconds,
                    ),
                )

    def poll(self, timeout: float) -> list:
        """See ``HostEnvironment``."""
        if not self._coming:
            return []
        wait = min(self._coming[0][0] - time.monotonic(), timeout)
        if wait > 0:
            self._idle.wait(wait)
            self.seconds_waited += wait
        taken = []
        while self._coming and self._coming[0][0] <= time.monotonic():
            taken.append(heapq.heappop(self._coming)[2])
        self.judged += sum(isinstance(one, host.VerdictArrival) for one in taken)
        return taken

    def spell(self, tokens) -> str:
        """See ``HostEnvironment``."""
        return " ".join(str(token) for token in np.ravel(tokens) if token != PAD)

    def describe_problem(self, problem: int) -> list[str]:
        """See ``HostEnvironment``."""
        return [f"the digit {problem}"]

    def describe_work(self, problem: int, actions) -> list[str]:
        """See ``HostEnvironment``."""
        return [f"{actions} for the digit {problem}"]

    def _draw(self, work, bounds):
        name = f"{work.ticket}{work.problem}{work.actions}{bounds}".encode()
        share = zlib.crc32(name) / 2**32
        return self._pace * (bounds[0] + share * (bounds[1] - bounds[0]))

    def _send(self, seconds, arrival):
        self.num_asked += 1
        due = time.monotonic() + seconds
        heapq.heappush(self._coming, (due, next(self._order), arrival))
