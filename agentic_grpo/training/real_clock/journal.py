"""The journal of a run: what was written and what came, tick by tick, on the disk.

``journal.jsonl`` holds one JSON object per tick, in their order: what ``arrived`` and
counted, which ``stages`` [block, lane] and ``verdicts`` [block, row] were closed, what
was ``asked``. A line is on the disk before its tick is over, so no checkpoint is newer
than its line. Together with the checkpoint it is all that a run needs to go on; from
its first line it is all that it takes to play the run again.
"""

import dataclasses
import json
import os
import pathlib
from collections.abc import Iterator
from typing import TextIO

from agentic_grpo.envs.host import StageArrival, VerdictArrival, Work
from agentic_grpo.records import EndReason
from agentic_grpo.training import whole_files
from agentic_grpo.training.real_clock.books import Group, Ticket

FILE_NAME = "journal.jsonl"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """One tick.

    Attributes:
      tick: its number.
      arrived: arrivals that counted.
      stages, verdicts: keys of what was closed.
      asked: groups that wrote.
    """

    tick: int
    arrived: list
    stages: list[tuple[int, int]]
    verdicts: list[tuple[int, int]]
    asked: list[Group]


class JournalError(ValueError):
    """A journal that does not fit its run; says where and what to do."""


class Journal:
    """Appends entries; a context manager."""

    def __init__(self, path: pathlib.Path):
        """Opens nothing yet.

        Args:
          path: in a folder that exists.
        """
        self._path = path
        self._file: TextIO | None = None

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *exception_info) -> None:
        self.close()

    def close(self) -> None:
        """All of it is on the disk already."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def append(self, entry: Entry) -> None:
        """Returns when the entry is on the disk."""
        if self._file is None:
            self._file = self._path.open("a", encoding="utf-8")
        self._file.write(json.dumps(_to_json(entry)) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def go_on_from(self, tick: int) -> Iterator[Entry]:
        """The entries before a tick; later ones, and half a line, are dropped.

        Raises:
          JournalError: entries before it are missing.
        """
        self.close()
        number = 0
        if not self._path.exists():
            self._path.touch()
        with whole_files.replacing(self._path) as kept:
            for line in _whole_lines(self._path):
                if number == tick:
                    break
                entry = _read(self._path, number, line)
                kept.write(line)
                number += 1
                yield entry
            if number < tick:
                raise JournalError(
                    f"{self._path} ends before tick {number}, and the checkpoint is of "
                    f"tick {tick}: what was being judged then is not known. Put the "
                    "journal back, or begin in a new workdir"
                )


def read(path: pathlib.Path) -> Iterator[Entry]:
    """All entries of a journal, half a line at its end left out.

    Raises:
      JournalError: it cannot be read, or an entry is missing.
    """
    try:
        for number, line in enumerate(_whole_lines(path)):
            yield _read(path, number, line)
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error}") from error


def _whole_lines(path):
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield line


def _read(path, number, line):
    try:
        entry = _from_json(json.loads(line))
    except (ValueError, KeyError, TypeError) as error:
        raise JournalError(f"{path}, line {number + 1}: {error!r}") from error
    if entry.tick != number:
        raise JournalError(
            f"{path}, line {number + 1} is of tick {entry.tick}, and must be of tick "
            f"{number}: entries are missing"
        )
    return entry


def _to_json(entry):
    return {
        "tick": entry.tick,
        "arrived": [_arrival_to_json(arrival) for arrival in entry.arrived],
        "stages": entry.stages,
        "verdicts": entry.verdicts,
        "asked": [_group_to_json(group) for group in entry.asked],
    }


def _from_json(line):
    return Entry(
        tick=line["tick"],
        arrived=[_arrival_from_json(arrival) for arrival in line["arrived"]],
        stages=[(block, lane) for block, lane in line["stages"]],
        verdicts=[(block, row) for block, row in line["verdicts"]],
        asked=[_group_from_json(group) for group in line["asked"]],
    )


def as_written(arrival):
    """The arrival as a journal gives it back: plain numbers, whatever came.

    Raises:
      ValueError, TypeError, AttributeError: it is none.
    """
    return _arrival_from_json(json.loads(json.dumps(_arrival_to_json(arrival))))


def _arrival_to_json(arrival):
    kind = "stage" if isinstance(arrival, StageArrival) else "verdict"
    fields = {name: _plain(value) for name, value in vars(arrival).items()}
    if kind == "stage":
        fields["observation"] = [int(token) for token in arrival.observation]
    return {"kind": kind, **fields}


def _plain(value):
    """What JSON can write, whatever number type an environment answers with."""
    return value.item() if hasattr(value, "item") else value


def _arrival_from_json(fields):
    fields = dict(fields)
    ticket = Ticket(*fields.pop("ticket"))
    if fields.pop("kind") == "verdict":
        return VerdictArrival(ticket=ticket, **fields)
    end_reason = EndReason(fields.pop("end_reason"))
    observation = tuple(fields.pop("observation"))
    return StageArrival(
        ticket=ticket, end_reason=end_reason, observation=observation, **fields
    )


def _group_to_json(group):
    works = [
        [*work.ticket, work.problem, work.actions] for work in group.works.values()
    ]
    return {**vars(group), "works": works}


def _group_from_json(fields):
    works = {}
    for *ticket, problem, actions in fields["works"]:
        ticket = Ticket(*ticket)
        actions = tuple(tuple(action) for action in actions)
        works[ticket.member] = Work(ticket=ticket, problem=problem, actions=actions)
    return Group(**{**fields, "works": works})
