"""Writes a trained policy as a folder that others open, an adapter merged.

  python -m experiments.export --workdir=runs/python --folder=exported [--tick=best]

The folder is Hugging Face's: ``config.json``, ``model.safetensors`` and, of a published
model, its tokenizer. ``model.pretrained`` and transformers read it.
"""

from absl import flags

from agentic_grpo.training import paths
from experiments import front
from experiments.runs import exporting

WORKDIR = front.define_workdir()
FOLDER = flags.DEFINE_string("folder", None, "To be made.", required=True)
TICK = front.define_tick()
CONTEXT = flags.DEFINE_integer(
    "context_length",
    2048,
    "Tokens that readers of the folder should allow a text to have.",
    lower_bound=1,
)


def main(words):
    front.require_only_flags(words, "--tick=best")
    folder = paths.locate(FOLDER.value, "folder")
    exporting.export(
        paths.locate_workdir(WORKDIR.value),
        folder,
        tick=TICK.value,
        context_length=CONTEXT.value,
    )
    print(folder)


if __name__ == "__main__":
    front.run(main, refusals=[OSError])
