"""Which published tensor stands where in our parameter tree: one table for all.

Published matrices are [out, in], ours [in, out]; where ours are fused, the published
ones stand side by side, in the order of the table.
"""

import enum
from typing import NamedTuple

#: Fields of ``TransformerConfig`` that follow from the name of an architecture: the
#: ``model_type`` of Hugging Face, the ``general.architecture`` of GGUF.
ARCHITECTURES = {
    "llama": {"attention_bias": False, "qk_norm": False},
    "qwen2": {"attention_bias": True, "qk_norm": False},
    "qwen3": {"attention_bias": False, "qk_norm": True},
}


class Format(enum.IntEnum):
    """A column of the table."""

    HUGGING_FACE = 0
    GGUF = 1


#: Name of a leaf -> the tensors that stand in it, as Hugging Face and GGUF name them.
_ENDS = {
    "embedding": [("model.embed_tokens.weight", "token_embd.weight")],
    "unembedding": [("lm_head.weight", "output.weight")],
    "final_norm/scale": [("model.norm.weight", "output_norm.weight")],
}
_BLOCK = {
    "attention_norm/scale": [("input_layernorm.weight", "attn_norm.weight")],
    "attention/qkv/kernel": [
        ("self_attn.q_proj.weight", "attn_q.weight"),
        ("self_attn.k_proj.weight", "attn_k.weight"),
        ("self_attn.v_proj.weight", "attn_v.weight"),
    ],
    "attention/qkv/bias": [
        ("self_attn.q_proj.bias", "attn_q.bias"),
        ("self_attn.k_proj.bias", "attn_k.bias"),
        ("self_attn.v_proj.bias", "attn_v.bias"),
    ],
    "attention/query_norm/scale": [("self_attn.q_norm.weight", "attn_q_norm.weight")],
    "attention/key_norm/scale": [("self_attn.k_norm.weight", "attn_k_norm.weight")],
    "attention/out/kernel": [("self_attn.o_proj.weight", "attn_output.weight")],
    "mlp_norm/scale": [("post_attention_layernorm.weight", "ffn_norm.weight")],
    "mlp/gate_up/kernel": [
        ("mlp.gate_proj.weight", "ffn_gate.weight"),
        ("mlp.up_proj.weight", "ffn_up.weight"),
    ],
    "mlp/down/kernel": [("mlp.down_proj.weight", "ffn_down.weight")],
}
_BLOCK_PREFIX = ("model.layers.{}.", "blk.{}.")


class Part(NamedTuple):
    """A published tensor: its name, and its shape as published."""

    name: str
    shape: tuple[int, ...]


def unembedding_name(form: Format) -> str:
    """The tensor that is there where embeddings are not tied."""
    return _ENDS["unembedding"][0][form]


def parts_of_leaf(config, path: str, shape, form: Format) -> tuple[Part, ...]:
    """The published tensors that make up one leaf.

    Args:
      config: a ``TransformerConfig``.
      path: of the leaf, "blocks/0/mlp/down/kernel".
      shape: of the leaf.
      form: whose names.
    """
    if path.startswith("blocks/"):
        _, number, name = path.split("/", 2)
        prefix, names = _BLOCK_PREFIX[form].format(number), _BLOCK[name]
    else:
        prefix, names = "", _ENDS[path]
    widths = _widths(config, path) or (shape[-1],)
    rest = shape[:-1]
    return tuple(
        Part(prefix + name[form], (width, *rest) if is_matrix(path) else (*rest, width))
        for name, width in zip(names, widths, strict=True)
    )


def is_matrix(path: str) -> bool:
    """Whether the leaf is the transpose of what is published."""
    return path.endswith("/kernel")


def _widths(config, path):
    """Columns of the parts of a fused leaf; None for others."""
    if "/qkv/" in path:
        keys = config.num_kv_heads * config.head_size
        return config.num_heads * config.head_size, keys, keys
    if "/gate_up/" in path:
        return config.mlp_size, config.mlp_size
    return None


def name_of_architecture(config) -> str:
    """The architecture that a config is of.

    Raises:
      ValueError: none has both a bias and normed heads.
    """
    fields = {"attention_bias": config.attention_bias, "qk_norm": config.qk_norm}
    for name, described in ARCHITECTURES.items():
        if described == fields:
            return name
    raise ValueError(
        f"attention_bias={config.attention_bias!r}, qk_norm={config.qk_norm!r} must be "
        f"those of one of {', '.join(ARCHITECTURES)}; none has both"
    )
