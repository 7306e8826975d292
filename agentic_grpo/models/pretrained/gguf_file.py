"""A GGUF file as llama.cpp writes it; quantised weights become floats."""

import pathlib
from collections.abc import Mapping

import numpy as np

from agentic_grpo.models.attention import RopeScaling, rope_divisors
from agentic_grpo.models.pretrained.architectures import (
    ARCHITECTURES,
    Format,
    unembedding_name,
)
from agentic_grpo.models.pretrained.parameters import Stored

_EMBEDDING = "token_embd.weight"
_ROPE_DIVISORS = "rope_freqs.weight"
_TYPES = (
    *("F32", "F16", "BF16"),
    *("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"),
    *("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
)
#: Of Llama 3.1's scaling GGUF keeps the divisors alone; the other published numbers.
_LLAMA_3 = {"low_turns": 1.0, "high_turns": 4.0, "original_length": 8192}


def open_file(path: pathlib.Path) -> tuple[dict, Mapping[str, Stored]]:
    """Fields of ``TransformerConfig``, and the tensors; none is read yet.

    Raises:
      ValueError: the file is damaged, of another architecture, or holds something that
        our decoder or the reader of ``gguf`` lacks.
    """
    reader = _open(path)
    architecture = _value(reader, "general.architecture")
    if architecture not in ARCHITECTURES:
        raise ValueError(
            f"general.architecture={architecture!r} must be one of "
            f"{', '.join(ARCHITECTURES)}"
        )
    stored = {tensor.name: _store(tensor) for tensor in reader.tensors}
    fields = _fields(reader, architecture, stored)
    if architecture == "llama":
        _straighten(stored, fields)
    return fields, stored


def _open(path):
    import gguf

    try:
        reader = gguf.GGUFReader(path)
    except (ValueError, IndexError, KeyError) as error:
        raise ValueError(f"not a GGUF file: {error}") from error
    if _value(reader, "split.count", 0) > 1:
        raise ValueError(
            "split.count must be 1; join the parts with gguf-split --merge"
        )
    return reader


_REQUIRED = object()


def _value(reader, key, default=_REQUIRED):
    field = reader.get_field(key)
    if field is not None:
        value = field.contents()
        # A float32 is kept as the short decimal that was meant: 1e-5, not 9.99999975e-6
        return float(str(np.float32(value))) if isinstance(value, float) else value
    if default is _REQUIRED:
        raise ValueError(f"the metadata must say {key}")
    return default


def _fields(reader, architecture, stored):
    def value(key, default=_REQUIRED):
        return _value(reader, f"{architecture}.{key}", default)

    hidden_size, num_heads = value("embedding_length"), value("attention.head_count")
    head_size = value("attention.key_length", hidden_size // num_heads)
    for key, expected in {
        "attention.value_length": head_size,
        "rope.dimension_count": head_size,
        "rope.scaling.type": "none",
        "rope.scale_linear": 1.0,
        "attention.sliding_window": 0,
        "expert_count": 0,
    }.items():
        if value(key, expected) != expected:
            raise ValueError(
                f"{architecture}.{key}={value(key)!r} must be {expected!r}"
            )
    if _EMBEDDING not in stored:
        raise ValueError(f"it lacks the tensors {_EMBEDDING}")
    theta = value("rope.freq_base", 10000.0)
    return {
        **ARCHITECTURES[architecture],
        "vocabulary_size": stored[_EMBEDDING].shape[0],
        "num_layers": value("block_count"),
        "hidden_size": hidden_size,
        "num_heads": num_heads,
        "num_kv_heads": value("attention.head_count_kv", num_heads),
        "head_size": head_size,
        "mlp_size": value("feed_forward_length"),
        "tied_embeddings": unembedding_name(Format.GGUF) not in stored,
        "rope_theta": theta,
        "rope_scaling": _rope_scaling(
            stored.pop(_ROPE_DIVISORS, None), head_size, theta
        ),
        "norm_epsilon": value("attention.layer_norm_rms_epsilon"),
    }


def _store(tensor) -> Stored:
    import gguf

    kind = tensor.tensor_type
    if kind.name not in _TYPES:
        raise ValueError(
            f"the type of {tensor.name}, {kind.name}, must be one of "
            f"{', '.join(_TYPES)}"
        )
    return Stored(
        tuple(int(size) for size in reversed(tensor.shape)),
        lambda: gguf.quants.dequantize(tensor.data, kind),
    )


def _rope_scaling(stored, head_size, theta):
    """The ``RopeScaling`` whose divisors are stored."""
    if stored is None:
        return None
    divisors = stored.read()
    scaling = RopeScaling(factor=float(divisors.max()), **_LLAMA_3)
    expected = rope_divisors(scaling, head_size=head_size, theta=theta)
    if divisors.shape != expected.shape or not np.allclose(
        divisors, expected, rtol=1e-3
    ):
        raise ValueError(
            f"{_ROPE_DIVISORS} must be that of Llama 3.1 with its published {_LLAMA_3}"
        )
    return scaling


def _straighten(stored, fields):
    """Rows of queries and keys, stored pair by pair, back to the order of halves.

    In this architecture llama.cpp turns neighbours (2 d, 2 d + 1), we (d, d + D / 2).
    """
    for name, tensor in stored.items():
        heads = {
            "attn_q.weight": fields["num_heads"],
            "attn_k.weight": fields["num_kv_heads"],
        }.get(name.partition(".")[2].partition(".")[2])
        if heads is not None:
            stored[name] = Stored(tensor.shape, _straightened(tensor, heads))


def _straightened(tensor, heads):
    def read():
        rows = tensor.read()
        paired = rows.reshape(heads, -1, 2, rows.shape[-1])
        return paired.swapaxes(1, 2).reshape(rows.shape)

    return read
