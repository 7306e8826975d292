"""From a checkpoint to a folder that others open."""

import pathlib

from agentic_grpo.models.pretrained import export_pretrained
from agentic_grpo.texts import load_tokenizer
from agentic_grpo.training import bases, run_folder
from agentic_grpo.training.checkpoints import Checkpoints
from experiments.config.build import state_shapes
from experiments.runs import finding, workdir


def export(
    run: pathlib.Path,
    folder: pathlib.Path,
    *,
    tick: str | None = None,
    context_length: int,
) -> None:
    """Writes the policy of one checkpoint, an adapter merged.

    Args:
      run: its folder.
      folder: to be made.
      tick: which checkpoint, or best; None: the newest.
      context_length: tokens that readers of the folder should allow a text to have.

    Raises:
      ValueError: no run is there, something is in the folder, or no published
        architecture is like the model.
      CheckpointError: no checkpoint is there, or it is damaged.
    """
    config, experiment = workdir.load_experiment(run)
    with Checkpoints(run / run_folder.CHECKPOINTS) as checkpoints:
        state, _ = bases.restore(
            checkpoints,
            experiment.frozen_base,
            state_shapes(experiment),
            finding.step_named(checkpoints, tick),
            check=lambda notes: run_folder.require_notes_of(
                notes, workdir.settings_of(config), run
            ),
        )
    decoder = experiment.decoder
    params = decoder.merge(state.learner.policy_params)
    export_pretrained(folder, decoder.config, params, context_length=context_length)
    if experiment.published is not None:
        load_tokenizer(experiment.published.path).save(folder)
