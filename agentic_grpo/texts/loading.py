"""Tokenizers as they are published: a Hugging Face folder, or a GGUF file."""

import json
import pathlib

from agentic_grpo.texts.gguf_vocabulary import read_vocabulary
from agentic_grpo.texts.tokenizer import Tokenizer


def load_tokenizer(path, *, end_tokens: tuple[int, ...] | None = None) -> Tokenizer:
    """Reads the tokenizer that was published with a model.

    Args:
      path: a folder with ``tokenizer.json``, or a ``.gguf`` file.
      end_tokens: ids that end what a model writes; None: those that the publisher
        names, in ``generation_config.json`` or else the other files.

    Raises:
      ValueError: no tokenizer of byte pairs is there, or no end token is named; path
        and reason are in the message.
      ImportError: the libraries of the extra ``llm`` are not installed.
    """
    path = pathlib.Path(path)
    try:
        if path.is_dir():
            fields = _read_folder(path)
        elif path.suffix == ".gguf" and path.is_file():
            fields = read_vocabulary(path)
        else:
            raise ValueError("must be a folder with tokenizer.json, or a .gguf file")
        if end_tokens is not None:
            fields["end_tokens"] = tuple(end_tokens)
        return Tokenizer(**fields)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    except ImportError as error:
        raise ImportError(
            f"reading {path} needs {error.name}: pip install 'agentic_grpo[llm]'"
        ) from error


def _read_folder(folder) -> dict:
    path = folder / "tokenizer.json"
    if not path.exists():
        raise ValueError(
            "tokenizer.json is missing (a tokenizer.model alone is not read)"
        )
    description = path.read_text(encoding="utf-8")
    content = _parse(path, description)
    kind = (content.get("model") or {}).get("type")
    if kind != "BPE":
        raise ValueError(f"tokenizer.json: the type of model, {kind!r}, must be 'BPE'")
    settings = _read(folder / "tokenizer_config.json")
    added = {token["content"]: token["id"] for token in content["added_tokens"]}
    eos_token = _spelling(settings.get("eos_token"))
    return {
        "description": description,
        "end_tokens": _end_tokens(folder, added.get(eos_token)),
        "chat_template": _chat_template(folder, settings),
        "bos_token": _spelling(settings.get("bos_token")),
        "eos_token": eos_token,
    }


def _end_tokens(folder, default):
    """Of the files that may name them the first that does."""
    for name in ("generation_config.json", "config.json"):
        named = _read(folder / name).get("eos_token_id")
        if named is not None:
            return tuple(named) if isinstance(named, list) else (named,)
    return () if default is None else (default,)


def _chat_template(folder, settings):
    path = folder / "chat_template.jinja"
    if path.exists():
        return path.read_text(encoding="utf-8")
    template = settings.get("chat_template")
    if isinstance(template, list):  # of several by name
        template = {each["name"]: each["template"] for each in template}.get("default")
    return template


def _spelling(token) -> str:
    """Of a token that is written as its spelling, or as a record with it."""
    return (token["content"] if isinstance(token, dict) else token) or ""


def _read(path) -> dict:
    if not path.exists():
        return {}
    return _parse(path, path.read_text(encoding="utf-8"))


def _parse(path, text):
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path.name} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path.name} must hold an object")
    return content
