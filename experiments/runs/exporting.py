"""From a checkpoint to a folder that others open."""

import pathlib

from agentic_grpo.models.pretrained import export_pretrained
from agentic_grpo.texts import load_tokenizer
from experiments.runs import starting, workdir


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
    settings = workdir.settings_of(config)
    _, params = starting.read(run, tick, experiment, settings)
    decoder = experiment.decoder
    params = decoder.merge(params)
    export_pretrained(folder, decoder.config, params, context_length=context_length)
    if experiment.published is not None:
        load_tokenizer(experiment.published.path).save(folder)
