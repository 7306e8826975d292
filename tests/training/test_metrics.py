"""Metrics are valid JSON, are there once after a resume, and can be watched."""

import io
import json
import math

import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.training import metrics


def test_lines_are_valid_json_with_short_numbers(tmp_path):
    with metrics.MetricsWriter(tmp_path / "new" / "run") as writer:
        writer.write(
            10,
            {
                "float32": np.float32(0.1),  # its double is 0.10000000149011612
                "jax": jnp.asarray([0.25]),
                "count": np.int64(3),
                "python": 0.1,
                "missing": math.nan,
                "infinite": jnp.float32(jnp.inf),
                "half": jnp.asarray(1.5, jnp.bfloat16),
            },
        )
    text = (tmp_path / "new" / "run" / "metrics.jsonl").read_text()
    assert text == (
        '{"tick": 10, "float32": 0.1, "jax": 0.25, "count": 3, "python": 0.1, '
        '"missing": null, "infinite": null, "half": 1.5}\n'
    )
    json.loads(text, parse_constant=pytest.fail)  # NaN is not JSON
    (line,) = metrics.read(tmp_path / "new" / "run")
    assert line["tick"] == 10 and math.isnan(line["missing"])


def test_each_line_is_on_disk_when_write_returns(tmp_path):
    writer = metrics.MetricsWriter(tmp_path)
    for tick in (1, 2):
        writer.write(tick, {"x": tick})
        assert [line["tick"] for line in metrics.read(tmp_path)] == [1, 2][:tick]
    writer.close()


def test_a_resumed_run_has_every_tick_once(tmp_path):
    def run(ticks):
        for tick in ticks:
            writer.write(tick, {"x": tick / 3})

    with metrics.MetricsWriter(tmp_path) as writer:
        run(range(1, 9))
    whole = (tmp_path / "metrics.jsonl").read_bytes()
    with metrics.MetricsWriter(tmp_path) as writer:
        writer.truncate_after(5)  # the checkpoint was at tick 5
        run(range(6, 9))
    assert (tmp_path / "metrics.jsonl").read_bytes() == whole
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


@pytest.mark.parametrize("rest", ['{"tick": 3, "x"', '{"tick": 3, "x"\n', "\x00\x00"])
def test_half_a_last_line_is_passed_over_and_not_written_behind(tmp_path, rest):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"tick": 1, "x": 1}\n{"tick": 2, "x": 2}\n' + rest)
    assert [line["tick"] for line in metrics.read(path)] == [1, 2]
    with metrics.MetricsWriter(tmp_path) as writer:
        writer.write(3, {"x": 3})
    assert [line["tick"] for line in metrics.read(path)] == [1, 2, 3]


def test_truncating_tolerates_half_a_line_and_no_file(tmp_path):
    writer = metrics.MetricsWriter(tmp_path)
    writer.truncate_after(5)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "metrics.jsonl").write_text('{"tick": 5, "x": 1}\n{"tick": 6')
    writer.truncate_after(5)
    assert (tmp_path / "metrics.jsonl").read_text() == '{"tick": 5, "x": 1}\n'


def test_a_broken_line_in_the_middle_is_told_by_its_number(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"tick": 1}\n{"x": 2}\n{"tick": 3}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl:2: not a line"):
        metrics.read(tmp_path)
    with pytest.raises(FileNotFoundError, match="no metrics here"):
        metrics.read(tmp_path / "elsewhere")


@pytest.mark.parametrize("value", [np.zeros(2), "0.5", None])
def test_what_is_not_one_number_is_refused_by_name(tmp_path, value):
    writer = metrics.MetricsWriter(tmp_path)
    with pytest.raises(ValueError, match="'loss' is"):
        writer.write(1, {"loss": value})
    with pytest.raises(ValueError, match="'tick' is the first argument"):
        writer.write(1, {"tick": 1})


def test_tensorboard_gets_the_finite_numbers(tmp_path):
    pytest.importorskip("tensorboardX", reason="an extra: tensorboard")
    with metrics.MetricsWriter(tmp_path, tensorboard=True) as writer:
        writer.write(1, {"solve": 0.5, "missing": math.nan})
    (events,) = (tmp_path / "tensorboard").iterdir()
    assert b"solve" in events.read_bytes() and b"missing" not in events.read_bytes()


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
    with metrics.Progress(100, start_tick=10, stream=stream, clock=clock) as progress:
        clock.now = 60.0  # compiling; must not count as the time of a tick
        for tick in range(12, 101, 2):
            clock.now += 1.0
            evaluation = {"eval/solve_rate": 0.125} if tick == 50 else {}
            progress.update(tick, {"verdict": 0.5, "loss": 7.0, **evaluation})
        progress.message("saved [1/2]")
    lines = stream.getvalue().splitlines()
    # ticks 12, 32 (ten seconds later), 50 (evaluation), 70, 90, 100 (the end)
    assert [line.split()[1] for line in lines[:-1]] == [
        f"{tick}/100" for tick in (12, 32, 50, 70, 90, 100)
    ]
    assert lines[0] == "tick 12/100  verdict 0.500"
    assert lines[1] == "tick 32/100  verdict 0.500  2 ticks/s  34 s left"
    assert "solve rate 0.125" in lines[2] and "solve rate 0.125" in lines[3]
    assert lines[-1] == "saved [1/2]" and "loss" not in stream.getvalue()


def test_a_terminal_gets_a_bar_with_the_numbers(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream, clock = Terminal(), Clock()
    with metrics.Progress(100, stream=stream, clock=clock) as progress:
        for tick in (20, 40):
            clock.now += 10.0
            progress.update(tick, {"eval/solve_rate": 0.25})
        progress.message("[bold] is printed as it stands")
    shown = stream.getvalue()
    assert "40/100" in shown and "solve rate 0.250" in shown
    assert "2 ticks/s" in shown and "30 s left" in shown
    assert "[bold] is printed as it stands" in shown


@pytest.mark.parametrize(
    ("seconds", "text"), [(59.4, "59 s"), (185, "3 min 05 s"), (7620, "2 h 07 min")]
)
def test_durations_read_as_a_person_says_them(seconds, text):
    stream, clock = io.StringIO(), Clock()
    progress = metrics.Progress(2, stream=stream, clock=clock)
    progress.update(0, {})
    clock.now = seconds
    progress.update(1, {"eval/solve_rate": 0.0})  # half of it took these seconds
    assert f"{text} left" in stream.getvalue()
