"""What is exported is what was published, and comes back bit by bit."""

import dataclasses
import json
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo import models
from agentic_grpo.models import transformer
from agentic_grpo.models.pretrained import export_pretrained, load_pretrained
from agentic_grpo.texts import load_tokenizer

pytest.importorskip("safetensors", reason="an extra: llm")

import pretrained_folders as folders
import safetensors.numpy
import tiny_tokenizers


def load(folder, name, **choices):
    config = folders.config_of(name)
    folders.write_folder(folder, config, folders.draw_tensors(config))
    return load_pretrained(folder, **choices)


@pytest.mark.parametrize("name", folders.MODELS)
def test_the_tensors_are_those_that_were_published(name, tmp_path):
    config, params = load(tmp_path / "in", name)
    export_pretrained(tmp_path / "out", config, params, context_length=512)
    published, exported = (
        safetensors.numpy.load_file(tmp_path / side / "model.safetensors")
        for side in ("in", "out")
    )
    assert set(exported) == set(published)
    for tensor, array in published.items():
        np.testing.assert_array_equal(exported[tensor], array, err_msg=tensor)
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    assert folders.config_of(name).items() <= written.items()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


@pytest.mark.parametrize("type_of_params", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", folders.MODELS)
def test_an_export_comes_back_bit_by_bit(name, type_of_params, tmp_path):
    config, params = load(tmp_path / "in", name, param_dtype=type_of_params)
    export_pretrained(tmp_path / "out", config, params, context_length=512)
    again = load_pretrained(tmp_path / "out", param_dtype=type_of_params)
    assert again[0] == config
    jax.tree.map(np.testing.assert_array_equal, again[1], params)


def test_the_page_of_the_room_does_what_it_says(tmp_path, monkeypatch):
    page = pathlib.Path(models.__file__).parent / "README.md"
    code = page.read_text(encoding="utf-8").split("# Published weights")[1]
    weights, text = re.findall(r"```python\n(.*?)```", code, re.DOTALL)
    config, params = load(tmp_path / "Qwen2.5-Coder-0.5B", "qwen2")
    tiny_tokenizers.write_folder(
        tmp_path / "Qwen2.5-Coder-0.5B",
        tiny_tokenizers.train(),
        generation_config={"eos_token_id": 2},
    )
    monkeypatch.chdir(tmp_path)
    exec(weights, {})
    again = load_pretrained("trained")
    assert again[0] == config
    jax.tree.map(np.testing.assert_array_equal, again[1], params)
    names = {}
    exec(text, names)
    assert names["tokenizer"].decode(names["prompt"]).endswith("<|im_start|>assistant")
    assert load_tokenizer("trained").end_tokens == names["chat"].end_tokens


def test_a_model_of_ours_leaves_as_a_llama(tmp_path):
    config = transformer.TransformerConfig(
        vocabulary_size=11,
        num_layers=1,
        hidden_size=8,
        num_heads=3,  # 3 x 4 columns differ from the hidden size
        num_kv_heads=1,
        head_size=4,
        mlp_size=12,
    )
    params = transformer.Transformer(config).init(jax.random.key(0))
    export_pretrained(tmp_path / "deep" / "out", config, params, context_length=16)
    again = load_pretrained(tmp_path / "deep" / "out")
    assert again[0] == config
    jax.tree.map(np.testing.assert_array_equal, again[1], params)


def test_an_interrupted_export_does_not_stand_in_the_way(tmp_path):
    config, params = load(tmp_path / "in", "llama")
    (tmp_path / ".out.unfinished").mkdir()
    (tmp_path / ".out.unfinished" / "model.safetensors").write_text("half")
    export_pretrained(tmp_path / "out", config, params, context_length=512)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]
    jax.tree.map(
        np.testing.assert_array_equal, load_pretrained(tmp_path / "out")[1], params
    )


def test_what_cannot_be_exported_is_refused_and_nothing_is_written(tmp_path):
    config, params = load(tmp_path / "in", "llama")
    both = dataclasses.replace(config, attention_bias=True, qk_norm=True)
    deeper = dataclasses.replace(config, num_layers=4)
    wider = {**params, "embedding": jnp.zeros((97, 64))}
    for message, arguments in {
        "attention_bias=True, qk_norm=True must be": (both, params),
        "blocks/3/.*, None, must be": (deeper, params),
        r"params: the shape of embedding, \(97, 64\), must be \(96, 64\)": (
            config,
            wider,
        ),
        r"params: the shape of head, \(3,\), must be None": (
            config,
            {**params, "head": jnp.zeros(3)},
        ),
    }.items():
        with pytest.raises(ValueError, match=message):
            export_pretrained(tmp_path / "out", *arguments, context_length=512)
    with pytest.raises(ValueError, match=r"folder='.*/in' must be empty or not there"):
        export_pretrained(tmp_path / "in", config, params, context_length=512)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
