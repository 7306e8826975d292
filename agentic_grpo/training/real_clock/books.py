"""What was handed in, what came back, and which groups are due; no clock, no host.

A *stage* of a group is due when every member that wrote it has its answer, or at its
deadline; a *verdict* when the group is over and every member that is judged has its
own, or at its deadline. Who is absent then is lost to its group. The books are a
function of what was opened, entered and closed: played again they are the same.
"""

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple, cast

from agentic_grpo.envs.host import StageArrival, VerdictArrival, Work
from agentic_grpo.records import EndReason
from agentic_grpo.training.real_clock.settings import RealClockSettings

Arrival = StageArrival | VerdictArrival


class Ticket(NamedTuple):
    """Names a work; a lane writes once per tick, so no two have one name.

    Attributes:
      tick: in which it was written.
      block, lane, member: who wrote.
      attempt: 0, and one more each time it is handed in again.
    """

    tick: int
    block: int
    lane: int
    member: int
    attempt: int = 0

    @property
    def name(self) -> tuple[int, int, int, int]:
        """The same in every attempt."""
        return self[:4]


def ticket_of(one: Work | Arrival) -> Ticket:
    """Its ticket, which is ours: nothing else is handed in, or let through."""
    return cast(Ticket, one.ticket)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group:
    """What one lane wrote in one tick.

    Attributes:
      block, lane, row: who, and where to.
      is_last: no stage follows.
      works: of the members that wrote, by member.
    """

    block: int
    lane: int
    row: int
    is_last: bool
    works: dict[int, Work]

    @property
    def is_first(self) -> bool:
        """The row has just been given to it."""
        return all(len(work.actions) == 1 for work in self.works.values())


@dataclasses.dataclass
class Task:
    """A work, and what has come of it."""

    work: Work
    handed_in: float
    stage: StageArrival | None = None
    verdict: VerdictArrival | None = None

    @property
    def is_done(self) -> bool:
        """Nothing more is to come."""
        if self.stage is None:
            return False
        return not self.stage.is_judged or self.verdict is not None


@dataclasses.dataclass
class _Stage:
    group: Group
    tasks: dict[int, Task]
    deadline: float


@dataclasses.dataclass
class _Verdicts:
    """Of one row; ``deadline`` is None while its lane still writes."""

    tasks: dict[int, Task] = dataclasses.field(default_factory=dict)
    deadline: float | None = None


@dataclasses.dataclass
class Tally:
    """What happened since it was last taken.

    Attributes:
      late: answers that nobody waits for any more.
      absent: members given up at a deadline.
      faults: answers that say that *we* failed.
      resubmitted: works handed in once more.
    """

    late: int = 0
    absent: int = 0
    faults: int = 0
    resubmitted: int = 0


