"""Metrics are valid JSON, are there once after a resume, and can be watched."""

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


def test_lines_are_synced_when_asked(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(metrics.os, "fsync", synced.append)
    with metrics.MetricsWriter(tmp_path) as writer:
        writer.sync()  # nothing is open
        assert synced == []
        writer.write(1, {})
        writer.sync()
        assert len(synced) == 1


def test_what_stays_after_a_cut_is_told(tmp_path):
    with metrics.MetricsWriter(tmp_path) as writer:
        for tick in (0, 2, 8, 10):
            writer.write(tick, {})
    with metrics.MetricsWriter(tmp_path) as writer:
        assert writer.truncate_after(8) == [0, 2, 8]
    assert metrics.MetricsWriter(tmp_path / "new").truncate_after(8) == []


def test_numbers_of_an_older_version_have_the_names_of_today(tmp_path):
    old = {"tick": 1, "immediate/silent_share/code": 0.5, "rewards_not_finite": 2}
    (tmp_path / "metrics.jsonl").write_text(f"{json.dumps(old)}\n")
    with pytest.warns(FutureWarning, match="'zero_variance_share/code|and 1 other"):
        (line,) = metrics.read(tmp_path)
    assert line == {
        "tick": 1,
        "immediate/zero_variance_share/code": 0.5,
        "rewards_refused": 2,
    }
