"""A run goes on from what it has saved, from nothing else, and says what is not so."""

import json
import os
import shutil
import signal

import pytest

from agentic_grpo.training import metrics, recording, run_folder, running
from agentic_grpo.training.checkpoints import Checkpoints
from experiments import train
from experiments.config import fields
from experiments.configs import smoke
from experiments.runs import workdir


def config(**changes):
    return fields.change(smoke.get_config(), changes)


def settings(**changes):
    return workdir.settings_of(config(**changes))


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("base_models")


@pytest.fixture(scope="module")
def finished(tmp_path_factory, cache):
    folder = tmp_path_factory.mktemp("run") / "smoke"
    train.run(config(), folder, warm_start_cache=cache)
    return folder


@pytest.fixture
def unfinished(finished, tmp_path):
    """Stopped at tick 4 of 8."""
    folder = shutil.copytree(finished, tmp_path / "copy")
    (folder / "summary.json").unlink()
    shutil.rmtree(folder / run_folder.CHECKPOINTS / "8")
    return folder


@pytest.fixture
def warnings_of_run(monkeypatch):
    texts = []
    monkeypatch.setattr(
        recording.logging, "warning", lambda text, *values: texts.append(text % values)
    )
    return texts


def files(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def lines(folder):
    return [
        {name: repr(x) for name, x in line.items() if not name.startswith("time/")}
        for line in metrics.read(folder)
    ]


@pytest.mark.parametrize("is_finished", [True, False])
def test_fewer_ticks_than_it_has_done_are_refused_by_name(
    finished, tmp_path, is_finished
):
    folder = shutil.copytree(finished, tmp_path / "copy")
    if not is_finished:
        (folder / "summary.json").unlink()
    before = files(folder)
    with pytest.raises(ValueError, match=r"^num_ticks=4 must be at least 8, which"):
        train.run(config(num_ticks=4), folder)
    assert files(folder) == before


def test_a_look_at_a_finished_run_writes_nothing(finished):
    before = files(finished)
    train.run(config(**{"checkpoint.keep": 7}), finished)  # may differ
    assert files(finished) == before


def test_checkpoints_of_another_seed_are_refused_by_field(unfinished):
    # As where somebody copies a run's folder and the wrong checkpoints into it.
    changed = json.loads((unfinished / "config.json").read_text()) | {"seed": 1}
    (unfinished / "config.json").write_text(json.dumps(changed))
    with pytest.raises(ValueError, match=r"checkpoints' must be .*seed: 0 there, 1"):
        train.run(config(seed=1), unfinished)
    assert not (unfinished / "summary.json").exists()


def test_a_config_that_is_gone_is_that_of_the_checkpoints(unfinished, finished):
    (unfinished / "config.json").unlink()
    with pytest.raises(ValueError, match="seed: 0 there, 1 here"):
        train.run(config(seed=1), unfinished)
    assert workdir.load_config(unfinished).seed == 0
    train.run(config(), unfinished)
    for name in ("config.json", "summary.json"):
        assert (unfinished / name).exists()
    assert lines(unfinished) == lines(finished)


def test_a_checkpoint_under_another_name_does_not_stick(unfinished, finished):
    steps = unfinished / run_folder.CHECKPOINTS
    shutil.copytree(steps / "4", steps / "6")
    train.run(config(), unfinished)
    assert lines(unfinished) == lines(finished)
    assert (steps / "damaged-6").is_dir()


def test_lines_that_are_missing_are_told(unfinished, warnings_of_run):
    path = unfinished / metrics.FILE_NAME
    first, _, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([first, *rest]))
    train.run(config(), unfinished)
    (told,) = warnings_of_run
    assert "1 of 3 lines up to tick 4 are missing (ticks 2)" in told
    assert [line["tick"] for line in metrics.read(unfinished)] == [0, 4, 6, 8]


def test_a_run_in_which_nothing_is_missing_says_nothing(unfinished, warnings_of_run):
    train.run(config(), unfinished)
    assert warnings_of_run == []


