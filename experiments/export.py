"""Writes a trained policy as a folder that others open, an adapter merged.

  python -m experiments.export --workdir=runs/python --folder=exported [--tick=best]

The folder is Hugging Face's: ``config.json``, ``model.safetensors`` and, of a published
model, its tokenizer. ``model.pretrained`` and transformers read it.
"""

import pathlib
import sys

from absl import app, flags, logging

from agentic_grpo.models.pretrained import export_pretrained
from agentic_grpo.texts import load_tokenizer
from agentic_grpo.training import paths
from agentic_grpo.training.checkpoints import CheckpointError, Checkpoints
from agentic_grpo.training.plain_text import printable
from experiments.config.build import state_shapes
from experiments.runs import bases, finding, workdir

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
        run(
            paths.locate_workdir(WORKDIR.value),
            folder,
            tick=TICK.value,
            context_length=CONTEXT.value,
        )
        print(folder)
    except (ValueError, CheckpointError, OSError) as error:
        sys.exit(printable(f"error: {error}"))


def run(
    workdir_of_run: pathlib.Path,
    folder: pathlib.Path,
    *,
    tick: str | None = None,
    context_length: int = 2048,
) -> None:
    """Exports one checkpoint of a run.

    Raises:
      ValueError: no run is there, something is in the folder, or no published
        architecture is like the model.
      CheckpointError: no checkpoint is there, or it is damaged.
    """
    config, experiment = workdir.load_experiment(workdir_of_run)
    with Checkpoints(workdir_of_run / workdir.CHECKPOINTS) as checkpoints:
        state, _ = bases.restore(
            checkpoints,
            experiment.frozen_base,
            state_shapes(experiment),
            finding.step_named(checkpoints, tick),
            check=lambda notes: workdir.require_notes_of(notes, config, workdir_of_run),
        )
    decoder = experiment.decoder
    params = decoder.merge(state.learner.policy_params)
    export_pretrained(folder, decoder.config, params, context_length=context_length)
    if experiment.published is not None:
        load_tokenizer(experiment.published.path).save(folder)


if __name__ == "__main__":
    app.run(main)
