"""A decoder and its parameters from what others have published."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable

from agentic_grpo.models.pretrained.architectures import Format
from agentic_grpo.models.pretrained.gguf_file import open_file
from agentic_grpo.models.pretrained.parameters import check, fill
from agentic_grpo.models.pretrained.safetensors_folder import open_folder
from agentic_grpo.models.transformer import TransformerConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pretrained:
    """Published weights that have been checked and not been read.

    Attributes:
      config: of the decoder.
      read: () -> params as from ``Transformer.init``.
    """

    config: TransformerConfig
    read: Callable[[], dict]


def load_pretrained(
    path, *, dtype="float32", param_dtype="float32", layers="unrolled"
) -> tuple[TransformerConfig, dict]:
    """Config and parameters of ``open_pretrained``, whose arguments it takes."""
    opened = open_pretrained(path, dtype=dtype, param_dtype=param_dtype, layers=layers)
    return opened.config, opened.read()


def open_pretrained(
    path, *, dtype="float32", param_dtype="float32", layers="unrolled"
) -> Pretrained:
    """Weights of the Llama family: Llama, Llama 3, Qwen 2, Qwen 3 and their kin.

    Everything is checked before a weight is read: every tensor has a place in the
    decoder, every place a tensor, of its shape.

    Args:
      path: a Hugging Face folder with ``config.json`` and safetensors, or a ``.gguf``
        file, quantised or not.
      dtype: of the activations.
      param_dtype: of the parameters, whatever the type in the file.
      layers: one of ``transformer.LAYERS``; the parameters are the same.

    Raises:
      ValueError: the file is missing, damaged or of another family; path and reason are
        in the message.
      ImportError: the libraries of the extra ``llm`` are not installed.
    """
    path = pathlib.Path(path)
    try:
        if path.is_dir():
            form, (fields, stored) = Format.HUGGING_FACE, open_folder(path)
        elif path.suffix == ".gguf" and path.is_file():
            form, (fields, stored) = Format.GGUF, open_file(path)
        else:
            raise ValueError("must be a folder with safetensors, or a .gguf file")
        config = TransformerConfig(
            **fields, dtype=dtype, param_dtype=param_dtype, layers=layers
        )
        check(config, stored, form)
        read = functools.partial(fill, config, stored, form)
        return Pretrained(config=config, read=read)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    except ImportError as error:
        raise ImportError(
            f"reading {path} needs {error.name}: pip install 'agentic_grpo[llm]'"
        ) from error
