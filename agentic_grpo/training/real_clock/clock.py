"""A run on the real clock: in each tick it hears, writes, hands in and learns.

The learner steps while what was written is being judged. Only if no lane can write and
nothing is ready to be served does it wait for the host.
"""

import dataclasses
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.envs.host import HostEnvironment
from agentic_grpo.training.real_clock import exchange
from agentic_grpo.training.real_clock.books import Books, Tally
from agentic_grpo.training.real_clock.journal import Entry, Journal
from agentic_grpo.training.real_clock.pieces import Compiled
from agentic_grpo.training.real_clock.report import Report
from agentic_grpo.training.real_clock.settings import RealClockSettings
from agentic_grpo.training.real_clock.sources import Source
from agentic_grpo.training.tick import Program, TrainState


@dataclasses.dataclass
class RealClock:
    """Some ticks of a run at a time; see the module.

    Attributes:
      program: what the tick is made of.
      pieces: its parts, compiled.
      settings: seconds and bounds.
      host: counts its questions; asked through the source alone.
      source: where news come from.
      books: of this run, as its journal leaves them.
      journal: of this run.
      tick: the next one.
    """

    program: Program
    pieces: Compiled
    settings: RealClockSettings
    host: HostEnvironment
    source: Source
    books: Books
    journal: Journal
    tick: int

    def __post_init__(self):
        self._outlook = None

    def dispatch(self, state: TrainState, *, num_ticks: int):
        """Runs ``num_ticks`` ticks; the state is donated.

        Returns:
          (state, metrics with a leading axis [num_ticks], ``refusals.Refused``), as
          ``tick.run_ticks``.

        Raises:
          JournalError: a journal is played again that is not of this run.
        """
        kept = self.pieces.nothing_refused(state)
        if self._outlook is None:
            self._outlook = self.pieces.look_ahead(state)
        report, per_tick = Report(self.host), []
        for _ in range(num_ticks):
            state, metrics, kept = self._step(state, kept, report)
            per_tick.append(metrics)
        metrics = jax.tree.map(lambda *ticks: jnp.stack(ticks), *per_tick)
        return state, metrics | report.stacked(), kept

    def _step(self, state, kept, report):
        arrived, waited = self._gather()
        report.note_arrivals(arrived)
        stages = self.source.due_stages()
        closed = [self.books.close_stage(key, now=self.source.now) for key in stages]
        verdicts = self.source.due_verdicts()
        judged = {key: self.books.close_verdicts(key) for key in verdicts}
        news = exchange.news_of(self.program, closed, judged)
        state, heard = self.pieces.hear(state, self.pieces.place(news))
        may_write = self._may_write()
        state, written, asked = self.pieces.write(
            state, self.pieces.place(np.bool_(may_write))
        )
        groups = exchange.groups_of(
            jax.device_get(asked),
            tick=self.tick,
            num_lanes=self.program.rollout.num_lanes,
        )
        works = self.books.open(groups, now=self.source.now)
        self.source.ask(self.tick, groups, works)
        in_flight = self.books.in_flight
        state, learnt, kept, self._outlook = self.pieces.learn(state, kept)
        # while the device learns
        self.journal.append(
            Entry(
                tick=self.tick,
                arrived=arrived,
                stages=stages,
                verdicts=verdicts,
                asked=groups,
            )
        )
        report.note_tick(
            self.books.tally,
            waited=waited,
            held_back=not may_write,
            in_flight=in_flight,
            lags=self._lags(closed, judged),
        )
        self.books.tally = Tally()
        self.tick += 1
        return state, heard | written | learnt, kept

    def _gather(self):
        outlook = jax.device_get(self._outlook)
        can_write = bool(outlook.can_write) and self._may_write()
        idle = not (can_write or outlook.can_learn)
        return self.source.arrivals(self.tick, may_wait=idle)

    def _may_write(self):
        most = self.most_works(self.program)
        return self.books.in_flight + most <= self.settings.queue

    def _lags(self, closed, judged):
        """Seconds of each group, from handing in what it wrote last."""
        groups = (
            [one.tasks.values() for one in closed],
            [tasks.values() for tasks in judged.values()],
        )
        return tuple(
            [
                self.source.now - max(task.handed_in for task in tasks)
                for tasks in of_kind
                if tasks
            ]
            for of_kind in groups
        )

    @staticmethod
    def most_works(program: Program) -> int:
        """Members that can write in one tick."""
        settings = program.rollout
        return program.num_blocks * settings.decode_slots * settings.num_members


def go_on(
    path: pathlib.Path, settings: RealClockSettings, *, tick: int
) -> tuple[Books, Journal]:
    """The books of a run at the beginning of a tick, as its journal leaves them.

    Args:
      path: of the journal, in a folder that exists; made if the run begins.
      settings: of the clock.
      tick: of the checkpoint; 0 if the run begins.

    Raises:
      JournalError: it ends before this tick, or cannot be read.
    """
    books, journal = Books(settings), Journal(path)
    for entry in journal.go_on_from(tick):
        books.enter(entry.arrived, now=0.0, final=True)
        for key in entry.stages:
            books.close_stage(key, now=0.0)
        for key in entry.verdicts:
            books.close_verdicts(key)
        books.open(entry.asked, now=0.0)
    books.tally = Tally()
    return books, journal
