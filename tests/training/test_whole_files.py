"""A file is there whole or not at all, also when two write it at the same time."""

import pytest

from agentic_grpo.training import whole_files


def test_what_is_written_appears_at_the_end_of_the_block(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with whole_files.replacing(path) as file:
        file.write("nü")
        assert path.read_text() == "old"
    assert path.read_text(encoding="utf-8") == "nü"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_do_not_take_each_others_file(tmp_path):
    # With one name for what is unfinished the outer would find it renamed away.
    path = tmp_path / "file"
    with whole_files.replacing(path) as outer:
        with whole_files.replacing(path, "wb") as inner:
            inner.write(b"inner")
        assert path.read_bytes() == b"inner"
        outer.write("outer")
    assert path.read_text() == "outer"
    assert list(tmp_path.iterdir()) == [path]


def test_after_a_failure_nothing_has_changed(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with (
        pytest.raises(KeyboardInterrupt),
        whole_files.replacing(path) as file,
    ):
        file.write("ne")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_bytes_are_on_the_disk_before_the_name(tmp_path, monkeypatch):
    order = []
    fsync, replace = whole_files.os.fsync, whole_files.pathlib.Path.replace
    monkeypatch.setattr(
        whole_files.os, "fsync", lambda fd: (order.append("sync"), fsync(fd))
    )
    monkeypatch.setattr(
        whole_files.pathlib.Path,
        "replace",
        lambda self, to: (order.append("name"), replace(self, to)),
    )
    with whole_files.replacing(tmp_path / "file") as file:
        file.write("text")
    assert order == ["sync", "name", "sync"]  # the last is that of the folder
