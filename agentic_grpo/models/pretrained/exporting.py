"""A trained decoder as a folder that others open."""

import json
import os
import pathlib
import shutil

from agentic_grpo.models.pretrained.config_json import write_config
from agentic_grpo.models.pretrained.parameters import take_apart


def export_pretrained(folder, config, params, *, context_length: int) -> None:
    """Writes ``config.json`` and ``model.safetensors``, as transformers reads them.

    ``load_pretrained`` of the folder gives the same parameters bit by bit. The folder
    is there in whole or not at all. ``texts.Tokenizer.save`` adds the tokenizer.

    Args:
      folder: path; must not be there yet, or be empty.
      config: a ``TransformerConfig``.
      params: its parameters.
      context_length: tokens that readers of the folder should allow a text to have.

    Raises:
      ValueError: something is in the folder; the parameters are not of this config; no
        published architecture is like it.
    """
    import safetensors.numpy

    folder = pathlib.Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"folder={str(folder)!r} must be empty or not there")
    described = json.dumps(
        write_config(config, context_length=context_length), indent=2
    )
    arrays = take_apart(config, params)
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of an export that was interrupted
    unfinished.mkdir()
    safetensors.numpy.save_file(
        arrays, unfinished / "model.safetensors", metadata={"format": "pt"}
    )
    (unfinished / "config.json").write_text(described + "\n", encoding="utf-8")
    os.replace(unfinished, folder)
