"""From a run's folder back to its config, and from a config to what a run keeps."""

import functools
import json
import pathlib
from typing import Any

from ml_collections import ConfigDict

from agentic_grpo.training import bases, run_folder
from agentic_grpo.training.recording import Recording
from experiments.config import fields, optimizer
from experiments.config.build import Experiment, build


def settings_of(config: ConfigDict) -> dict[str, Any]:
    """The config as the tree of settings that a run keeps, of JSON values."""
    return json.loads(config.to_json(sort_keys=True))


def recording_of(
    config: ConfigDict,
    folder: pathlib.Path,
    *,
    share: float = 1.0,
    base: bases.Base | None = None,
) -> Recording:
    """What a run of the config leaves in its folder; other arguments as of it."""
    return Recording(
        folder,
        settings_of(config),
        schedule_to=functools.partial(optimizer.schedule, config.learner, config.model),
        share=share,
        base=base,
    )


def load_config(workdir: pathlib.Path) -> ConfigDict:
    """The config of the run in a folder.

    Raises:
      ValueError: there is none, or it cannot be read.
    """
    saved = run_folder.saved_settings(workdir)
    if saved is None:
        raise ValueError(
            f"workdir={str(workdir)!r} has no config.json: no run is there"
        )
    try:
        return fields.from_tree(saved)
    except ValueError as error:
        raise ValueError(f"{workdir / 'config.json'}: {error}") from error


def load_experiment(workdir: pathlib.Path) -> tuple[ConfigDict, Experiment]:
    """The config of the run in a folder, and what it builds.

    Raises:
      ValueError: as ``load_config``; or names the file and the field that is wrong.
    """
    config = load_config(workdir)
    try:
        return config, build(config)
    except ValueError as error:
        raise ValueError(f"{workdir / 'config.json'}: {error}") from error
