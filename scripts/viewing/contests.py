"""A contest that is over, told again on its clock: standings, points, submissions."""

import dataclasses
import html
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from agentic_grpo.training.json_files import read_json
from experiments.contests import scoring, standings
from experiments.contests.standings import Contest
from scripts.viewing import charts, page

#: Of the scripted field, the places that curves are drawn of: the first, the middle.
_BEST, _MIDDLE = "best of the field", "middle of the field"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Replay:
    """One contest of a file.

    Attributes:
      number: of the contest.
      contest: its standings.
      statements: of the problems, spelled.
      submissions: {agent: its submissions, in the order of time}.
    """

    number: int
    contest: Contest
    statements: list[str]
    submissions: Mapping[str, list[dict[str, Any]]]

    @property
    def agents(self) -> range:
        """Numbers of the contestants that are no scripted ones."""
        return range(len(self.submissions))


def read(path: pathlib.Path, number: int) -> Replay:
    """A contest of the file that ``experiments.contest`` wrote.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is none of ours, or has no contest of this number.
    """
    tree = read_json(path)
    contests = tree.get("contests")
    if not isinstance(contests, list) or not contests:
        raise ValueError(
            f"{path} holds no contests: it must be a file of experiments.contest"
        )
    if not 0 <= number < len(contests):
        raise ValueError(f"contest={number} must be in 0 .. {len(contests) - 1}")
    try:
        found = contests[number]
        return Replay(
            number=number,
            contest=standings.from_json(found),
            statements=found["statements"],
            submissions=found["submissions"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: contest {number} is damaged: {error!r}") from error


def tell(replay: Replay, tick: int | None = None) -> str:
    """The standings after a tick (the end), and what was handed in by then; as text.

    Raises:
      ValueError: the clock has no such tick.
    """
    last = replay.contest.num_ticks - 1
    tick = last if tick is None else tick
    if not 0 <= tick <= last:
        raise ValueError(f"tick={tick} must be in 0 .. {last}")
    parts = [
        f"contest {replay.number}, after tick {tick} of 0 .. {last}",
        standings.table(replay.contest.until(tick), always=replay.agents),
    ]
    parts += [
        f"{_letter(number)}: {statement}"
        for number, statement in enumerate(replay.statements)
    ]
    for name, submissions in replay.submissions.items():
        rows = [_row(one, tick) for one in submissions if one["tick"] <= tick]
        if rows:
            parts.append(f"{name} handed in")
            parts.append(standings.columns([_HEADER, *rows]))
        else:
            parts.append(f"{name} handed in nothing")
    return "\n\n".join(parts)


_HEADER = ["tick", "problem", "verdict", "known at", "written by", "program"]


def _row(submission, tick) -> list[str]:
    verdict = "accepted" if submission["accepted"] else "wrong"
    return [
        str(submission["tick"]),
        _letter(submission["problem"]),
        verdict if submission["known_at"] <= tick else f"({verdict}, not known yet)",
        str(submission["known_at"]),
        str(submission["copies"]),
        submission["program"],
    ]


def _letter(problem: int) -> str:
    return chr(ord("A") + problem)


def render(replay: Replay) -> str:
    """The same as one self-contained page, with the clock to move."""
    contest, last = replay.contest, replay.contest.num_ticks - 1
    title = f"contest {replay.number}"
    frames = "".join(
        f'<pre class="mono frame"{"" if tick == last else " hidden"}>'
        f"{html.escape(tell(replay, tick))}</pre>"
        for tick in range(contest.num_ticks)
    )
    moves = (
        "document.querySelectorAll('.frame').forEach("
        "(f, tick) => f.hidden = tick != this.value)"
    )
    curves = curves_of(replay)
    names = "".join(
        f'<li><span style="color:{charts.colour(index)}">&#9632;</span> '
        f"{html.escape(name)}</li>"
        for index, name in enumerate(curves)
    )
    panels = [
        charts.svg("share of all points", [one.points for one in curves.values()]),
        charts.svg(
            "share of the field that stands behind",
            [one.ahead for one in curves.values()],
        ),
    ]
    return page.page(
        title,
        f"<h1>{title}</h1>"
        f'<ul class="plain">{names}</ul><div class="panels">{"".join(panels)}</div>'
        f"<h2>On the clock</h2>"
        f'<input type="range" min="0" max="{last}" value="{last}" style="width:100%" '
        f'aria-label="tick" oninput="{moves}"><div class="scroll">{frames}</div>',
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curves:
    """A contestant over the clock: (tick, value in [0, 1]).

    Attributes:
      points: share of what all problems are worth.
      ahead: share of the others that it stands ahead of.
    """

    points: list[tuple[float, float]]
    ahead: list[tuple[float, float]]


def curves_of(replay: Replay) -> dict[str, Curves]:
    """Of the agents, and of the first and the middle of the scripted field."""
    contest = replay.contest
    ticks = range(contest.num_ticks)
    rankings = [contest.ranking(tick) for tick in ticks]
    points = np.stack([ranking.points for ranking in rankings])
    points = points / scoring.worth(contest.levels).sum()
    ranks = np.stack([ranking.rank for ranking in rankings])
    behind = (ranks[:, None, :] > ranks[:, :, None]).sum(axis=2)
    ahead = behind / max(len(contest.names) - 1, 1)
    chosen = {contest.names[agent]: agent for agent in replay.agents}
    field = np.arange(len(replay.agents), len(contest.names))
    if len(field):
        order = field[np.argsort(ranks[-1, field], kind="stable")]
        chosen |= {_BEST: order[0], _MIDDLE: order[len(order) // 2]}
    return {
        name: Curves(
            points=[(tick, float(points[tick, m])) for tick in ticks],
            ahead=[(tick, float(ahead[tick, m])) for tick in ticks],
        )
        for name, m in chosen.items()
    }
