"""Base models are shared by what does not touch them, and by nothing else."""

import dataclasses
import importlib
import sys
import threading
import time

import jax
import numpy as np
import pytest

from agentic_grpo.training import leaves, locks
from agentic_grpo.training.loop import NonFiniteError
from experiments.config import build
from experiments.configs import smoke
from experiments.runs import base_model

ENV = "env.code_execution"


class Messages:
    def __init__(self):
        self.texts = []

    def message(self, text):
        self.texts.append(text)


def config(**changes):
    built = smoke.get_config().lock()
    built.update_from_flattened_dict(changes)
    return built


def key(config):
    return base_model.key(build.build(config), config)


def first_params(experiment, config, cache, progress, stop_requested=None):
    return base_model.first_params(
        experiment, config, cache, progress, stop_requested or threading.Event()
    )


@pytest.fixture(scope="module")
def pretrained():
    built = config()
    return first_params(build.build(built), built, None, Messages())


@pytest.fixture
def counted(monkeypatch, pretrained):
    """Replaces the pre-training by its result; the list grows with every call."""
    calls = []

    def pretrain(experiment, progress, stop_requested):
        calls.append(experiment)
        time.sleep(0.05)
        return pretrained

    monkeypatch.setattr(base_model, "_pretrain", pretrain)
    return calls


def assert_equal(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm.credit": "outcome"},
        {"learner.learning_rate": 1e-2, "learner.passes": 2},
        {"rollout.group_size": 4},
        {"num_ticks": 16, "evaluation.every": 8},
        {f"{ENV}.verdict_latency.minimum": 9},
        {f"{ENV}.stage_latency.minimum": 2},
        {f"{ENV}.latency_of_stage": (("code", (3,)),)},
        {"env.tool_workflow.budget_slack": 3},
    ],
)
def test_runs_that_differ_after_the_warm_start_share_it(changes):
    assert key(config(**changes)) == key(config())


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {f"{ENV}.visible_fidelity": 0.5},
        {f"{ENV}.fidelity_mode": "deceptive"},
        {"agent.code_execution.efficient_share": 0.1},
        {"model.hidden_size": 32},
        {"warm_start.num_steps": 4},
        {"warm_start.learning_rate": 1e-3},
    ],
)
def test_runs_that_differ_before_it_do_not(changes):
    assert key(config(**changes)) != key(config())


def test_other_package_versions_have_other_base_models(monkeypatch):
    before = key(config())
    monkeypatch.setattr(base_model.importlib.metadata, "version", lambda name: "0.0")
    assert key(config()) != before


@pytest.fixture
def from_elsewhere(tmp_path, monkeypatch):
    """An experiment whose environment lies outside the repository; its package."""
    folder = tmp_path / "somebodys_package"
    (folder / "helpers").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "helpers" / "judge.py").write_text("STRICT = True\n")
    (folder / "world.py").write_text("class World:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    world = importlib.import_module("somebodys_package.world").World()
    experiment = build.build(config())
    program = dataclasses.replace(experiment.program, environment=world)
    yield dataclasses.replace(experiment, program=program), folder
    base_model._sources_of.cache_clear()
    for name in [n for n in sys.modules if n.startswith("somebodys_package")]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["world.py", "helpers/judge.py"])
def test_an_environment_from_elsewhere_that_changed_has_another_base_model(
    from_elsewhere, name
):
    # only agentic_grpo/envs/NAME was looked at
    experiment, folder = from_elsewhere
    before = base_model.key(experiment, config())
    assert before != key(config())
    assert base_model.key(experiment, config()) == before
    with (folder / name).open("a") as file:
        file.write("# changed\n")
    assert base_model.key(experiment, config()) != before


def test_an_environment_without_a_source_file_has_no_shared_base_model(
    from_elsewhere, monkeypatch
):
    experiment, _ = from_elsewhere
    module = sys.modules[type(experiment.program.environment).__module__]
    monkeypatch.delattr(module, "__file__")
    with pytest.raises(ValueError, match="World has no source file"):
        base_model.key(experiment, config())