def test_lines_are_synced_before_the_checkpoint_is_written(tmp_path, monkeypatch):
    order = []
    monkeypatch.setattr(
        metrics.MetricsWriter, "sync", lambda self: order.append("lines")
    )
    monkeypatch.setattr(
        Checkpoints, "save", lambda self, *_, **__: order.append("checkpoint")
    )
    workdir.recording_of(config(), tmp_path).save(0, None)
    assert order == ["lines", "checkpoint"]


def test_a_rate_that_jumps_is_told(tmp_path, warnings_of_run):
    # linear to 0 over ticks 2 to 8: the rest at tick 5 is half; to 14 it is 3/4
    linear = {"learner.schedule": "linear", "learner.learning_rate": 0.5}
    old, new = config(**linear), config(num_ticks=14, **linear)
    record = workdir.recording_of(new, tmp_path)
    record._warn_of_a_jump(json.loads(old.to_json()), 5)
    (told,) = warnings_of_run
    assert "the learning rate of tick 5 is 0.375 in place of 0.25" in told
    record._warn_of_a_jump(json.loads(old.to_json()), 1)  # still the warm-up
    constant = workdir.recording_of(config(num_ticks=14), tmp_path)
    constant._warn_of_a_jump(json.loads(config().to_json()), 5)
    assert len(warnings_of_run) == 1


def ask(*_):
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    ("module", "name"),
    [(train.base_model, "_read"), (running, "_test_base_models")],
    ids=["warm start", "first test"],
)
def test_a_request_before_the_first_tick_ends_the_run_with_all_saved(
    module, name, cache, finished, tmp_path, monkeypatch
):
    original = getattr(module, name)

    def asked(*arguments):
        ask()
        return original(*arguments)

    monkeypatch.setattr(module, name, asked)
    monkeypatch.setattr(train.compiling, "compile_dispatch", None)  # is not reached
    assert train.run(config(), tmp_path, warm_start_cache=cache) is None
    monkeypatch.undo()
    with Checkpoints(tmp_path / run_folder.CHECKPOINTS) as checkpoints:
        assert checkpoints.steps() == [0]
    monkeypatch.setattr(train.base_model, "_pretrain", None)  # nor is this
    train.run(config(), tmp_path)
    assert lines(tmp_path) == lines(finished)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_while_the_tick_is_compiled_ends_the_run_before_it(
    number, cache, finished, tmp_path, monkeypatch
):
    compile_dispatch = train.compiling.compile_dispatch

    def asked(*arguments, **options):
        os.kill(os.getpid(), number)
        return compile_dispatch(*arguments, **options)

    monkeypatch.setattr(train.compiling, "compile_dispatch", asked)
    assert train.run(config(), tmp_path, warm_start_cache=cache) is None
    monkeypatch.undo()
    assert not (tmp_path / metrics.FILE_NAME).exists()
    train.run(config(), tmp_path)
    assert lines(tmp_path) == lines(finished)


def test_a_folder_in_use_keeps_its_config(unfinished):
    before = (unfinished / "config.json").read_bytes()
    with run_folder.claimed(unfinished, settings()):
        with (
            pytest.raises(ValueError, match="another process trains in it"),
            run_folder.claimed(unfinished, settings(num_ticks=12)),
        ):
            pytest.fail("two runs in one folder")
        with pytest.raises(ValueError, match="another process trains in it"):
            run_folder.claim(unfinished, settings(num_ticks=12))
    assert (unfinished / "config.json").read_bytes() == before


def test_what_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link"):
        with pytest.raises(ValueError, match=rf"{name}' must be a folder; it is none"):
            train.run(config(), tmp_path / name)
    assert not (tmp_path / "nowhere").exists()


def test_after_a_failure_only_what_is_true_is_said(unfinished, tmp_path):
    assert "up to tick 4, is intact" in run_folder.what_is_left(unfinished)
    assert run_folder.what_is_left(tmp_path / "none").startswith("Nothing is saved in ")


def test_a_summary_that_cannot_be_read_leaves_the_run_unfinished(unfinished, finished):
    (unfinished / "summary.json").write_text("")
    assert run_folder.finished(unfinished, settings()) is None
    assert train.run(config(), unfinished)["ticks"] == 8
    assert lines(unfinished) == lines(finished)
