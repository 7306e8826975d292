"""Many contests of some contestants against one field: played, ranked, written."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from agentic_grpo.envs.code_execution.problems import vocabulary
from agentic_grpo.envs.code_execution.vm import assembler
from agentic_grpo.records import NEVER
from experiments.contests import contestants, standings
from experiments.contests.desk import Desk
from experiments.contests.standings import Contest, Record


@dataclasses.dataclass(frozen=True, kw_only=True)
class Results:
    """C contests.

    Attributes:
      contests: each with the agents first, then the scripted field.
      desks: of each agent, [C, ...].
      statements: int [C, Q, W]; what everybody was told.
    """

    contests: Sequence[Contest]
    desks: dict[str, Desk]
    statements: np.ndarray

    @property
    def records(self) -> list[Record]:
        """Of the agents."""
        return [standings.record(self.contests, m) for m in range(len(self.desks))]


def compete(
    desks: dict[str, Desk], field: contestants.Field, problems, num_ticks: int
) -> Results:
    """Ranks what agents handed in among the scripted field.

    Args:
      desks: {name: ``Desk`` [C, ...]} of agents that played the same problems.
      field: the scripted contestants.
      problems: ``Start`` [C, Q].
      num_ticks: T.
    """
    levels = np.asarray(problems.level)
    agents = [standings.of_desk(desk) for desk in desks.values()]
    contests = []
    for number, level in enumerate(levels):
        scripted = contestants.play(field, level, num_ticks, number)
        solved_at, wrong = (
            np.concatenate([*(agent[part][number][None] for agent in agents), ours])
            for part, ours in enumerate(scripted)
        )
        contests.append(
            Contest(
                names=[*desks, *field.names],
                levels=level,
                num_ticks=num_ticks,
                solved_at=solved_at,
                wrong=wrong,
            )
        )
    return Results(
        contests=contests, desks=desks, statements=np.asarray(problems.prompt_tokens)
    )


def to_json(results: Results, settings: dict[str, Any]) -> dict[str, Any]:
    """Everything, as JSON values: records, and contests with what was handed in."""
    return {
        "settings": settings,
        "records": [
            {
                "name": one.name,
                "median_rank": one.median,
                "interval": [one.low, one.high],
                "first_places": one.firsts,
                "mean_rank": float(one.ranks.mean()),
                "mean_points": float(one.points.mean()),
                "mean_solved": float(one.solved.mean()),
                "ranks": one.ranks.tolist(),
                "points": one.points.round(3).tolist(),
            }
            for one in results.records
        ],
        "contests": [
            standings.as_json(contest)
            | {
                "statements": list(map(vocabulary.spell, results.statements[number])),
                "submissions": {
                    name: submissions(desk, number)
                    for name, desk in results.desks.items()
                },
            }
            for number, contest in enumerate(results.contests)
        ],
    }


def submissions(desk: Desk, contest: int) -> list[dict[str, Any]]:
    """What was handed in in a contest, in the order of time; JSON values."""
    ticks = np.asarray(desk.tick[contest])
    places = np.argwhere(ticks != NEVER)
    order = np.argsort([ticks[tuple(place)] for place in places], kind="stable")
    found = []
    for problem, slot in places[order]:
        at = (contest, problem, slot)
        found.append(
            {
                "problem": int(problem),
                "tick": int(desk.tick[at]),
                "known_at": int(desk.known_at[at]),
                "accepted": bool(desk.accepted[at]),
                "copies": int(desk.copies[at]),
                "program": assembler.disassemble(desk.program[at]),
            }
        )
    return found
