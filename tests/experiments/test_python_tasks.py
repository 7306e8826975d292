"""Real Python from a published model, at the smallest size: the whole program."""

import json
import shutil

import jax
import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="an extra: llm")
pytest.importorskip("safetensors", reason="an extra: llm")
import tiny_published_model as tiny

from agentic_grpo.models.pretrained import load_pretrained
from agentic_grpo.training import bases, leaves, metrics
from agentic_grpo.training.checkpoints import CheckpointError, Checkpoints
from experiments import train
from experiments.config import build, fields, programs, warm_start
from experiments.configs import default
from experiments.runs import base_model, exporting, workdir
from scripts import show_episode

TASKS = "env.python_tasks"
SMALL = {
    "env.name": "python_tasks",
    f"{TASKS}.families": tiny.FAMILIES,
    f"{TASKS}.program_width": 12,
    f"{TASKS}.feedback_width": 8,
    f"{TASKS}.workers": 1,
    "num_ticks": 4,
    "ticks_per_dispatch": 2,
    "learner.warmup_ticks": 1,
    "learner.learning_rate": 1e-3,
    "rollout.num_lanes": 4,
    "rollout.decode_slots": 2,
    "rollout.group_size": 2,
    "evaluation.every": 2,
    "evaluation.num_problems": 4,
    "evaluation.test_problems": 4,
    "evaluation.batch_size": 4,
    "evaluation.samples_per_problem": 2,
    "evaluation.pass_at": (1, 2),
    "checkpoint.every": 2,
}


def config(published=None, **changes):
    given = {"model.pretrained": str(published)} if published else {}
    return fields.change(default.get_config(), {**SMALL, **given, **changes})


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    return tiny.write(tmp_path_factory.mktemp("published"))


