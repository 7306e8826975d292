"""A host environment for tests of the real clock, and a run on it at toy size.

Stages ``draft`` and ``final``, both estimates. What a member gets is a function of what
it wrote: the reward of a stage is (sum of its tokens) mod 3 / 2; a draft whose sum is
divisible by 5 ends the member as SUBMITTED. The verdict is 1 where the last sum is
even. When an answer comes, or whether it does, a *script* says; time passes while it is
waited for, and when the test says so.
"""

import dataclasses
import functools
import heapq
import itertools
from collections.abc import Callable

import jax
import numpy as np
import toy_program

from agentic_grpo.envs import base, host, simulated_clock
from agentic_grpo.envs.host import StageArrival, VerdictArrival
from agentic_grpo.envs.latency import Latency
from agentic_grpo.layout import EpisodeLayout, StageKind, StageSpec, fully_visible
from agentic_grpo.models.policy import decoder_policy
from agentic_grpo.models.transformer import Transformer, TransformerConfig
from agentic_grpo.ops import credit
from agentic_grpo.records import EndReason
from agentic_grpo.training import devices, tick
from agentic_grpo.training.real_clock import clock, exchange, pieces, sources
from agentic_grpo.training.real_clock.journal import FILE_NAME, read
from agentic_grpo.training.real_clock.settings import RealClockSettings

PAD, END, DRAFT, FINAL, DIGITS = range(5)
VOCABULARY_SIZE = DIGITS + 4
PROBLEMS = 3
STAGES, MEMBERS = 2, 4
LAYOUT = EpisodeLayout(
    prompt_width=1,
    stages=tuple(
        StageSpec(
            name=name,
            kind=StageKind.ESTIMATE,
            action_width=2,
            observation_width=width,
            max_latency=0,
            marker=marker,
        )
        for name, marker, width in (("draft", DRAFT, 1), ("final", FINAL, 0))
    ),
    visibility=fully_visible(STAGES),
)
SPEC = base.EnvironmentSpec(
    vocabulary_size=VOCABULARY_SIZE,
    pad_token=PAD,
    end_tokens=(END,),
    layout=LAYOUT,
    levels=("one",),
    max_verdict_latency=0,
)


def usual(work, kind):
    """Seconds until an answer: stages take 1, verdicts 3."""
    del work
    return 1.0 if kind is StageArrival else 3.0


class ToyHost:
    """See the module.

    Attributes:
      now: seconds.
      submitted: tickets of all works, in their order.
      script: (work, StageArrival or VerdictArrival) -> seconds until that answer; None:
        never; or an arrival, which comes after a second instead.
    """

    def __init__(self, script: Callable = usual):
        self.spec, self.now, self.script = SPEC, 0.0, script
        self.problems = host.ProblemTable(
            prompt_tokens=np.arange(DIGITS, DIGITS + PROBLEMS, dtype=np.int32)[:, None],
            prompt_mask=np.ones((PROBLEMS, 1), bool),
            level=np.zeros(PROBLEMS, np.int32),
            of_split={"train": np.arange(PROBLEMS)},
        )
        self.submitted, self.num_asked, self.num_known = [], 0, 0
        self._coming, self._order = [], itertools.count()

    def submit(self, works):
        for work in works:
            self.submitted.append(work.ticket)
            for arrival in answers_to(work):
                self.num_asked += 1
                wait = self.script(work, type(arrival))
                if not isinstance(wait, float | None):
                    arrival, wait = wait, 1.0
                if wait is not None:
                    due = self.now + wait, next(self._order), arrival
                    heapq.heappush(self._coming, due)

    def poll(self, timeout):
        if self._coming and self._coming[0][0] <= self.now + timeout:
            self.now = max(self.now, self._coming[0][0])
        else:
            self.now += timeout
        taken = []
        while self._coming and self._coming[0][0] <= self.now:
            taken.append(heapq.heappop(self._coming)[2])
        return taken

    def sleep(self, seconds):
        self.now += seconds


