"""transformers opens the tokenizers that we save, and counts the same tokens."""

import json
import pathlib
import subprocess

import published_models
import pytest

from agentic_grpo.texts import load_tokenizer, open_chat

HERE = pathlib.Path(__file__).parent
TEXTS = [
    "The capital of France is",
    "def largest(numbers):\n    return max(numbers)  # 1234.5e-6\n",
    "It's what we'll say; they've said I'm right.\r\n\r\n",
    "\tGröße 中文 🎉 e\u0301\n   \n",
    "  leading and trailing  ",
]
CONVERSATIONS = [
    [{"role": "user", "content": "Write a function that adds two numbers."}],
    [
        {"role": "system", "content": "You write Python.\n"},
        {"role": "user", "content": "  indented\n    code\n"},
        {"role": "assistant", "content": "def f(x):\n    return x + 1"},
        {"role": "user", "content": "f(1) gave 2, wanted 3."},
    ],
]


@pytest.mark.slow
def test_tokens_of_texts_and_conversations_are_those_of_transformers(tmp_path):
    tokenizer = load_tokenizer(published_models.smollm2())
    tokenizer.save(tmp_path)
    done = subprocess.run(
        [
            str(published_models.python_with_transformers()),
            str(HERE / "transformers_tokens.py"),
            str(tmp_path),
        ],
        input=json.dumps({"texts": TEXTS, "conversations": CONVERSATIONS}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers = json.loads(done.stdout)
    assert answers["texts"] == [tokenizer.encode(text) for text in TEXTS]
    chat = open_chat(tokenizer)
    assert answers["conversations"] == [
        [*chat.prompt(messages), chat.marker] for messages in CONVERSATIONS
    ]
    # SmolLM2: a newline before an unindented line is a token, one before an indented
    # line is a token with its indentation.
    tokens = [tokenizer.single_token(text) for text in ("\n", "\n\n", "\n   ")]
    assert tokens == [198, 1116, 472]
    assert tokenizer.end_tokens == (2,) and chat.marker == 198
