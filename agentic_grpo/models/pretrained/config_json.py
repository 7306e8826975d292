"""``config.json`` of a Hugging Face folder, as transformers 4 and 5 write it."""

from agentic_grpo.models.attention import RopeScaling
from agentic_grpo.models.pretrained.architectures import (
    ARCHITECTURES,
    name_of_architecture,
)

#: Our field -> theirs. All must be there.
_SIZES = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "hidden_size": "hidden_size",
    "num_heads": "num_attention_heads",
    "mlp_size": "intermediate_size",
}
#: What is the same in every decoder of ours, where it is said at all.
_FIXED = {
    "hidden_act": "silu",
    "mlp_bias": False,
    "partial_rotary_factor": 1.0,
    "quantization_config": None,
}
_ROPE_SCALING = {
    "factor": "factor",
    "low_turns": "low_freq_factor",
    "high_turns": "high_freq_factor",
    "original_length": "original_max_position_embeddings",
}
_CLASSES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}


def read_config(raw) -> dict:
    """Fields of ``TransformerConfig`` (all but types and ``layers``).

    Absent keys mean what transformers takes them to mean.

    Args:
      raw: the contents of ``config.json``.

    Raises:
      ValueError: another architecture, or something in it that our decoder lacks.
    """
    architecture = raw.get("model_type")
    if architecture not in ARCHITECTURES:
        raise ValueError(
            f"model_type={architecture!r} must be one of {', '.join(ARCHITECTURES)}"
        )
    fields = ARCHITECTURES[architecture]
    _check_fixed(raw)
    if raw.get("attention_bias") and not fields["attention_bias"]:
        raise ValueError(
            f"attention_bias=True must be False for model_type={architecture!r}: the "
            "bias of o_proj has no place"
        )
    _check_windows(raw)
    sizes = {ours: _need(raw, theirs) for ours, theirs in _SIZES.items()}
    theta, scaling = _read_rope(raw)
    return {
        **sizes,
        **fields,
        "num_kv_heads": raw.get("num_key_value_heads") or sizes["num_heads"],
        "head_size": raw.get("head_dim") or _default_head_size(architecture, sizes),
        "tied_embeddings": raw.get("tie_word_embeddings", False),
        "rope_theta": theta,
        "rope_scaling": scaling,
        "norm_epsilon": raw.get("rms_norm_eps", 1e-6),
    }


def write_config(config, *, context_length) -> dict:
    """The reverse, in the style of transformers 4, which 5 reads too."""
    architecture = name_of_architecture(config)
    scaling = config.rope_scaling and {
        "rope_type": "llama3",
        **{
            theirs: getattr(config.rope_scaling, ours)
            for ours, theirs in _ROPE_SCALING.items()
        },
    }
    sizes = {theirs: getattr(config, ours) for ours, theirs in _SIZES.items()}
    return {
        "architectures": [_CLASSES[architecture]],
        "model_type": architecture,
        **sizes,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_size,
        "hidden_act": "silu",
        "tie_word_embeddings": config.tied_embeddings,
        "rope_theta": config.rope_theta,
        "rope_scaling": scaling,
        "rms_norm_eps": config.norm_epsilon,
        "max_position_embeddings": context_length,
        "torch_dtype": config.param_dtype.name,
        # Else transformers takes the numbers of Llama's vocabulary.
        "bos_token_id": None,
        "eos_token_id": None,
    }


def _default_head_size(architecture, sizes):
    if architecture == "qwen3":
        return 128
    if sizes["hidden_size"] % sizes["num_heads"]:
        raise ValueError(
            f"hidden_size={sizes['hidden_size']} must be a multiple of "
            f"num_attention_heads={sizes['num_heads']} where head_dim is not given"
        )
    return sizes["hidden_size"] // sizes["num_heads"]


def _need(raw, key):
    if raw.get(key) is None:
        raise ValueError(f"config.json must say {key}")
    return raw[key]


def _check_fixed(raw):
    for key, value in _FIXED.items():
        if raw.get(key, value) != value:
            raise ValueError(f"{key}={raw[key]!r} must be {value!r}")


def _check_windows(raw):
    """Windows that slide change who sees whom; those that no layer uses are let be."""
    layers, kinds = raw.get("num_hidden_layers", 0), raw.get("layer_types")
    if kinds is None and raw.get("use_sliding_window"):
        full = raw.get("max_window_layers", layers)
        kinds = ["full_attention"] * full + ["sliding_attention"] * (layers - full)
    for kind in kinds or ():
        if kind != "full_attention":
            raise ValueError(
                f"layer_types: {kind!r} must be 'full_attention'; sliding windows "
                "(use_sliding_window) are not ours"
            )


def _read_rope(raw):
    """(theta, ``RopeScaling`` or None); transformers 5 has both in rope_parameters."""
    parameters = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    theta = parameters.get("rope_theta", raw.get("rope_theta", 10000.0))
    if raw.get("rope_theta", theta) != theta:
        raise ValueError(
            f"rope_theta={raw['rope_theta']!r} must equal that of rope_parameters, "
            f"{theta!r}"
        )
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    _check_fixed(parameters)
    if kind == "default":
        return theta, None
    if kind != "llama3":
        raise ValueError(f"rope_type={kind!r} must be 'default' or 'llama3'")
    return theta, RopeScaling(
        **{ours: _need(parameters, theirs) for ours, theirs in _ROPE_SCALING.items()}
    )
