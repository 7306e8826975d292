"""transformers itself, in an environment of its own, reads what we read and write."""

import json
import pathlib
import subprocess

import numpy as np
import pretrained_folders as folders
import pytest

from agentic_grpo.models.pretrained import export_pretrained, load_pretrained
from scripts.benchmarks import virtual_environments

HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def ask_transformers(tmp_path_factory):
    """(path, tokens) pairs -> logits [N, T, V] of each."""
    home = virtual_environments.default_folder()
    python = virtual_environments.make("transformers", home)

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
