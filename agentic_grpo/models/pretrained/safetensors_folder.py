"""A Hugging Face folder: ``config.json`` and safetensors, in one file or several."""

import functools
import json
import pathlib
from collections.abc import Mapping

import numpy as np

from agentic_grpo.models.pretrained.architectures import Format, unembedding_name
from agentic_grpo.models.pretrained.config_json import read_config
from agentic_grpo.models.pretrained.parameters import Stored

_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_TYPES = ("F64", "F32", "F16", "BF16")


def open_folder(folder: pathlib.Path) -> tuple[dict, Mapping[str, Stored]]:
    """Fields of ``TransformerConfig``, and the tensors; none is read yet.

    Raises:
      ValueError: a file is missing or damaged, or the config is not of our family.
    """
    fields = read_config(read_json(folder / "config.json"))
    stored = {}
    for file, names in _files(folder).items():
        for name, tensor in _open(folder / file).items():
            if name in stored:
                raise ValueError(f"{file}: {name} is in another file too")
            stored[name] = tensor
        absent = sorted(names - set(stored))
        if absent:
            raise ValueError(f"{file} lacks {absent[0]}, which {_INDEX} says it holds")
    _settle_tying(fields["tied_embeddings"], stored)
    return fields, stored


def read_json(path: pathlib.Path) -> dict:
    """Reads an object.

    Raises:
      ValueError: there is no such file, or something else is in it.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path.name} is missing") from None
    except ValueError as error:
        raise ValueError(f"{path.name} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path.name} must hold an object")
    return content


def _files(folder) -> dict[str, set[str]]:
    """File -> the tensors that it must hold; whatever else it holds is read too."""
    if (folder / _WEIGHTS).exists():
        return {_WEIGHTS: set()}
    if not (folder / _INDEX).exists():
        raise ValueError(
            f"neither {_WEIGHTS} nor {_INDEX} is there; save the model as safetensors"
        )
    files: dict[str, set[str]] = {}
    for name, file in read_json(folder / _INDEX).get("weight_map", {}).items():
        if pathlib.PurePath(file).name != file:
            raise ValueError(f"{_INDEX}: {file!r} must be the name of a file beside it")
        files.setdefault(file, set()).add(name)
    return files


def _open(path) -> dict[str, Stored]:
    import safetensors

    try:
        file = safetensors.safe_open(path, framework="numpy")
    except FileNotFoundError:
        raise ValueError(f"{path.name} is missing") from None
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path.name} is no safetensors file: {error}") from error
    stored = {}
    for name in file.keys():  # noqa: SIM118 - not a dict
        tensor = file.get_slice(name)
        if tensor.get_dtype() not in _TYPES:
            raise ValueError(
                f"the type of {name}, {tensor.get_dtype()}, must be one of "
                f"{', '.join(_TYPES)}"
            )
        stored[name] = Stored(
            tuple(tensor.get_shape()), functools.partial(file.get_tensor, name)
        )
    return stored


def _settle_tying(tied, stored):
    """Refuses a head that contradicts the config; drops one that repeats it."""
    head = unembedding_name(Format.HUGGING_FACE)
    if not tied and head not in stored:
        raise ValueError(
            f"tie_word_embeddings=False must come with {head}, which is missing"
        )
    if tied and head in stored:
        embedding = stored.get("model.embed_tokens.weight")
        if embedding and np.array_equal(embedding.read(), stored[head].read()):
            del stored[head]
            return
        raise ValueError(
            f"tie_word_embeddings=True contradicts {head}, which differs from the "
            "embedding"
        )
