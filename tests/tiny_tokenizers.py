"""Tokenizers of byte pairs as they are published, trained on a few lines here."""

import json

import gguf
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

_CORPUS = [
    "def add(first, second):\n    return first + second\n",
    "def largest(numbers):\n    return max(numbers)\n",
    "for number in range(1234567890):\n    if number % 2:\n        print(number)\n",
    "user\nsystem\nassistant\n\nWrite a function that adds two numbers.\n\n",
    "It's what we'll say; they've said I'm right. NUMBERS and Größe.\n\n",
]
CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
LLAMA_3 = (
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|end_of_text|>",
)
CHATML_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' }}"
    "{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def smollm_rules():
    """As SmolLM2 publishes them."""
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )


def train(special=CHATML, *, rules=None, corpus=_CORPUS, size=400) -> dict:
    """The contents of a ``tokenizer.json``."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = rules or smollm_rules()
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return json.loads(tokenizer.to_str())


def write_folder(folder, content, **files):
    """Writes ``tokenizer.json``, and each of ``files`` as a JSON of its name."""
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(content))
    for name, record in files.items():
        (folder / f"{name}.json").write_text(json.dumps(record))
    return folder


def write_gguf(path, content, *, rules="smollm", **metadata):
    """The same vocabulary as llama.cpp's converter writes it; no weights.

    ``metadata``: further values below ``tokenizer.ggml``; None leaves one out.
    """
    spellings = sorted(content["model"]["vocab"], key=content["model"]["vocab"].get)
    special = {token["content"] for token in content["added_tokens"]}
    values = {
        "model": "gpt2",
        "pre": rules,
        "tokens": spellings,
        "token_type": [3 if spelling in special else 1 for spelling in spellings],
        "merges": [" ".join(pair) for pair in content["model"]["merges"]],
        **metadata,
    }
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in values.items():
        key = f"tokenizer.ggml.{key}"
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif value is not None:
            writer.add_string(key, value)
    writer.add_string("tokenizer.chat_template", CHATML_TEMPLATE)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
