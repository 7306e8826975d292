"""What is shown of a run, to a person and to a log file."""

import io
import math

import pytest

from agentic_grpo.training.progress import Progress


class Clock:
    """Seconds that pass when the test says so."""

    now = 0.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_log_file_gets_a_line_every_ten_seconds_and_at_evaluations():
    stream, clock = io.StringIO(), Clock()
    with Progress(100, stream=stream, clock=clock) as progress:
        progress.update(10, {"verdict": math.nan})  # an evaluation before the first
        clock.now = 60.0  # compiling; must not count as the time of a tick
        progress.begin(10)
        for tick in range(12, 101, 2):
            clock.now += 1.0
            evaluation = {"eval/solve_rate": 0.125} if tick == 50 else {}
            progress.update(tick, {"verdict": 0.5, "loss": 7.0, **evaluation})
        progress.message("saved [1/2]")
    lines = stream.getvalue().splitlines()
    # ticks 12, 32 (ten seconds later), 50 (evaluation), 70, 90, 100 (the end)
    assert [line.split()[1] for line in lines[:-1]] == [
        f"{tick}/100" for tick in (10, 12, 32, 50, 70, 90, 100)
    ]
    assert lines[0] == "tick 10/100  "  # no verdict yet, and no rate
    assert lines[1] == "tick 12/100  verdict 0.500  2 ticks/s  44 s left"
    assert lines[2] == "tick 32/100  verdict 0.500  2 ticks/s  34 s left"
    assert "solve rate 0.125" in lines[3] and "solve rate 0.125" in lines[4]
    assert lines[-1] == "saved [1/2]" and "loss" not in stream.getvalue()


def test_a_terminal_gets_a_bar_with_the_numbers(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream, clock = Terminal(), Clock()
    with Progress(100, stream=stream, clock=clock) as progress:
        progress.begin(0)
        for tick in (20, 40):
            clock.now += 10.0
            progress.update(tick, {"eval/solve_rate": 0.25})
        progress.message("[bold] is printed as it stands")
    shown = stream.getvalue()
    assert "40/100" in shown and "solve rate 0.250" in shown
    assert "2 ticks/s" in shown and "30 s left" in shown
    assert "[bold] is printed as it stands" in shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (185, "3 min 05 s"),
        (2110, "35 min"),
        (3585, "1 h 00 min"),  # never 60 min
        (7620, "2 h 07 min"),
    ],
)
def test_durations_read_as_a_person_says_them(seconds, text):
    stream, clock = io.StringIO(), Clock()
    progress = Progress(2, stream=stream, clock=clock)
    progress.begin(0)
    clock.now = seconds
    progress.update(1, {"eval/solve_rate": 0.0})  # half of it took these seconds
    assert f"{text} left" in stream.getvalue()


def test_a_message_does_not_steer_the_terminal():
    stream = io.StringIO()
    with Progress(10, stream=stream) as progress:
        progress.message("went on from runs/\x1b[2J\x07x")
    assert stream.getvalue().splitlines()[-1] == r"went on from runs/\x1b[2J\x07x"
