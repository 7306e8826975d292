"""Logits of a folder or a GGUF file by transformers; run in an environment with torch.

    python transformers_logits.py OUTPUT.npz FOLDER_OR_FILE TOKENS.npy [...]

Writes one array [N, T, V] for each pair, "0", "1" and so on.
"""

import pathlib
import sys

import numpy as np
import torch
import transformers


def logits_of(path, tokens):
    if path.is_dir():
        arguments = {"pretrained_model_name_or_path": str(path)}
    else:
        arguments = {
            "pretrained_model_name_or_path": str(path.parent),
            "gguf_file": path.name,
        }
    model = transformers.AutoModelForCausalLM.from_pretrained(
        **arguments, dtype=torch.float32, attn_implementation="eager"
    )
    with torch.no_grad():
        return model.eval()(torch.as_tensor(tokens, dtype=torch.long)).logits.numpy()


if __name__ == "__main__":
    output, *pairs = sys.argv[1:]
    arrays = {}
    for number in range(len(pairs) // 2):
        path, tokens = map(pathlib.Path, pairs[2 * number : 2 * number + 2])
        arrays[str(number)] = logits_of(path, np.load(tokens))
    np.savez(output, **arrays)
