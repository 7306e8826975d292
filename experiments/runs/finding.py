"""Runs on disk: which folders hold one, and which of them are seeds of one setting.

And which of its checkpoints is meant.
"""

import pathlib
from typing import Any

from agentic_grpo.training import metrics
from agentic_grpo.training.checkpoints import Checkpoints
from agentic_grpo.training.json_files import read_json
from agentic_grpo.training.run_folder import MAY_DIFFER
from experiments.config import fields
from experiments.config.checks import require

CONFIG = "config.json"


def holds_run(folder: pathlib.Path) -> bool:
    return any((folder / name).is_file() for name in (CONFIG, metrics.FILE_NAME))


def runs_within(folder: pathlib.Path) -> list[pathlib.Path]:
    """The folder itself if it holds a run, else those that do at any depth below it.

    So the folder of a sweep or of a suite stands for its runs.

    Raises:
      ValueError: there is none.
    """
    if holds_run(folder):
        return [folder]
    found = {path.parent for path in folder.rglob(CONFIG)}
    found |= {path.parent for path in folder.rglob(metrics.FILE_NAME)}
    if not found:
        raise ValueError(f"{folder}: no run is there")
    return sorted(found)


def setting_of(folder: pathlib.Path) -> dict[str, Any]:
    """{field: value} of a run's config, without the seed and what may differ anyway.

    Empty where no config was written.

    Raises:
      ValueError: the config cannot be read; names its file.
    """
    try:
        tree = read_json(folder / CONFIG)
    except FileNotFoundError:
        return {}
    return {
        name: value
        for name, value in fields.flatten(tree)
        if name != "seed" and name.split(".")[0] not in MAY_DIFFER
    }


def step_named(checkpoints: Checkpoints, tick: str | None) -> int | None:
    """The step of ``--tick``: a number, "best" by the evaluations, or None, the newest.

    Raises:
      ValueError: it is neither; or none of the checkpoints was evaluated.
    """
    if tick is None or tick.isdigit():
        return None if tick is None else int(tick)
    require(tick == "best", "--tick", tick, "a tick, or best")
    step = checkpoints.best_step()
    if step is None:
        raise ValueError(
            f"--tick=best: none of the checkpoints {checkpoints.steps()} was evaluated"
        )
    return step
