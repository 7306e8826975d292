"""JSON files: no NaN in them, and a fault is told with the name of its file."""

import math

import pytest

from agentic_grpo.training import json_files


def test_what_is_written_is_read(tmp_path):
    value = {"a": [1, 2.5, None, True], "b": {"c": "text"}}
    json_files.write_json(tmp_path / "x.json", value)
    assert json_files.read_json(tmp_path / "x.json") == value


def test_a_number_that_is_not_finite_becomes_null(tmp_path):
    value = {"a": math.nan, "b": [{"c": math.inf}, (-math.inf, 1.0)]}
    json_files.write_json(tmp_path / "x.json", value)
    assert "NaN" not in (tmp_path / "x.json").read_text()
    read = json_files.read_json(tmp_path / "x.json")
    assert read == {"a": None, "b": [{"c": None}, [None, 1.0]]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b"\n", "it is empty"),
        (b'{"a": 1', "Expecting"),
        (b"\xff\xfe", "utf-8"),
        (b"[" * 100_000, "recursion"),
        (b"[]", r"must hold a JSON object; it holds \[\]"),
        (b"null", "it holds null"),
        (b"3", "it holds 3"),
    ],
    ids=["empty", "blank", "cut", "no text", "deep", "list", "null", "number"],
)
def test_a_damaged_file_is_named_with_its_fault(content, words, tmp_path):
    path = tmp_path / "summary.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"summary\.json .*{words}"):
        json_files.read_json(path)


def test_a_missing_file_is_an_error_of_its_own(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.json"):
        json_files.read_json(tmp_path / "none.json")