@pytest.fixture(scope="module")
def finished(published, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "python"
    return folder, train.run(config(published), folder)


def test_a_run_starts_from_published_weights_and_trains_on_programs(
    finished, published
):
    folder, summary = finished
    lines = metrics.read(folder)
    assert [line["tick"] for line in lines] == [0, 2, 4]
    assert sum(line.get("members_at_fault", 0) for line in lines) == 0
    assert {"pass_at_1", "pass_at_2"} <= set(summary["after"])
    assert max(x["eval/log_prob_gap"] for x in lines if x["tick"] in (0, 4)) < 1e-5
    experiment = build.build(config(published))
    with Checkpoints(folder / "checkpoints") as checkpoints:
        state, _ = checkpoints.restore(build.state_shapes(experiment), 4)
    _, weights = load_pretrained(published)
    moved = [
        np.abs(np.asarray(a) - np.asarray(b)).max()
        for a, b in zip(
            leaves.named(state.learner.params).values(),
            leaves.named(weights).values(),
            strict=True,
        )
    ]
    # Adam moves a weight by about the rate, so these are still the published ones
    assert max(moved) < 2e-2


def test_a_trained_policy_is_exported_and_is_a_published_model(
    finished, published, tmp_path
):
    folder, _ = finished
    exported = tmp_path / "exported"
    exporting.export(folder, exported, tick="best", context_length=64)
    assert json.loads((exported / "config.json").read_text())["model_type"] == "llama"
    assert (exported / "tokenizer.json").exists()
    again = build.build(config(exported))
    assert again.decoder.config == build.build(config(published)).decoder.config
    with pytest.raises(ValueError, match="must be empty"):
        exporting.export(folder, exported, context_length=64)


@pytest.mark.slow
def test_checkpoints_of_an_adapter_leave_the_published_weights_out(
    published, tmp_path, capsys
):
    adapter = {"model.adapter_rank": 2, "learner.kl_weight": 0.01}
    folder = tmp_path / "run"
    asked = config(published, **adapter, num_ticks=2)
    train.run(asked, folder)
    experiment = build.build(asked)
    whole = build.state_shapes(experiment)
    assert whole.learner.reference_params is None  # the adapter, off
    with Checkpoints(folder / "checkpoints") as checkpoints:
        with pytest.raises(CheckpointError, match="frozen"):
            checkpoints.restore(whole)
        state, _ = bases.restore(
            checkpoints, experiment.frozen_base, whole, check=lambda notes: None
        )
    _, weights = load_pretrained(published)
    jax.tree.map(np.testing.assert_array_equal, state.learner.frozen, weights)
    trained = sum(leaf.size for leaf in jax.tree.leaves(state.learner.params))
    assert trained < 0.3 * sum(leaf.size for leaf in jax.tree.leaves(weights))
    train.run(config(published, **adapter), folder)  # goes on
    show_episode.main([str(folder), "--width=160"])
    assert "checkpoint of tick 4" in capsys.readouterr().out

    changed = tmp_path / "changed"
    shutil.copytree(published, changed)
    (changed / "note.txt").write_text("another file")
    other = config(changed, **adapter)
    experiment = build.build(other)
    with (
        Checkpoints(folder / "checkpoints") as checkpoints,
        pytest.raises(
            ValueError, match=r"model\.pretrained=.* must be what the run started from"
        ),
    ):
        bases.restore(
            checkpoints, experiment.frozen_base, whole, check=lambda notes: None
        )

    exporting.export(folder, tmp_path / "exported", context_length=64)
    _, merged = load_pretrained(tmp_path / "exported")
    expected = experiment.decoder.merge((state.learner.frozen, state.learner.params))
    assert jax.tree.structure(merged) == jax.tree.structure(expected)


@pytest.mark.slow
def test_a_run_goes_on_as_one_that_never_stopped(finished, published, tmp_path):
    folder, _ = finished
    longer = tmp_path / "longer"
    shutil.copytree(folder, longer)
    summary = train.run(config(published, num_ticks=6), longer)
    assert [line["tick"] for line in metrics.read(longer)] == [0, 2, 4, 6]
    fresh = train.run(config(published, num_ticks=6), tmp_path / "fresh")
    assert fresh["after"] == summary["after"]


def test_the_viewer_plays_and_tells_a_group(finished, capsys):
    folder, _ = finished
    show_episode.main([str(folder), "--tick=best", "--width=160"])
    printed = capsys.readouterr().out
    assert "def " in printed and "a right program:" in printed
    assert "visible:" in printed


def test_no_worker_is_left_and_none_starts_before_it_is_asked(finished, published):
    experiment = build.build(config(published))
    pool = experiment.program.environment.host.answers._pool
    assert isinstance(pool, programs.LazyPool) and pool._pool is None
    with experiment.at_work():
        assert pool._pool.worker_numbers
    assert pool._pool is None


def test_a_published_model_is_not_warmed_up_unless_asked(published):
    assert build.build(config(published)).warm_start.num_steps == 0
    assert build.build(config(published)).agent is None
    asked = config(published, **{"warm_start.num_steps": 25})
    assert warm_start.settings(asked).num_steps == 25
    from_nothing = build.build(config(**{f"{TASKS}.program_width": 60}))
    assert from_nothing.warm_start.num_steps == 500
    assert from_nothing.agent is not None
    assert from_nothing.program.environment.spec.vocabulary_size == 258


def test_a_base_model_depends_on_the_weights_and_on_the_problems(published, tmp_path):
    lines = tiny.write_lines(tmp_path / "tasks.jsonl")
    same = {f"{TASKS}.problems": str(lines), f"{TASKS}.families": ()}
    asked = config(published, **same)

    def key():
        return base_model.key(build.build(asked), asked)

    first = key()
    assert key() == first
    tiny.write_lines(lines, [dict(tiny.LINES[0], reference=None), *tiny.LINES[1:]])
    second = key()
    assert second != first
    (published / "note.txt").write_text("another file")
    assert key() not in (first, second)
    (published / "note.txt").unlink()


def test_problems_of_a_file_are_run_before_anything_is_written(published, tmp_path):
    wrong = dict(tiny.LINES[0], reference="def times(x):\n    return x\n")
    lines = tiny.write_lines(tmp_path / "tasks.jsonl", [wrong, *tiny.LINES[1:]])
    given = {f"{TASKS}.problems": str(lines), f"{TASKS}.families": ()}
    folder = tmp_path / "run"
    with pytest.raises(ValueError, match=r"env\.python_tasks\.problems=\['times 3'\]"):
        train.run(config(published, **given), folder)
    assert not folder.exists()


def test_a_machine_without_walls_is_refused(published, tmp_path, monkeypatch):
    def unavailable(workers):
        raise programs.jobs.SandboxUnavailable("no seccomp here")

    monkeypatch.setattr(programs, "Pool", unavailable)
    with pytest.raises(ValueError, match=r"env\.name='python_tasks': no seccomp here"):
        train.run(config(published), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([*tiny.LINES, "{"], r"tasks\.jsonl:4\.line='\{' must be JSON"),
        ([tiny.LINES[0]] * 2, r"tasks\.jsonl:2\.id='times 3' must be another id"),
        (tiny.LINES[:1], r"split='test' must be a split that has problems"),
    ],
)
def test_a_file_is_refused_with_the_number_of_its_line(lines, words, tmp_path):
    path = tiny.write_lines(tmp_path / "tasks.jsonl", lines)
    given = {f"{TASKS}.problems": str(path), f"{TASKS}.families": ()}
    given[f"{TASKS}.program_width"] = 80
    with pytest.raises(ValueError, match=words):
        build.build(config(**given))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({f"{TASKS}.problems": "none.jsonl"}, "must be left out|families=.*must be"),
        (
            {f"{TASKS}.problems": "none.jsonl", f"{TASKS}.families": ()},
            r"problems='none\.jsonl' must be generated, humaneval or a file",
        ),
        ({f"{TASKS}.families": ("ad",)}, r"python_tasks\.families='ad'.*mean 'add'"),
        ({f"{TASKS}.levels": (9,)}, r"python_tasks\.levels=\(9,\)"),
        ({f"{TASKS}.prompt_width": 3}, r"python_tasks\.problems\['add 0'\]\.statement"),
        ({f"{TASKS}.form": "published"}, r"form='published' must be 'completion'"),
        ({f"{TASKS}.form": "chatlm"}, r"form='chatlm'.*mean 'chatml'"),
        ({f"{TASKS}.latency_of_stage": (("cod", (1,)),)}, "mean 'code'"),
        ({f"{TASKS}.memory_bytes": 5}, r"env\.python_tasks\.memory_bytes=5 must"),
        ({f"{TASKS}.program_width": 12}, r"reference=.*a program of at most 12 tokens"),
        ({"agent.python_tasks.quick_share": 0.9}, r"agent\.python_tasks\.quick_share"),
        ({"model.pretrained": "nowhere"}, r"model\.pretrained: .*nowhere: must be a"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_field(changes, words):
    with pytest.raises(ValueError, match=words):
        build.build(config(**{f"{TASKS}.program_width": 60, **changes}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model.hidden_size": 32}, r"model\.hidden_size=32 must be left out.*says 16"),
        ({"learner.learning_rate": 0.0}, r"learner\.learning_rate=0\.0 must be given"),
        ({"model.adapter_rank": -1}, r"model\.adapter_rank=-1 must be at least 0"),
        (
            {"model.adapter_rank": 1, "model.adapter_targets": ("qk",)},
            r"model\.adapter_targets=\('qk',\) must be some of qkv, out",
        ),
        ({"env.name": "code_execution"}, r"model\.pretrained=.* with env\.name='code_"),
        ({f"{TASKS}.form": "llama_3"}, r"python_tasks\.form: form='llama_3' needs"),
    ],
)
def test_what_contradicts_a_published_model_is_refused(changes, words, published):
    with pytest.raises(ValueError, match=words):
        build.build(config(published, **changes))


def test_a_damaged_model_is_refused_before_anything_is_computed(published, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(published, broken)
    described = json.loads((broken / "config.json").read_text())
    for change, words in (
        ({"model_type": "gpt2"}, "model_type='gpt2' must be one of llama"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings=False must come with"),
        ({"num_hidden_layers": 3}, r"lacks the tensors model\.layers\.2"),
    ):
        (broken / "config.json").write_text(json.dumps({**described, **change}))
        with pytest.raises(ValueError, match=f"model.pretrained: .*{words}"):
            train.run(config(broken), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_whose_model_has_moved_says_which(finished, published, tmp_path):
    folder, _ = finished
    moved = tmp_path / "moved"
    shutil.copytree(folder, moved)
    saved = json.loads((moved / "config.json").read_text())
    saved["model"]["pretrained"] = "gone"
    (moved / "config.json").write_text(json.dumps(saved))
    with pytest.raises(ValueError, match=r"config\.json: model\.pretrained: .*gone"):
        workdir.load_experiment(moved)
