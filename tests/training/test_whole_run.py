"""``agentic_grpo.train``: a run of an environment and a policy from elsewhere."""

import json
import os
import signal

import jax
import numpy as np
import pytest
import toy_environment as toy
import toy_program

import agentic_grpo
from agentic_grpo.ops import credit
from agentic_grpo.training import metrics
from agentic_grpo.training.evaluation import EvaluationSettings
from agentic_grpo.training.streams import Stream, key_of

SMALL = dict(
    learning_rate=3e-3,
    warmup_ticks=0,
    num_ticks=8,
    group_size=2,
    num_lanes=4,
    decode_slots=2,
    ticks_per_dispatch=2,
    evaluate_every=4,
    checkpoint_every=4,
    evaluation=EvaluationSettings(split="test", num_problems=8, batch_size=8),
    stage_deadline=20,
    verdict_deadline=20,
)


def train(folder, **changes):
    return agentic_grpo.train(
        toy_program.environment(),
        toy_program.policy(),
        workdir=folder,
        **{**SMALL, **changes},
    )


def lines(folder):
    return [
        {name: repr(x) for name, x in line.items() if not name.startswith("time/")}
        for line in metrics.read(folder)
    ]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mine") / "run"
    return folder, train(folder)


def test_a_run_leaves_what_a_run_leaves_and_learns(finished):
    folder, trained = finished
    files = ("config.json", "metrics.jsonl", "summary.json")
    assert all((folder / name).is_file() for name in files)
    assert [line["tick"] for line in metrics.read(folder)] == [0, 2, 4, 6, 8]
    assert trained.summary["ticks"] == 8
    first = jax.tree.leaves(toy_program.policy().init(jax.random.key(0)))
    last = jax.tree.leaves(trained.params)
    assert any(not np.array_equal(a, b) for a, b in zip(first, last, strict=True))
    lanes = [line.get("lanes_without_row", 0.0) for line in metrics.read(folder)]
    assert max(lanes) == 0.0  # the sizes were worked out


def test_the_same_call_again_reads_what_came_of_it(finished):
    folder, trained = finished
    before = (folder / "metrics.jsonl").read_bytes()
    again = train(folder)
    assert (folder / "metrics.jsonl").read_bytes() == before
    assert again.summary == trained.summary
    jax.tree.map(np.testing.assert_array_equal, again.params, trained.params)


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(
    finished, tmp_path, monkeypatch
):
    folder, trained = finished
    seen = []

    def write(self, tick, values):
        seen.append(tick)
        original(self, tick, values)
        if tick == 4:
            os.kill(os.getpid(), signal.SIGTERM)

    original = metrics.MetricsWriter.write
    monkeypatch.setattr(metrics.MetricsWriter, "write", write)
    stopped = train(tmp_path / "run")
    monkeypatch.undo()
    assert stopped.summary is None and 8 not in seen
    assert train(tmp_path / "run").summary["after"] == trained.summary["after"]
    assert lines(tmp_path / "run") == lines(folder)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"seed": 1}, "seed: 0 there, 1 here"),
        ({"credit": "outcome"}, "credit: 'calibrated' there, 'outcome' here"),
        ({"num_ticks": 4}, "num_ticks=4 must be at least 8"),
    ],
)
def test_another_run_in_its_folder_is_refused_by_name(finished, changes, match):
    with pytest.raises(ValueError, match=match):
        train(finished[0], **changes)


def test_another_environment_in_its_folder_is_refused_by_name(finished):
    with pytest.raises(ValueError, match=r"environment\.spec\.max_verdict_latency: 3"):
        agentic_grpo.train(
            toy.ToyEnvironment(verdict_latency=4),
            toy_program.policy(),
            workdir=finished[0],
            **SMALL,
        )


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"group_size": 1}, "group_size=1 must be at least 2"),
        ({"decode_slots": 5}, "decode_slots=5 must be at most num_lanes=4"),
        ({"num_blocks": 3}, "num_lanes=4 must be a multiple of num_blocks=3"),
        ({"num_ticks": 7}, "num_ticks=7 must be a multiple of ticks_per_dispatch=2"),
        ({"evaluate_every": 3}, "evaluate_every=3 must be a multiple"),
        ({"credit": "agntic"}, "did you mean 'agentic'"),
        ({"credit": "value_baseline"}, "this one asks a critic"),
        ({"schedule": "cosin"}, "did you mean 'cosine'"),
        ({"warmup_ticks": 8}, "warmup_ticks=8 must be below num_ticks=8"),
        ({"learning_rate": 0.0}, "learning_rate=0.0 must be above 0"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    tmp_path, changes, match
):
    with pytest.raises(ValueError, match=match):
        train(tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_a_policy_with_an_adapter_is_refused_and_not_trained_as_a_whole(tmp_path):
    policy = toy_program.policy()._replace(adapt=lambda key: {})
    with pytest.raises(ValueError, match="policy='one with an adapter' must be one"):
        agentic_grpo.train(
            toy_program.environment(), policy, workdir=tmp_path / "run", **SMALL
        )
    assert not (tmp_path / "run").exists()


def test_a_rule_with_its_own_options_is_used_as_it_is(tmp_path):
    # Weights of 0 on both phases: nothing is ever learnt.
    kinds = toy_program.environment().spec.layout.kinds
    rule = credit.agentic(kinds, immediate_weight=0.0, correction_weight=0.0)
    trained = train(tmp_path / "run", credit=rule, num_ticks=4)
    first = toy_program.policy().init(key_of(Stream.INIT, 0))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), first, trained.params
    )


def test_parameters_of_ones_own_are_where_it_starts(tmp_path):
    params = toy_program.initial_params()
    trained = train(tmp_path / "run", params=params, credit="outcome", num_ticks=2)
    # No verdict is in after two ticks, so that nothing was learnt.
    jax.tree.map(np.testing.assert_array_equal, trained.params, params)
    loaded = agentic_grpo.load_params(tmp_path / "run", toy_program.policy(), step=0)
    jax.tree.map(np.testing.assert_array_equal, loaded, params)


def test_the_settings_are_json_that_names_what_was_given(finished):
    settings = json.loads((finished[0] / "config.json").read_text())
    assert settings["environment"]["class"] == "toy_environment.ToyEnvironment"
    assert settings["credit"] == "calibrated" and settings["optimizer"] == "adamw"
    assert settings["loss"] == "agentic_grpo.ops.policy_losses.ppo_clip_loss"
