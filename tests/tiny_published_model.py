"""A tiny published model with random weights, in a folder, and problems in a file."""

import json

import jax
import tiny_tokenizers

from agentic_grpo.envs.python_tasks import generate
from agentic_grpo.models.pretrained import export_pretrained
from agentic_grpo.models.transformer import Transformer, TransformerConfig
from agentic_grpo.texts import load_tokenizer

FAMILIES = ("add", "count_letter")
#: Rows of the model that spell nothing.
SPARE_ROWS = 3


def write(folder):
    """Weights, tokenizer and all; returns the folder."""
    programs = [problem.reference for problem in generate()]
    corpus = ["\n\n".join(programs[i::7]) + "\n\n\n" for i in range(7)] * 2
    content = tiny_tokenizers.train(corpus=corpus, size=700)
    published = folder / "tiny"
    staged = tiny_tokenizers.write_folder(
        folder / "tokenizer", content, generation_config={"eos_token_id": [2]}
    )
    tokenizer = load_tokenizer(staged)
    config = TransformerConfig(
        vocabulary_size=tokenizer.vocabulary_size + SPARE_ROWS,
        num_layers=2,
        hidden_size=16,
        num_heads=2,
        num_kv_heads=1,
        head_size=8,
        mlp_size=24,
    )
    params = Transformer(config).init(jax.random.key(0))
    export_pretrained(published, config, params, context_length=256)
    tokenizer.save(published)
    return published


LINES = [
    {
        "id": f"times {factor}",
        "statement": f'def times(x):\n    """Return x times {factor}."""',
        "entry": "times",
        "visible": [{"args": [2], "want": 2 * factor}],
        "hidden": [{"args": [7], "want": 7 * factor}],
        "split": split,
        "reference": f'def times(x):\n    """Return x times {factor}."""\n'
        f"    return x * {factor}\n",
    }
    for factor, split in ((3, "train"), (4, "validation"), (5, "test"))
]


def write_lines(path, lines=LINES):
    """A file of problems, an object each; texts are lines as they stand."""
    rows = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path
