"""Which folders hold a run, and which checkpoint of it is meant."""

import pytest

from agentic_grpo.training.checkpoints import Checkpoints
from experiments.runs import finding


@pytest.fixture
def checkpoints(tmp_path):
    with Checkpoints(tmp_path / "checkpoints") as saved:
        for step, metric in ((2, 0.5), (4, 0.75), (6, None)):
            saved.save(step, {"a": 1.0}, {}, metric=metric)
        saved.wait()
        yield saved


@pytest.mark.parametrize(
    ("tick", "step"), [(None, None), ("4", 4), ("best", 4), ("99", 99)]
)
def test_a_checkpoint_is_named_by_its_tick_or_as_the_best(checkpoints, tick, step):
    assert finding.step_named(checkpoints, tick) == step


def test_what_names_no_checkpoint_is_refused(checkpoints, tmp_path):
    for wrong in ("bset", "-1", "", "1.5"):
        with pytest.raises(ValueError, match=r"--tick=.* must be a tick, or best"):
            finding.step_named(checkpoints, wrong)
    with Checkpoints(tmp_path / "other") as saved:
        saved.save(2, {"a": 1.0}, {})
        with pytest.raises(ValueError, match=r"none of the checkpoints \[2\] was"):
            finding.step_named(saved, "best")


def test_a_folder_stands_for_the_runs_below_it(tmp_path):
    with pytest.raises(ValueError, match="no run is there"):
        finding.runs_within(tmp_path)
    for name in ("b/seed=0", "a/seed=1", "base_models"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "b/seed=0/config.json").write_text("{}")
    (tmp_path / "a/seed=1/metrics.jsonl").write_text("")
    found = finding.runs_within(tmp_path)
    assert [path.name for path in found] == ["seed=1", "seed=0"]
    assert finding.runs_within(found[0]) == [found[0]]