def test_latencies_do_not_change_the_warm_start(pretrained):
    # What lets the key leave them out: the warm start has no clock.
    slow = config(**{f"{ENV}.verdict_latency.minimum": 11})
    other = first_params(build.build(slow), slow, None, Messages())
    assert_equal(pretrained, other)


def test_the_second_run_reads_what_the_first_has_trained(counted, pretrained, tmp_path):
    experiment = build.build(config())
    for _ in range(2):
        params = first_params(experiment, config(), tmp_path, Messages())
        assert_equal(params, pretrained)
    assert len(counted) == 1
    names = [path.name for path in tmp_path.glob("*.npz")]
    assert names == [f"{key(config())}.npz"]  # no half-written ones


def test_runs_that_start_together_pretrain_once(counted, tmp_path):
    experiment, found, progress = build.build(config()), [], Messages()

    def start():
        found.append(first_params(experiment, config(), tmp_path, progress))

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(counted) == 1 and len(found) == 4
    assert any("waits for another run" in text for text in progress.texts)


def test_a_pretraining_that_fails_leaves_nothing_behind(monkeypatch, tmp_path):
    def fail(experiment, progress, stop_requested):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(base_model, "_pretrain", fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        first_params(build.build(config()), config(), tmp_path, Messages())
    assert not list(tmp_path.glob("*.npz"))


def test_a_damaged_base_model_is_named(counted, tmp_path):
    experiment = build.build(config())
    first_params(experiment, config(), tmp_path, Messages())
    path = tmp_path / f"{key(config())}.npz"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=rf"{path.name} is no base model.*delete it"):
        first_params(experiment, config(), tmp_path, Messages())


class AsksToStop(Messages):
    """Asks after the first message; so the warm start is between two dispatches."""

    def __init__(self):
        super().__init__()
        self.stop_requested = threading.Event()

    def message(self, text):
        super().message(text)
        self.stop_requested.set()


def test_a_warm_start_ends_after_a_dispatch_and_says_what_is_lost(tmp_path):
    progress = AsksToStop()
    experiment = build.build(config())
    found = first_params(
        experiment, config(), tmp_path, progress, progress.stop_requested
    )
    assert found is None
    assert progress.texts[0].startswith("warm start: 1/2 steps")
    assert progress.texts[1].startswith("stopped in the warm start after 1 of 2 steps")
    assert "begins it anew, and needs these" in progress.texts[1]
    assert not list(tmp_path.glob("*.npz"))


def test_whoever_waits_for_another_run_hears_the_request(counted, tmp_path):
    path = (tmp_path / key(config())).with_suffix(".lock")
    progress = AsksToStop()
    with locks.in_turn(path, lambda: True):
        found = first_params(
            build.build(config()), config(), tmp_path, progress, progress.stop_requested
        )
    assert found is None and counted == []


@pytest.mark.parametrize(
    ("num_steps", "words"),
    [(2, "the loss is nan at step 2"), (1, "state/.* at the end")],
)
def test_a_warm_start_that_diverges_is_no_base_model(num_steps, words, tmp_path):
    experiment = build.build(config())
    settings = dataclasses.replace(
        experiment.warm_start, learning_rate=float("inf"), num_steps=num_steps
    )
    experiment = dataclasses.replace(experiment, warm_start=settings)
    message = rf"warm_start\.learning_rate=inf: not finite: {words}"
    with pytest.raises(NonFiniteError, match=message):
        first_params(experiment, config(), tmp_path, Messages())
    assert not list(tmp_path.glob("*.npz"))


def test_a_base_model_that_is_not_finite_is_not_read(counted, pretrained, tmp_path):
    path = tmp_path / f"{key(config())}.npz"
    leaves.dump(jax.tree.map(lambda x: x * np.nan, pretrained), path)
    with pytest.raises(ValueError, match=rf"{path.name} .*not finite; delete it"):
        first_params(build.build(config()), config(), tmp_path, Messages())
