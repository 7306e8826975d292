"""Hugging Face folders: the logits of transformers, and what is refused.

``logits.json`` holds logits by transformers 5.24 with torch 2.13 (float32, eager
attention) of the models in ``pretrained_folders``, for the text drawn there: at six
positions the first twelve. ``test_against_transformers`` computes all of them anew.
"""

import functools
import json
import pathlib
import sys

import jax
import ml_dtypes
import numpy as np
import pytest

from agentic_grpo.models import transformer
from agentic_grpo.models.pretrained import load_pretrained

pytest.importorskip("safetensors", reason="an extra: llm")

import pretrained_folders as folders

EXPECTED = json.loads((pathlib.Path(__file__).parent / "logits.json").read_text())


def largest_gap(folder, name, **choices):
    """To the stored logits, relative to the largest of them."""
    config, params = load_pretrained(folder, **choices)
    got = np.asarray(folders.compute_logits(config, params, folders.draw_text())[0])
    expected = np.array(EXPECTED[name])
    gap = np.abs(got[list(folders.POSITIONS), : folders.ENTRIES] - expected).max()
    return gap / np.abs(expected).max()


@functools.cache
def drawn(name):
    config = folders.config_of(name)
    return config, folders.draw_tensors(config)


def assert_same(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.parametrize("name", folders.MODELS)
def test_logits_are_those_of_transformers(name, tmp_path):
    folder = folders.write_folder(tmp_path, *drawn(name))
    assert largest_gap(folder, name) < 1e-4


@pytest.mark.parametrize("name", folders.MODELS)
def test_weights_are_sharp_enough_to_feel_a_wrong_rotation(name, tmp_path):
    config, tensors = drawn(name)
    if "rope_scaling" in config:
        wrong = {**config, "rope_scaling": None}
    else:
        wrong = {**config, "rope_theta": 2 * config["rope_theta"]}
    assert largest_gap(folders.write_folder(tmp_path, wrong, tensors), name) > 0.3


def test_scanned_layers_read_the_same_folder(tmp_path):
    folder = folders.write_folder(tmp_path, *drawn("llama_3"))
    assert largest_gap(folder, "llama_3", layers="scanned") < 1e-4
    scanned, unrolled = (
        load_pretrained(folder, layers=layers)[1] for layers in transformer.LAYERS
    )
    assert_same(scanned, unrolled)


@pytest.mark.parametrize("name", folders.MODELS)
def test_style_of_the_config_and_number_of_files_do_not_matter(name, tmp_path):
    config, tensors = drawn(name)
    modern = folders.in_style_of_transformers_5(config)
    one = load_pretrained(folders.write_folder(tmp_path / "4", config, tensors))
    other = load_pretrained(
        folders.write_folder(tmp_path / "5", modern, tensors, shards=3)
    )
    assert one[0] == other[0]
    assert_same(one[1], other[1])


@pytest.mark.parametrize("name", folders.MODELS)
def test_the_tree_is_that_of_a_fresh_model(name, tmp_path):
    config, params = load_pretrained(folders.write_folder(tmp_path, *drawn(name)))
    fresh = jax.eval_shape(transformer.Transformer(config).init, jax.random.key(0))
    assert jax.tree.structure(params) == jax.tree.structure(fresh)
    jax.tree.map(
        lambda one, other: np.testing.assert_equal(
            (one.shape, one.dtype), (other.shape, other.dtype)
        ),
        params,
        fresh,
    )


@pytest.mark.parametrize("stored", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("wanted", ["float32", "bfloat16"])
def test_any_floating_type_becomes_the_one_that_is_asked_for(stored, wanted, tmp_path):
    config, tensors = drawn("llama")
    rounded = {name: array.astype(stored) for name, array in tensors.items()}
    folder = folders.write_folder(tmp_path, config, rounded)
    config, params = load_pretrained(folder, param_dtype=wanted, dtype=wanted)
    assert config.dtype == config.param_dtype == wanted
    embedding = rounded["model.embed_tokens.weight"].astype(wanted)
    assert params["embedding"].dtype == wanted
    np.testing.assert_array_equal(params["embedding"], embedding)


def test_absent_keys_mean_what_transformers_takes_them_to_mean(tmp_path):
    config, tensors = drawn("llama")
    bare = dict(config)
    for key in ("num_key_value_heads", "rms_norm_eps", "rope_theta", "hidden_act"):
        del bare[key]
    for name in tensors:
        if "k_proj" in name or "v_proj" in name:
            array = np.concatenate([tensors[name], tensors[name]])  # as many as queries
            tensors = {**tensors, name: array}
    config, _ = load_pretrained(folders.write_folder(tmp_path, bare, tensors))
    assert (config.num_kv_heads, config.head_size) == (4, 16)
    assert (config.norm_epsilon, config.rope_theta) == (1e-6, 1e4)


def test_a_head_that_repeats_the_embedding_is_no_contradiction(tmp_path):
    config, tensors = drawn("llama")
    doubled = {**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"]}
    config, params = load_pretrained(folders.write_folder(tmp_path, config, doubled))
    assert config.tied_embeddings and "unembedding" not in params


def test_windows_that_no_layer_uses_are_let_be(tmp_path):
    config, tensors = drawn("qwen2")
    config = {**config, "sliding_window": 64, "use_sliding_window": False}
    load_pretrained(folders.write_folder(tmp_path, config, tensors))
    used_by_none = {**config, "use_sliding_window": True, "max_window_layers": 3}
    load_pretrained(folders.write_folder(tmp_path, used_by_none, tensors))


def set_to(**fields):
    return lambda config, tensors: config.update(fields)


def without(*names):
    def remove(config, tensors):
        for name in names:
            del (tensors if name in tensors else config)[name]

    return remove


def with_tensor(name, array):
    return lambda config, tensors: tensors.update({name: array})


NORM = "model.layers.1.input_layernorm.weight"
REFUSALS = {
    "another architecture": (
        "llama",
        set_to(model_type="gpt2"),
        "model_type='gpt2' must be one of llama, qwen2, qwen3",
    ),
    "a size that is not given": (
        "llama",
        without("hidden_size"),
        "config.json must say hidden_size",
    ),
    "a size that is no number": (
        "llama",
        set_to(intermediate_size="96"),
        "mlp_size='96' must be an integer",
    ),
    "heads that do not divide": (
        "llama",
        set_to(num_attention_heads=5),
        "hidden_size=64 must be a multiple of num_attention_heads=5",
    ),
    "another activation": (
        "llama",
        set_to(hidden_act="gelu"),
        "hidden_act='gelu' must be 'silu'",
    ),
    "a bias in the MLP": ("llama", set_to(mlp_bias=True), "mlp_bias=True must be"),
    "a bias on the output": (
        "qwen3",
        set_to(attention_bias=True),
        "attention_bias=True must be False for model_type='qwen3'",
    ),
    "quantised weights": (
        "llama",
        set_to(quantization_config={"bits": 4}),
        "quantization_config=.* must be None",
    ),
    "another rope": (
        "llama",
        set_to(rope_scaling={"type": "dynamic", "factor": 2.0}),
        "rope_type='dynamic' must be 'default' or 'llama3'",
    ),
    "a rope of a part of each head": (
        "llama",
        set_to(rope_parameters={"partial_rotary_factor": 0.5}),
        "partial_rotary_factor=0.5 must be 1.0",
    ),
    "a rope that lacks a number": (
        "llama_3",
        set_to(rope_scaling={"rope_type": "llama3", "factor": 8.0}),
        "must say low_freq_factor",
    ),
    "two thetas": (
        "llama",
        set_to(rope_parameters={"rope_theta": 1.0}),
        "rope_theta=100000.0 must equal that of rope_parameters, 1.0",
    ),
    "sliding windows": (
        "qwen2",
        set_to(use_sliding_window=True, max_window_layers=2),
        "layer_types: 'sliding_attention' must be 'full_attention'",
    ),
    "windows by layer": (
        "qwen3",
        set_to(layer_types=["full_attention", "sliding_attention"]),
        "layer_types: 'sliding_attention' must be 'full_attention'",
    ),
    "a missing tensor": ("llama", without(NORM), f"lacks the tensors {NORM}"),
    "fewer blocks than the config says": (
        "llama",
        set_to(num_hidden_layers=4),
        "lacks the tensors model.layers.3.* and 5 more",
    ),
    "a tensor without a place": (
        "llama",
        with_tensor("model.layers.0.mlp.router.weight", np.ones(3, np.float32)),
        "the tensors model.layers.0.mlp.router.weight have no place",
    ),
    "more blocks than the config says": (
        "llama",
        set_to(num_hidden_layers=2),
        "the tensors model.layers.2.* have no place",
    ),
    "another shape": (
        "llama",
        with_tensor(NORM, np.ones(63, np.float32)),
        rf"the shape of {NORM}, \(63,\), must be \(64,\)",
    ),
    "a head that contradicts tying": (
        "llama",
        with_tensor("lm_head.weight", np.ones((96, 64), np.float32)),
        "tie_word_embeddings=True contradicts lm_head.weight",
    ),
    "no head where none is tied": (
        "llama_wide_heads",
        without("lm_head.weight"),
        "tie_word_embeddings=False must come with lm_head.weight",
    ),
    "a type that we do not read": (
        "llama",
        with_tensor(NORM, np.ones(64, ml_dtypes.float8_e4m3fn)),
        f"the type of {NORM}, F8_E4M3, must be one of F64, F32, F16, BF16",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_does_not_fit_is_refused_by_name(case, tmp_path):
    name, change, message = REFUSALS[case]
    config, tensors = map(dict, drawn(name))
    change(config, tensors)
    folder = folders.write_folder(tmp_path, config, tensors)
    with pytest.raises(ValueError, match=f"{folder}: .*{message}"):
        load_pretrained(folder)


def damage(folder, case):
    shard = folder / "model-00002-of-00002.safetensors"
    index = folder / "model.safetensors.index.json"
    if case == "no config":
        (folder / "config.json").unlink()
    elif case == "a config that is no JSON":
        (folder / "config.json").write_text("{")
    elif case == "a config that is a list":
        (folder / "config.json").write_text("[]")
    elif case == "no weights":
        index.unlink()
    elif case == "a missing file":
        shard.unlink()
    elif case == "a file that was cut off":
        shard.write_bytes(shard.read_bytes()[:-100])
    elif case == "a pointer instead of a file":
        shard.write_text("version https://git-lfs.github.com/spec/v1\n")
    elif case == "a file elsewhere":
        index.write_text(index.read_text().replace("model-0", "../model-0"))
    elif case == "a tensor in another file":
        index.write_text(index.read_text().replace("00002-of", "00001-of"))
    elif case == "a tensor twice":
        shard.write_bytes((folder / "model-00001-of-00002.safetensors").read_bytes())


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("no config", "config.json is missing"),
        ("a config that is no JSON", "config.json is not JSON"),
        ("a config that is a list", "config.json must hold an object"),
        ("no weights", "neither model.safetensors nor .* is there"),
        ("a missing file", "model-00002-of-00002.safetensors is missing"),
        ("a file that was cut off", "model-00002.* is no safetensors file"),
        ("a pointer instead of a file", "model-00002.* is no safetensors file"),
        ("a file elsewhere", r"'\.\./model-0.*' must be the name of a file beside it"),
        ("a tensor in another file", "model-00001-of-00002.safetensors lacks"),
        ("a tensor twice", "model-00002.* is in another file too"),
    ],
)
def test_damaged_folders_are_refused_by_file(case, message, tmp_path):
    folder = folders.write_folder(tmp_path, *drawn("llama"), shards=2)
    load_pretrained(folder)
    damage(folder, case)
    with pytest.raises(ValueError, match=message):
        load_pretrained(folder)


def test_what_is_neither_folder_nor_gguf_is_refused(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"")
    for name in ("model.bin", "nowhere", "nowhere.gguf"):
        with pytest.raises(ValueError, match=rf"{name}: must be a folder with"):
            load_pretrained(tmp_path / name)


def test_a_missing_library_is_named_with_the_extra_that_brings_it(
    tmp_path, monkeypatch
):
    folder = folders.write_folder(tmp_path, *drawn("llama"))
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"pip install 'agentic_grpo\[llm\]"):
        load_pretrained(folder)
