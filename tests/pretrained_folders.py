"""Tiny models in the folders of Hugging Face, drawn from numpy alone.

Weights of queries and keys are 25 times what is usual, so that attention is sharp: in a
model that attends to everything alike a wrong theta or scaling would go unseen.
"""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy

from agentic_grpo.models import transformer

LAYERS, H, V, HEADS, KV_HEADS, MLP = 3, 64, 96, 4, 2, 96
T = 200
#: Of the logits these are stored.
POSITIONS, ENTRIES = (0, 7, 63, 100, 150, 199), 12

_LLAMA_3 = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,  # 200 tokens reach the stretched part
}
#: Name -> what differs from ``_COMMON``.
MODELS = {
    "llama": {"tie_word_embeddings": True, "rope_theta": 100000.0},
    "llama_wide_heads": {"head_dim": 32},
    "llama_3": {
        "tie_word_embeddings": True,
        "rope_theta": 500000.0,
        "rope_scaling": _LLAMA_3,
    },
    "qwen2": {"model_type": "qwen2", "rope_theta": 1000000.0},
    "qwen3": {
        "model_type": "qwen3",
        "tie_word_embeddings": True,
        "head_dim": 32,
        "rope_theta": 1000000.0,
    },
}
_COMMON = {
    "model_type": "llama",
    "vocab_size": V,
    "num_hidden_layers": LAYERS,
    "hidden_size": H,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "intermediate_size": MLP,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "max_position_embeddings": 512,
}


def config_of(name) -> dict:
    """In the style of transformers 4."""
    return {**_COMMON, **MODELS[name]}


def in_style_of_transformers_5(config) -> dict:
    config = dict(config)
    rope = {"rope_type": "default", **config.pop("rope_scaling", {})}
    config["rope_parameters"] = {**rope, "rope_theta": config.pop("rope_theta")}
    return config


def shapes_of(config) -> dict:
    """Name -> shape, as transformers has them; written out apart from our table."""
    size = config.get("head_dim", H // HEADS)
    shapes = {"model.embed_tokens.weight": (V, H), "model.norm.weight": (H,)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (V, H)
    for layer in range(LAYERS):
        block = f"model.layers.{layer}."
        for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            shapes[f"{block}self_attn.{name}_proj.weight"] = (heads * size, H)
            if config["model_type"] == "qwen2":
                shapes[f"{block}self_attn.{name}_proj.bias"] = (heads * size,)
            if config["model_type"] == "qwen3" and name != "v":
                shapes[f"{block}self_attn.{name}_norm.weight"] = (size,)
        shapes[f"{block}self_attn.o_proj.weight"] = (H, HEADS * size)
        shapes[f"{block}mlp.gate_proj.weight"] = (MLP, H)
        shapes[f"{block}mlp.up_proj.weight"] = (MLP, H)
        shapes[f"{block}mlp.down_proj.weight"] = (H, MLP)
        shapes[f"{block}input_layernorm.weight"] = (H,)
        shapes[f"{block}post_attention_layernorm.weight"] = (H,)
    return shapes


def draw_tensors(config, *, seed=0) -> dict:
    """Float32 tensors by name, from a generator of their own each."""
    tensors = {}
    for number, (name, shape) in enumerate(sorted(shapes_of(config).items())):
        draw = np.random.default_rng([seed, number]).standard_normal(shape)
        if name.endswith("norm.weight"):
            # Normed heads are not sharpened by their matrix, so by their norm.
            draw = (1.0 + 0.2 * draw) * (2.0 if "self_attn" in name else 1.0)
        elif name.endswith(("q_proj.weight", "k_proj.weight")):
            draw *= 25 * 0.02
        elif name.endswith(("embed_tokens.weight", "lm_head.weight", ".bias")):
            draw *= 0.125
        else:
            draw *= 3 * 0.02
        tensors[name] = draw.astype(np.float32)
    return tensors


def write_folder(folder, config, tensors, *, shards=1):
    """Writes config and weights; returns the folder."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    metadata = {"format": "pt"}
    if shards == 1:
        safetensors.numpy.save_file(
            tensors, folder / "model.safetensors", metadata=metadata
        )
        return folder
    weight_map, names = {}, sorted(tensors)
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        held = {name: tensors[name] for name in names[number::shards]}
        safetensors.numpy.save_file(held, folder / file, metadata=metadata)
        weight_map |= dict.fromkeys(held, file)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def draw_text(rows=1) -> np.ndarray:
    """Tokens [rows, T]."""
    return np.random.default_rng(7).integers(0, V, (rows, T)).astype(np.int32)


@functools.partial(jax.jit, static_argnums=0)
def compute_logits(config, params, tokens):
    """Logits [N, T, V] of whole rows."""
    model = transformer.Transformer(config)
    shape = tokens.shape
    positions = jnp.broadcast_to(jnp.arange(shape[1], dtype=jnp.int32), shape)
    mask = jnp.tril(jnp.ones((1, shape[1], shape[1]), bool))
    hidden = model.hidden(params, tokens, positions, mask)
    return hidden @ model.unembedding(params).T
