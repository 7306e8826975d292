"""GGUF files that the test writes: every place, every type, every refusal."""

import dataclasses

import jax
import numpy as np
import pytest

from agentic_grpo.models.attention import RopeScaling
from agentic_grpo.models.pretrained import load_pretrained
from agentic_grpo.models.pretrained.gguf_file import open_file

pytest.importorskip("gguf", reason="an extra: llm")

import gguf
import pretrained_folders as folders

#: As llama.cpp's converter names what Hugging Face names otherwise; written out apart
#: from our table.
NAMES = {
    "model.embed_tokens": "token_embd",
    "lm_head": "output",
    "model.norm": "output_norm",
    "model.layers.": "blk.",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "input_layernorm": "attn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def name_in_gguf(name):
    for theirs, its in NAMES.items():
        name = name.replace(theirs, its)
    return name


def permute(rows, heads):
    """As llama.cpp's converter does with q and k of a Llama."""
    halves = rows.reshape(heads, 2, len(rows) // heads // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def metadata_of(config):
    architecture = config["model_type"]
    size = config.get("head_dim", folders.H // folders.HEADS)
    return {
        "general.architecture": architecture,
        f"{architecture}.block_count": folders.LAYERS,
        f"{architecture}.context_length": 512,
        f"{architecture}.embedding_length": folders.H,
        f"{architecture}.feed_forward_length": folders.MLP,
        f"{architecture}.attention.head_count": folders.HEADS,
        f"{architecture}.attention.head_count_kv": folders.KV_HEADS,
        f"{architecture}.attention.key_length": size,
        f"{architecture}.attention.value_length": size,
        f"{architecture}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{architecture}.rope.freq_base": config["rope_theta"],
        f"{architecture}.rope.dimension_count": size,
    }


def convert(config, tensors):
    """Tensors by GGUF's names, as the converter arranges them."""
    converted = {}
    for name, array in tensors.items():
        if config["model_type"] == "llama" and "q_proj" in name:
            array = permute(array, folders.HEADS)
        if config["model_type"] == "llama" and "k_proj" in name:
            array = permute(array, folders.KV_HEADS)
        converted[name_in_gguf(name)] = array
    return converted


def write_file(path, metadata, tensors, types=None):
    """``types``: name -> quantisation; None: F32."""
    writer = gguf.GGUFWriter(path, metadata["general.architecture"])
    for key, value in metadata.items():
        if key == "general.architecture":
            continue
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        else:
            writer.add_uint32(key, value)
    for name, array in tensors.items():
        kind = (types or {}).get(name, gguf.GGMLQuantizationType.F32)
        writer.add_tensor(name, gguf.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def published(name):
    config = {**folders.config_of(name)}
    scaling = config.pop("rope_scaling", None)
    if scaling:
        config["rope_scaling"] = {**scaling, "original_max_position_embeddings": 8192}
    return config, folders.draw_tensors(config)


@pytest.mark.parametrize("name", folders.MODELS)
def test_a_file_holds_what_the_folder_holds(name, tmp_path):
    config, tensors = published(name)
    expected = load_pretrained(folders.write_folder(tmp_path, config, tensors))
    converted = convert(config, tensors)
    if "rope_scaling" in config:
        converted["rope_freqs.weight"] = llama_3_divisors(config)
    path = write_file(tmp_path / "model.gguf", metadata_of(config), converted)
    got = load_pretrained(path)
    assert got[0] == expected[0]
    jax.tree.map(np.testing.assert_array_equal, got[1], expected[1])


def llama_3_divisors(config):
    """As llama.cpp's converter computes them."""
    scaling, size = config["rope_scaling"], folders.H // folders.HEADS
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    length, divisors = scaling["original_max_position_embeddings"], []
    for number in range(0, size, 2):
        wavelength = 2 * np.pi * config["rope_theta"] ** (number / size)
        if wavelength < length / high:
            divisors.append(1.0)
        elif wavelength > length / low:
            divisors.append(scaling["factor"])
        else:
            smooth = (length / wavelength - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / scaling["factor"] + smooth))
    return np.array(divisors, np.float32)


def test_stored_divisors_become_the_published_scaling(tmp_path):
    config, tensors = published("llama_3")
    converted = convert(config, tensors)
    divisors = llama_3_divisors(config)
    assert divisors[0] == 1.0 and divisors[-1] == 32.0
    converted["rope_freqs.weight"] = divisors
    got, _ = load_pretrained(
        write_file(tmp_path / "a.gguf", metadata_of(config), converted)
    )
    assert got.rope_scaling == RopeScaling(
        factor=32.0, low_turns=1.0, high_turns=4.0, original_length=8192
    )
    converted["rope_freqs.weight"] = np.linspace(1, 32, len(divisors), dtype="float32")
    other = write_file(tmp_path / "b.gguf", metadata_of(config), converted)
    with pytest.raises(ValueError, match=r"rope_freqs.weight must be that of Llama 3"):
        load_pretrained(other)


# Slow dequantisers, a block of 32 numbers at a time, from llama.cpp's description.


def slow_q8_0(block):
    return float(block[:2].view(np.float16)[0]) * block[2:].view(np.int8)


def slow_q4_0(block):
    scale, halves = float(block[:2].view(np.float16)[0]), block[2:]
    return scale * (np.concatenate([halves & 15, halves >> 4]) - 8.0)


def slow_q4_1(block):
    scale, smallest = block[:4].view(np.float16).astype(float)
    return scale * np.concatenate([block[4:] & 15, block[4:] >> 4]) + smallest


@pytest.mark.parametrize(
    ("kind", "slow", "bytes_per_block"),
    [("Q8_0", slow_q8_0, 34), ("Q4_0", slow_q4_0, 18), ("Q4_1", slow_q4_1, 20)],
)
def test_quantised_blocks_become_the_numbers_that_they_stand_for(
    kind, slow, bytes_per_block, tmp_path
):
    config, tensors = published("llama")
    converted, kind = convert(config, tensors), gguf.GGMLQuantizationType[kind]
    types = {name: kind for name, array in converted.items() if array.ndim == 2}
    path = write_file(tmp_path / "q.gguf", metadata_of(config), converted, types)
    _, params = load_pretrained(path)

    def dequantise(array):
        blocks = gguf.quantize(array, kind).reshape(-1, bytes_per_block)
        return np.stack([slow(block) for block in blocks]).reshape(array.shape)

    down = dequantise(converted["blk.1.ffn_down.weight"])
    np.testing.assert_allclose(
        params["blocks"]["1"]["mlp"]["down"]["kernel"], down.T, rtol=1e-6
    )
    queries = dequantise(converted["blk.2.attn_q.weight"])
    np.testing.assert_allclose(
        permute(
            np.asarray(params["blocks"]["2"]["attention"]["qkv"]["kernel"]).T[:64], 4
        ),
        queries,
        rtol=1e-6,
    )
    # Rounding to 4 or 8 bits is seen, and is no more than that.
    gap = np.abs(down - tensors["model.layers.1.mlp.down_proj.weight"]).max()
    assert 1e-4 < gap < 0.03


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q5_0", "Q5_1"])
def test_other_types_are_read_too(kind, tmp_path):
    config, tensors = published("qwen2")
    converted, kind = convert(config, tensors), gguf.GGMLQuantizationType[kind]
    types = {"token_embd.weight": kind}
    path = write_file(tmp_path / "q.gguf", metadata_of(config), converted, types)
    _, params = load_pretrained(path, param_dtype="bfloat16")
    np.testing.assert_allclose(
        np.asarray(params["embedding"], np.float32),
        converted["token_embd.weight"],
        atol=0.03,
    )


def test_blocks_of_256_are_read(tmp_path):
    """Q6_K: 6 bits, less 32, by a scale of 16 numbers, by one of all."""
    scales = np.arange(1, 17, dtype=np.int8).view(np.uint8)
    block = [np.zeros(192, np.uint8), scales, np.array([0.5], "float16").view(np.uint8)]
    path, kind = tmp_path / "k.gguf", gguf.GGMLQuantizationType.Q6_K
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in metadata_of(folders.config_of("llama")).items():
        if isinstance(value, int):
            writer.add_uint32(key, value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    rows = np.concatenate(block)[None]
    writer.add_tensor("token_embd.weight", rows, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    stored = open_file(path)[1]["token_embd.weight"]
    assert stored.shape == (1, 256)
    expected = -32 * 0.5 * np.repeat(np.arange(1, 17), 16)
    np.testing.assert_array_equal(stored.read()[0], expected)


def test_sizes_that_a_file_leaves_out_follow_from_the_others(tmp_path):
    config, tensors = published("llama")
    metadata = metadata_of(config)
    for key in ("key_length", "value_length"):
        del metadata[f"llama.attention.{key}"]
    got, _ = load_pretrained(
        write_file(tmp_path / "m.gguf", metadata, convert(config, tensors))
    )
    assert got.head_size == 16


REFUSALS = {
    "another architecture": (
        {"general.architecture": "gemma"},
        "general.architecture='gemma' must be one of llama, qwen2, qwen3",
    ),
    "a missing size": (
        {"llama.block_count": None},
        "the metadata must say llama.block_count",
    ),
    "a rope that is stretched": (
        {"llama.rope.scaling.type": "yarn"},
        "llama.rope.scaling.type='yarn' must be 'none'",
    ),
    "a rope of a part of each head": (
        {"llama.rope.dimension_count": 8},
        "llama.rope.dimension_count=8 must be 16",
    ),
    "values of another width": (
        {"llama.attention.value_length": 32},
        "llama.attention.value_length=32 must be 16",
    ),
    "experts": ({"llama.expert_count": 8}, "llama.expert_count=8 must be 0"),
    "a sliding window": (
        {"llama.attention.sliding_window": 64},
        "llama.attention.sliding_window=64 must be 0",
    ),
    "a part of several": ({"split.count": 3}, "split.count must be 1; join the parts"),
    "another shape": (
        {"llama.feed_forward_length": 64},
        r"the shape of blk.0.ffn_down.weight, \(64, 96\), must be \(64, 64\)",
    ),
    "more blocks than are there": (
        {"llama.block_count": 4},
        "it lacks the tensors blk.3.* and 5 more",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_does_not_fit_is_refused_by_name(case, tmp_path):
    changes, message = REFUSALS[case]
    config, tensors = published("llama")
    metadata = {**metadata_of(config), **changes}
    metadata = {key: value for key, value in metadata.items() if value is not None}
    path = write_file(tmp_path / "m.gguf", metadata, convert(config, tensors))
    with pytest.raises(ValueError, match=f"{path}: .*{message}"):
        load_pretrained(path)


def test_tensors_that_do_not_fit_are_refused_by_name(tmp_path):
    config, tensors = published("llama")
    converted = convert(config, tensors)
    extra = {**converted, "blk.0.attn_q.bias": np.ones(64, np.float32)}
    path = write_file(tmp_path / "a.gguf", metadata_of(config), extra)
    with pytest.raises(ValueError, match=r"blk.0.attn_q.bias have no place"):
        load_pretrained(path)
    del converted["token_embd.weight"]
    path = write_file(tmp_path / "b.gguf", metadata_of(config), converted)
    with pytest.raises(ValueError, match=r"it lacks the tensors token_embd.weight"):
        load_pretrained(path)


def test_types_that_are_not_read_are_refused_by_name(tmp_path):
    config, tensors = published("llama")
    converted = convert(config, tensors)
    kind = gguf.GGMLQuantizationType.TQ1_0  # 256 numbers a block
    converted["blk.0.ffn_up.weight"] = np.zeros((64, 256), np.float32)
    path = write_file(
        tmp_path / "m.gguf",
        metadata_of(config),
        converted,
        {"blk.0.ffn_up.weight": kind},
    )
    with pytest.raises(ValueError, match=r"blk.0.ffn_up.weight, TQ1_0, must be one of"):
        load_pretrained(path)


def test_files_that_are_no_gguf_are_refused(tmp_path):
    config, tensors = published("llama")
    path = write_file(
        tmp_path / "m.gguf", metadata_of(config), convert(config, tensors)
    )
    whole = path.read_bytes()
    for content in (b"", b"version https://git-lfs", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"m.gguf: not a GGUF file"):
            load_pretrained(path)


def test_epsilon_is_the_decimal_that_was_meant(tmp_path):
    config, tensors = published("llama")
    path = write_file(
        tmp_path / "m.gguf", metadata_of(config), convert(config, tensors)
    )
    got, _ = load_pretrained(path)
    assert dataclasses.asdict(got)["norm_epsilon"] == 1e-5  # not 9.99999975e-06
