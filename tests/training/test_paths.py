"""One path from what a person types, and no checkpoints where none can be read."""

import pathlib

import pytest

from agentic_grpo.training import paths
from agentic_grpo.training.checkpoints import Checkpoints


def test_a_home_folder_is_one_wherever_the_tilde_stands(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert paths.locate("~/x") == paths.locate("x") == tmp_path / "x"
    assert paths.locate(pathlib.Path("/a/b")) == pathlib.Path("/a/b")


@pytest.mark.parametrize("path", ["", "~nobody-of-this-name/x"])
def test_what_is_nowhere_is_refused(path):
    with pytest.raises(ValueError, match="workdir="):
        paths.locate_workdir(path)


@pytest.mark.parametrize("name", ["a[z]", "a\\b", "a*", "a?"])
def test_a_folder_whose_checkpoints_could_not_be_read_is_refused(name, tmp_path):
    with pytest.raises(ValueError, match="must be free of"):
        paths.locate_workdir(tmp_path / name / "run")


@pytest.mark.parametrize("name", ["a b", "é#%:;,'\"!$&()+=@^`|~{}<>", "x=1__y=2"])
def test_checkpoints_of_every_other_folder_can_be_read(name, tmp_path):
    folder = paths.locate_workdir(tmp_path / name) / "checkpoints"
    with Checkpoints(folder) as checkpoints:
        checkpoints.save(1, {"a": 2.5}, {})
    with Checkpoints(folder) as checkpoints:
        assert checkpoints.restore({"a": 0.0})[0] == {"a": 2.5}
