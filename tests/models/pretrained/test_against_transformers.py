"""transformers itself, in an environment of its own, reads what we read and write."""

import json
import pathlib
import subprocess

import jax
import numpy as np
import pretrained_folders as folders
import published_models
import pytest

from agentic_grpo.models.pretrained import export_pretrained, load_pretrained
from agentic_grpo.texts import load_tokenizer

HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def ask_transformers(tmp_path_factory):
    """(path, tokens) pairs -> logits [N, T, V] of each."""
    python = published_models.python_with_transformers()

    def ask(*pairs):
        folder = tmp_path_factory.mktemp("asked")
        arguments = []
        for number, (path, tokens) in enumerate(pairs):
            np.save(folder / f"{number}.npy", tokens)
            arguments += [str(path), str(folder / f"{number}.npy")]
        script = HERE / "transformers_logits.py"
        command = [str(python), str(script), str(folder / "logits.npz"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        logits = np.load(folder / "logits.npz")
        return [logits[str(number)] for number in range(len(pairs))]

    return ask


@pytest.mark.slow
def test_every_logit_of_tiny_models_agrees_and_the_stored_ones_are_these(
    ask_transformers, tmp_path
):
    text, written = folders.draw_text(), []
    for name in folders.MODELS:
        config = folders.config_of(name)
        tensors = folders.draw_tensors(config)
        written.append(folders.write_folder(tmp_path / name, config, tensors))
    logits = ask_transformers(*((folder, text) for folder in written))
    stored = json.loads((HERE / "logits.json").read_text())
    for name, folder, expected in zip(folders.MODELS, written, logits, strict=True):
        got = folders.compute_logits(*load_pretrained(folder), text)
        scale = np.abs(expected).max()
        assert np.abs(got - expected).max() < 1e-4 * scale, name
        some = expected[0, list(folders.POSITIONS), : folders.ENTRIES]
        np.testing.assert_allclose(some, stored[name], atol=2e-5 * scale, err_msg=name)


@pytest.mark.slow
def test_transformers_opens_what_is_exported(ask_transformers, tmp_path):
    # The same numbers bit by bit: the same weights, the same config.
    text, pairs = folders.draw_text(), []
    for name in folders.MODELS:
        config = folders.config_of(name)
        tensors = folders.draw_tensors(config)
        published = folders.write_folder(tmp_path / name, config, tensors)
        exported = tmp_path / f"{name}_exported"
        export_pretrained(exported, *load_pretrained(published), context_length=512)
        pairs += [(published, text), (exported, text)]
    logits = ask_transformers(*pairs)
    for one, other in zip(logits[::2], logits[1::2], strict=True):
        np.testing.assert_array_equal(one, other)


PROMPTS = [
    "<|im_start|>user\nWrite a function that returns the largest number of a list."
    "<|im_end|>\n<|im_start|>assistant\n",
    "The capital of France is",
    "def factorial(n):\n    if n < 2:\n        return 1\n    return n *",
    "A" * 40 + " and then, on the third day of the eleventh month of 1893, nothing",
]


@pytest.mark.slow
def test_a_real_model_reads_as_transformers_reads_it(ask_transformers):
    """SmolLM2-135M-Instruct, 4 bits a weight, from GGUF by either reader."""
    path = published_models.smollm2()
    tokenizer = load_tokenizer(path)
    rows = []
    for prompt in PROMPTS:
        row = []
        for piece in tokenizer.split_at_special(prompt):
            row += [piece] if isinstance(piece, int) else tokenizer.encode(piece)
        rows.append(row)
    # Filled up on the right: what comes later changes nothing before it.
    tokens = np.zeros((len(rows), max(map(len, rows))), np.int32)
    real = np.zeros(tokens.shape, bool)
    for number, row in enumerate(rows):
        tokens[number, : len(row)], real[number, : len(row)] = row, True
    config, params = load_pretrained(path, layers="scanned")
    sizes = config.num_layers, config.hidden_size, config.vocabulary_size
    assert sizes == (30, 576, 49152)
    got = np.asarray(folders.compute_logits(config, params, tokens))
    (expected,) = ask_transformers((path, tokens))
    paris = got[1, len(rows[1]) - 1].argmax()
    assert tokenizer.decode([paris]) == " Paris"
    got, expected = got[real], expected[real]
    assert np.abs(got - expected).max() < 1e-5 * np.abs(expected).max()
    one, other = (jax.nn.log_softmax(logits) for logits in (got, expected))
    assert np.abs(one - other).max() < 2e-4
    np.testing.assert_array_equal(got.argmax(-1), expected.argmax(-1))
