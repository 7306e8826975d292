"""A contest told again: what is known at a tick, what is drawn, what is refused."""

import json

import numpy as np
import pytest

from agentic_grpo.records import NEVER
from experiments.contests import standings
from scripts import show_contest
from scripts.viewing import contests


@pytest.fixture
def file(tmp_path):
    contest = standings.Contest(
        names=["agent", "scripted 1", "scripted 2"],
        levels=np.array([0, 1]),
        num_ticks=10,
        solved_at=np.array([[4, NEVER], [2, 8], [NEVER, NEVER]]),
        wrong=np.array([[1, 0], [0, 0], [0, 0]]),
    )
    slow = {"problem": 0, "tick": 1, "known_at": 3, "accepted": False, "copies": 2}
    fast = {"problem": 0, "tick": 4, "known_at": 7, "accepted": True, "copies": 1}
    tree = standings.as_json(contest) | {
        "statements": ["multiples 3 4", "cubes 1 <2>"],
        "submissions": {
            "agent": [slow | {"program": "n"}, fast | {"program": "n 4 +"}]
        },
    }
    path = tmp_path / "contest.json"
    path.write_text(json.dumps({"contests": [tree]}))
    return path


def test_a_tick_tells_what_had_happened_by_then(file, capsys):
    show_contest.main([str(file), "--tick=5"])
    text = capsys.readouterr().out
    assert "A: multiples 3 4" in text and "n 4 +" in text
    assert "(accepted, not known yet)" in text
    table = [line.split() for line in text.splitlines()]
    assert ["2", "agent", "354", "+1", "@4"] in table  # 500 * (1 - 0.48 * 0.4) - 50
    show_contest.main([str(file), "--tick=0"])
    assert "agent handed in nothing" in capsys.readouterr().out


def test_a_page_has_a_frame_for_every_tick_and_escapes_what_it_shows(file, tmp_path):
    show_contest.main([str(file), f"--html={tmp_path / 'page.html'}"])
    page = (tmp_path / "page.html").read_text()
    assert page.count('class="mono frame"') == 10
    assert page.count('mono frame" hidden') == 9
    assert "cubes 1 &lt;2&gt;" in page and "<2>" not in page


def test_curves_end_where_the_standings_do(file):
    curves = contests.curves_of(contests.read(file, 0))
    assert list(curves) == ["agent", "best of the field", "middle of the field"]
    agent, best = curves["agent"], curves["best of the field"]
    assert agent.points[3] == (3, 0.0) and agent.points[4][1] == 354 / 1500
    assert [one.ahead[-1][1] for one in (agent, best)] == [0.5, 1.0]


def test_what_is_no_contest_is_refused(file, tmp_path, capsys):
    (tmp_path / "other.json").write_text('{"a": 1}')
    for arguments, message in (
        ([str(tmp_path / "other.json")], "holds no contests"),
        ([str(file), "--contest=1"], r"contest=1 must be in 0 .. 0"),
        ([str(file), "--tick=10"], r"tick=10 must be in 0 .. 9"),
        ([str(tmp_path / "none.json")], "No such file"),
    ):
        with pytest.raises(SystemExit, match=message):
            show_contest.main(arguments)