def answers_to(work):
    """What the judge says, whenever it comes."""
    total = sum(work.actions[-1])
    ends = EndReason.RUNNING
    if len(work.actions) == STAGES:
        ends = EndReason.OUT_OF_STAGES
    elif total % 5 == 0:
        ends = EndReason.SUBMITTED
    observation = (DIGITS + total % 4,) if ends == EndReason.RUNNING else ()
    yield StageArrival(
        ticket=work.ticket,
        end_reason=ends,
        reward=total % 3 / 2,
        observation=observation,
        state_id=total % 3,
    )
    if ends != EndReason.RUNNING:
        even = total % 2 == 0
        yield VerdictArrival(ticket=work.ticket, verdict=float(even), solved=even)


@functools.cache
def policy():
    model = Transformer(
        TransformerConfig(
            vocabulary_size=VOCABULARY_SIZE,
            num_layers=1,
            hidden_size=16,
            num_heads=2,
            num_kv_heads=1,
            head_size=8,
            mlp_size=32,
        )
    )
    return decoder_policy(model, LAYOUT, end_tokens=(END,), pad_token=PAD)


@functools.cache
def initial_params():
    return jax.jit(policy().init)(jax.random.key(0))


def program(toy: ToyHost, rule=credit.agentic, *, verdict_latency=3) -> tick.Program:
    """Two blocks of four lanes, two of which write per tick."""
    environment = simulated_clock.on_simulated_clock(
        toy,
        stage_latencies=[Latency(minimum=1)] * STAGES,
        verdict_latency=Latency(minimum=verdict_latency),
    )
    return toy_program.program(
        rule(LAYOUT.kinds),
        environment=environment,
        policy=policy(),
        num_rows=16,
        update_slots=6,
    )


def initial_state(built: tick.Program) -> tick.TrainState:
    layout = devices.make_layout(num_blocks=built.num_blocks)
    return devices.first_state(layout, built, initial_params(), jax.random.key(1))


@functools.cache
def compiled() -> pieces.Compiled:
    """The parts know no host: one compilation serves every test."""
    built = program(ToyHost())
    layout = devices.make_layout(num_blocks=built.num_blocks)
    return pieces.compile_pieces(
        layout, built, initial_state(built), exchange.no_news(built)
    )


def run_on(
    toy: ToyHost,
    folder,
    *,
    settings: RealClockSettings | None = None,
    built: tick.Program | None = None,
    parts: pieces.Compiled | None = None,
    first: int = 0,
    stop: Callable[[], bool] = lambda: False,
) -> clock.RealClock:
    """A clock in a folder, whose run begins or goes on at the tick ``first``."""
    settings = settings or RealClockSettings(stage_seconds=20.0, verdict_seconds=50.0)
    books, journal = clock.go_on(folder / FILE_NAME, settings, tick=first)
    source = sources.Host(
        toy, SPEC, books, stop=stop, now=lambda: toy.now, sleep=toy.sleep
    )
    source.submit(books.unanswered(now=toy.now))
    return clock.RealClock(
        program=built or program(toy),
        pieces=parts or compiled(),
        settings=settings,
        host=toy,
        source=source,
        books=books,
        journal=journal,
        tick=first,
    )


def replay_of(path, folder, *, settings=None) -> clock.RealClock:
    """A clock that plays a journal again, and writes its own in a folder."""
    toy = ToyHost()
    again = run_on(toy, folder, settings=settings)
    return dataclasses.replace(
        again, source=sources.Replayed(read(path), again.books), journal=again.journal
    )


def numbers(state):
    """The leaves as NumPy arrays."""

    def number(leaf):
        is_key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    return jax.tree.map(number, state)


def copy(state):
    """One that may be donated while the other stays."""
    return jax.tree.map(lambda leaf: leaf.copy(), state)
