"""Writes a trained policy as a folder that others open, an adapter merged.

  python -m experiments.export --workdir=runs/python --folder=exported [--tick=best]

The folder is Hugging Face's: ``config.json``, ``model.safetensors`` and, of a published
model, its tokenizer. ``model.pretrained`` and transformers read it.
"""

import sys

from absl import app, flags, logging

from agentic_grpo.training import paths
from agentic_grpo.training.checkpoints import CheckpointError
from agentic_grpo.training.plain_text import printable
from experiments.runs import exporting

WORKDIR = flags.DEFINE_string("workdir", None, "The run's folder.", required=True)
FOLDER = flags.DEFINE_string("folder", None, "To be made.", required=True)
TICK = flags.DEFINE_string(
    "tick", None, "Which checkpoint, or best; the newest by default."
)
CONTEXT = flags.DEFINE_integer(
    "context_length",
    2048,
    "Tokens that readers of the folder should allow a text to have.",
    lower_bound=1,
)


def main(argv):
    if len(argv) > 1:
        sys.exit(f"error: {argv[1]!r} is no flag; flags look like --tick=best")
    if not flags.FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)
    try:
        folder = paths.locate(FOLDER.value, "folder")
        exporting.export(
            paths.locate_workdir(WORKDIR.value),
            folder,
            tick=TICK.value,
            context_length=CONTEXT.value,
        )
        print(folder)
    except (ValueError, CheckpointError, OSError) as error:
        sys.exit(printable(f"error: {error}"))


if __name__ == "__main__":
    app.run(main)
