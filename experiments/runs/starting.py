"""The parameters of an earlier run: where another starts from, or for whoever asks.

policy, params, environment = starting.load_policy("runs/quickstart", "best")
"""

import os
import pathlib
from typing import Any

import jax.numpy as jnp

from agentic_grpo import learner
from agentic_grpo.envs.base import Environment
from agentic_grpo.models.base import Policy
from agentic_grpo.training import bases, paths, run_folder
from agentic_grpo.training.checkpoints import Checkpoints
from experiments.config.build import Experiment, state_shapes
from experiments.config.checks import require
from experiments.runs import finding, workdir


def load_policy(
    run: str | os.PathLike, tick: str | None = None
) -> tuple[Policy, Any, Environment]:
    """What a run has trained, to sample from: (policy, parameters, environment).

    Args:
      run: its folder.
      tick: of the checkpoint, or "best"; None: the newest.

    Raises:
      ValueError: no run is there.
      CheckpointError: it has no such checkpoint, or a damaged one.
    """
    folder = paths.locate_workdir(run)
    config, experiment = workdir.load_experiment(folder)
    _, params = read(folder, tick, experiment, workdir.settings_of(config))
    return experiment.program.policy, params, experiment.program.environment


def read(
    folder: pathlib.Path,
    tick: str | None,
    experiment: Experiment,
    settings: run_folder.Settings | None = None,
) -> tuple[int, Any]:
    """(tick of a checkpoint, what its policy reads); nothing else of it is read.

    Args:
      folder: of the run.
      tick: as in ``load_policy``.
      experiment: whose policy it must be.
      settings: of the run that must have saved it; None: any.
    """
    shapes, base = state_shapes(experiment).learner, experiment.frozen_base

    def check(notes):
        if settings is not None:
            run_folder.require_notes_of(notes, settings, folder)
        bases.require_unchanged(base, notes)

    with Checkpoints(folder / run_folder.CHECKPOINTS) as checkpoints:
        step = finding.step_named(checkpoints, tick)
        found, _ = checkpoints.restore_part("tick", jnp.int32(0), step, check=check)
        step = int(found)

        def part(name, like):
            return checkpoints.restore_part(f"learner/{name}", like, step)[0]

        trained, frozen = part("params", shapes.params), None
        if shapes.frozen is not None:
            frozen = base.read() if base else part("frozen", shapes.frozen)
    return step, learner.join(frozen, trained)


def first_params(init_from: str, experiment: Experiment, progress) -> Any:
    """The parameters that ``init_from`` names, for a run to start from."""
    folder, tick = parse(init_from)
    step, params = read(folder, tick, experiment)
    progress.message(f"starts from tick {step} of {folder}")
    return params


def require_there(init_from: str, experiment: Experiment) -> None:
    """Raises a ValueError unless such a checkpoint is there, or none is named."""
    if not init_from:
        return
    rule = "'' with an adapter, which starts from published weights and from nothing"
    require(experiment.program.policy.adapt is None, "init_from", init_from, rule)
    folder, tick = parse(init_from)
    rule = "RUN or RUN@TICK of a run that has saved something, TICK a tick or best"
    with Checkpoints(folder / run_folder.CHECKPOINTS) as checkpoints:
        steps = checkpoints.steps()
        require(bool(steps), "init_from", init_from, rule)
        step = finding.step_named(checkpoints, tick)
    rule = f"a run@tick of {', '.join(map(str, steps))}, or best"
    require(step is None or step in steps, "init_from", init_from, rule)


def parse(init_from: str) -> tuple[pathlib.Path, str | None]:
    """ "runs/x@best" -> (its folder, "best"); None of a tick that is left out."""
    name, _, tick = init_from.partition("@")
    return paths.locate_workdir(name, "init_from"), tick or None
