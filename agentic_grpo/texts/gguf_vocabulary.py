"""The vocabulary in a GGUF file as the ``tokenizer.json`` that it was made of."""

import json

#: How a text is cut before pairs are merged: what llama.cpp calls it -> our pieces.
#: (https://github.com/ggml-org/llama.cpp, src/llama-vocab.cpp)
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _cut_by(pattern):
    return {
        "type": "Sequence",
        "pretokenizers": [
            {
                "type": "Split",
                "pattern": {"Regex": pattern},
                "behavior": "Isolated",
                "invert": False,
            },
            _bytes(use_regex=False),
        ],
    }


def _bytes(*, use_regex):
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": use_regex,
    }


_GPT_2 = {"pre_tokenizer": _bytes(use_regex=True)}
_SMOLLM = {
    "pre_tokenizer": {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            _bytes(use_regex=True),
        ],
    }
}
_LLAMA_3 = {
    "pre_tokenizer": _cut_by(_WORDS.replace("DIGITS", r"\p{N}{1,3}")),
    "ignore_merges": True,
    "begins": True,
}
_QWEN_2 = {
    "pre_tokenizer": _cut_by(_WORDS.replace("DIGITS", r"\p{N}")),
    "normalizer": {"type": "NFC"},
}
_RULES = {
    "gpt-2": _GPT_2,
    "smollm": _SMOLLM,
    "llama-bpe": _LLAMA_3,
    "llama3": _LLAMA_3,
    "llama-v3": _LLAMA_3,
    "qwen2": _QWEN_2,
}

_CONTROL, _USER_DEFINED = 3, 4  # among the types of tokens


def read_vocabulary(path) -> dict:
    """Fields of ``Tokenizer``.

    Raises:
      ValueError: not a GGUF file, or its vocabulary is not of byte pairs, or cut by
        rules that we do not know.
    """
    value = _reader(path)
    model, kind = value("model"), value("pre", "gpt-2")
    if model != "gpt2":
        raise ValueError(f"tokenizer.ggml.model={model!r} must be 'gpt2', byte pairs")
    if kind not in _RULES:
        raise ValueError(
            f"tokenizer.ggml.pre={kind!r} must be one of {', '.join(_RULES)}"
        )
    rules, spellings = _RULES[kind], value("tokens")
    types = value("token_type", [1] * len(spellings))
    begin = value("bos_token_id", None)
    begins = value("add_bos_token", rules.get("begins", False))
    named = [value(f"{name}_token_id", None) for name in ("eos", "eot", "eom")]
    ends = tuple(dict.fromkeys(token for token in named if token is not None))
    return {
        "description": json.dumps(
            _describe(
                rules, spellings, types, value("merges"), begin if begins else None
            ),
            ensure_ascii=False,
        ),
        "end_tokens": ends,
        "chat_template": value("chat_template", None, prefix="tokenizer"),
        "bos_token": "" if begin is None else spellings[begin],
        "eos_token": spellings[ends[0]] if ends else "",
    }


def _reader(path):
    import gguf

    try:
        reader = gguf.GGUFReader(path)
    except (ValueError, IndexError, KeyError) as error:
        raise ValueError(f"not a GGUF file: {error}") from error
    required = object()

    def value(key, default=required, *, prefix="tokenizer.ggml"):
        field = reader.get_field(f"{prefix}.{key}")
        if field is not None:
            return field.contents()
        if default is required:
            raise ValueError(f"the metadata must say {prefix}.{key}")
        return default

    return value


def _describe(rules, spellings, types, merges, begin_with) -> dict:
    added = [
        {
            "id": token,
            "content": spelling,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind == _CONTROL,
        }
        for token, (spelling, kind) in enumerate(zip(spellings, types, strict=True))
        if kind in (_CONTROL, _USER_DEFINED)
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": rules.get("normalizer"),
        "pre_tokenizer": rules["pre_tokenizer"],
        "post_processor": _begin_with(begin_with, spellings),
        "decoder": _bytes(use_regex=True),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": rules.get("ignore_merges", False),
            "vocab": {spelling: token for token, spelling in enumerate(spellings)},
            "merges": [merge.split(" ") for merge in merges],
        },
    }


def _begin_with(token, spellings):
    if token is None:
        return None
    name = spellings[token]
    text = {"Sequence": {"id": "A", "type_id": 0}}
    first = {"SpecialToken": {"id": name, "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [first, text],
        "pair": [first, text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {name: {"id": name, "ids": [token], "tokens": [name]}},
    }