class Books:
    """See the module.

    Attributes:
      tally: counts; whoever reads them puts a new one in its place.
    """

    def __init__(self, settings: RealClockSettings):
        self._settings = settings
        self._tasks: dict[tuple, Task] = {}
        self._stages: dict[tuple[int, int], _Stage] = {}
        self._verdicts: dict[tuple[int, int], _Verdicts] = {}
        self.tally = Tally()

    @property
    def in_flight(self) -> int:
        """Works that something is still to come for."""
        return len(self._tasks)

    def open(self, groups: Iterable[Group], *, now: float) -> list[Work]:
        """Notes what was written; returns what is to be handed in."""
        works: list[Work] = []
        for group in groups:
            if group.is_first:
                self._forget((group.block, group.row))
            tasks = {m: Task(work, now) for m, work in group.works.items()}
            self._tasks |= {ticket_of(task.work).name: task for task in tasks.values()}
            self._stages[group.block, group.lane] = _Stage(
                group, tasks, now + self._settings.stage_seconds
            )
            works += group.works.values()
        return works

    def enter(
        self, arrivals: Iterable[Arrival], *, now: float, final: bool = False
    ) -> tuple[list[Arrival], list[Work]]:
        """Takes in what has come.

        Args:
          arrivals: in the order in which they came.
          now: seconds.
          final: what we failed was tried often enough, as a journal knows.

        Returns:
          (the arrivals that count, with the ticket of the first attempt; works to be
          handed in again).
        """
        entered, again = [], []
        for arrival in arrivals:
            task = self._tasks.get(ticket_of(arrival).name)
            if task is None:
                self.tally.late += 1
                continue
            is_stage = isinstance(arrival, StageArrival)
            if (task.stage if is_stage else task.verdict) is not None:
                continue  # the same answer to another attempt
            if _is_fault(arrival):
                attempt = ticket_of(task.work).attempt
                if ticket_of(arrival).attempt < attempt:
                    continue  # that is why there was another attempt
                self.tally.faults += 1
                if attempt < self._settings.retries and not final:
                    self.tally.resubmitted += 1
                    again.append(_next_attempt(task, now))
                    continue
            first = ticket_of(arrival)._replace(attempt=0)
            entered.append(dataclasses.replace(arrival, ticket=first))
            self._note(task, arrival)
        return entered, again

    def due(self, *, now: float) -> tuple[list, list]:
        """Keys of the stages (block, lane) and of the verdicts (block, row) to close.

        Verdicts of groups that these stages bring to their end are not among them: ask
        again when the stages are closed.
        """
        stages = [
            key
            for key, one in self._stages.items()
            if now >= one.deadline or all(task.stage for task in one.tasks.values())
        ]
        verdicts = [
            key
            for key, one in self._verdicts.items()
            if one.deadline is not None
            and (
                now >= one.deadline or all(task.verdict for task in one.tasks.values())
            )
        ]
        return sorted(stages), sorted(verdicts)

    def next_deadline(self) -> float | None:
        """When something is due even if nothing comes; None: never."""
        stages = [one.deadline for one in self._stages.values()]
        verdicts = [one.deadline for one in self._verdicts.values()]
        times = [time for time in (*stages, *verdicts) if time is not None]
        return min(times, default=None)

    def close_stage(self, key: tuple[int, int], *, now: float) -> _Stage:
        """Ends a stage: who has no answer is lost, the row may await its verdict."""
        closed = self._stages.pop(key)
        answers: dict[int, StageArrival] = {}
        for member, task in closed.tasks.items():
            if task.stage is None:
                self._give_up(task)
                task.stage = StageArrival(
                    ticket=task.work.ticket, end_reason=EndReason.FAULT
                )
            answers[member] = task.stage
        place = closed.group.block, closed.group.row
        row = self._verdicts.setdefault(place, _Verdicts())
        row.tasks |= {m: closed.tasks[m] for m, one in answers.items() if one.is_judged}
        goes_on = any(one.end_reason == EndReason.RUNNING for one in answers.values())
        if closed.group.is_last or not goes_on:
            row.deadline = now + self._settings.verdict_seconds
        return closed

    def close_verdicts(self, key: tuple[int, int]) -> dict[int, Task]:
        """Ends a row: its judged members, by member; the absent have no verdict."""
        tasks = self._verdicts.pop(key).tasks
        for task in tasks.values():
            if task.verdict is None:
                self._give_up(task)
        return tasks

    def unanswered(self, *, now: float) -> list[Work]:
        """What is to be handed in when a run goes on; all deadlines start anew."""
        for stage in self._stages.values():
            stage.deadline = now + self._settings.stage_seconds
        for row in self._verdicts.values():
            if row.deadline is not None:
                row.deadline = now + self._settings.verdict_seconds
        for task in self._tasks.values():
            task.handed_in = now
        return [task.work for task in self._tasks.values()]

    def _note(self, task, arrival):
        if isinstance(arrival, StageArrival):
            task.stage = arrival
        else:
            task.verdict = arrival
        if task.is_done:
            del self._tasks[ticket_of(task.work).name]

    def _give_up(self, task):
        self.tally.absent += 1
        del self._tasks[ticket_of(task.work).name]

    def _forget(self, place):
        """The row is another group's: no rule asks for the verdict of the last."""
        if place in self._verdicts:
            for task in self._verdicts.pop(place).tasks.values():
                self._tasks.pop(ticket_of(task.work).name, None)


def _is_fault(arrival):
    if isinstance(arrival, VerdictArrival):
        return arrival.is_fault
    return arrival.end_reason == EndReason.FAULT


def _next_attempt(task, now):
    ticket = ticket_of(task.work)
    ticket = ticket._replace(attempt=ticket.attempt + 1)
    task.work = dataclasses.replace(task.work, ticket=ticket)
    task.handed_in = now
    return task.work
