"""Runs that enter a contest: their checkpoint, rebuilt for its problems and its budget.

Only read: a contest writes nothing into the checkpoints of a run.
"""

import dataclasses
import math
import pathlib

import optax
from ml_collections import ConfigDict

from agentic_grpo.envs.code_execution.problems.families import FAMILIES
from agentic_grpo.errors import require
from agentic_grpo.training import bases, run_folder
from agentic_grpo.training.checkpoints import Checkpoints
from experiments.config import fields, optimizer
from experiments.config.build import build, state_shapes
from experiments.contests.play import Contestant
from experiments.runs import finding, workdir

#: What a contestant may be answered by. The judge's own solution speaks in the others:
#: a plan is tried on it, a summary compared with what only it knows.
STAGES = ("hypothesis", "code", "tests", "debug")

#: The reward of these stages is counted on mutants of the judge's own solution.
UNREWARDED = ("tests",)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """What a contest asks of those who enter.

    Attributes:
      num_ticks: T of the clock.
      budget: members that may write a stage in each tick.
      learning_rate: at test time; None: the peak of the run's own.
      compositions: whether there are problems of that split.
    """

    num_ticks: int
    budget: int
    learning_rate: float | None = None
    compositions: bool = True

    def __post_init__(self):
        require(self.num_ticks >= 1, "ticks", self.num_ticks, "at least 1")
        require(
            self.budget >= 1,
            "budget",
            self.budget,
            "at least 1: members that write a stage in each tick",
        )
        rate = self.learning_rate
        legal = rate is None or (math.isfinite(rate) and 0.0 <= rate <= 1.0)
        require(legal, "learning_rate", rate, "in [0, 1]")


def read_env(folder: pathlib.Path, entry: Entry) -> ConfigDict:
    """The fields of ``env`` with which a run's contests are played: its own, and more.

    With compositions the held-out ones are added to its families: they are told in the
    words of the others, and no training and no warm start has seen them.

    Raises:
      ValueError: no run is there, or not one that can compete; names the field.
    """
    config = workdir.load_config(folder)
    require(
        config.env.name == "code_execution",
        "env.name",
        config.env.name,
        f"'code_execution' in {folder}: contests are of programs",
    )
    env = config.env.code_execution
    foreign = [name for name in env.stages if name not in STAGES]
    require(
        not foreign,
        "env.code_execution.stages",
        tuple(env.stages),
        f"of {', '.join(STAGES)} in {folder}: in others the judge's solution answers, "
        "which a contestant does not have",
    )
    families = list(env.families)
    if entry.compositions:
        held_out = [name for name, family in FAMILIES.items() if family.held_out]
        families += [name for name in held_out if name not in families]
    changes = {
        "families": tuple(families),
        "unrewarded_stages": tuple(
            dict.fromkeys(
                [*env.unrewarded_stages, *(s for s in UNREWARDED if s in env.stages)]
            )
        ),
    }
    if env.fidelity_of_family:
        known = dict(env.fidelity_of_family)
        changes["fidelity_of_family"] = tuple(
            (name, known.get(name, env.visible_fidelity)) for name in families
        )
    changes = {f"env.code_execution.{name}": value for name, value in changes.items()}
    return fields.change(config, changes).env


def enter(
    folder: pathlib.Path,
    env: ConfigDict,
    entry: Entry,
    *,
    name: str,
    tick: str | None = None,
) -> Contestant:
    """The contestant of a run's checkpoint.

    Args:
      folder: of the run.
      env: of the contest, by ``read_env``.
      entry: what is asked.
      name: in the standings.
      tick: of the checkpoint, or best; None: the newest.

    Raises:
      ValueError: the run cannot compete; names the field, the value and the rule.
      CheckpointError: no checkpoint is there, or it is another configuration's.
    """
    config, experiment = workdir.load_experiment(folder)
    program = build(_contest_config(config, env, entry, folder)).program
    slowest = max(stage.max_latency for stage in program.environment.spec.layout.stages)
    earliest = program.environment.spec.min_verdict_latency
    require(
        earliest > slowest,
        "env.code_execution.verdict_latency.minimum",
        earliest,
        f"above {slowest}, the slowest stage: a judge answers later than one's own "
        "machine",
    )
    latest = program.environment.spec.max_verdict_latency
    require(
        latest <= program.rollout.verdict_deadline,
        "rollout.verdict_deadline",
        program.rollout.verdict_deadline,
        f"at least {latest}: every submission gets its verdict",
    )
    with Checkpoints(folder / run_folder.CHECKPOINTS) as checkpoints:
        state, _ = bases.restore(
            checkpoints,
            experiment.frozen_base,
            state_shapes(experiment),
            finding.step_named(checkpoints, tick),
            check=lambda notes: run_folder.require_notes_of(
                notes, workdir.settings_of(config), folder
            ),
        )
    rate = entry.learning_rate
    if rate is None:
        rate = optimizer.peak_rate(config.learner, config.model)
    program = dataclasses.replace(program, schedule=optax.constant_schedule(rate))
    return Contestant(name=name, program=program, state=state)


def _contest_config(config, env, entry, folder):
    """The config of a run of one contest: another world and budget, the same agent."""
    group_size = config.rollout.group_size
    require(
        entry.budget % group_size == 0,
        "budget",
        entry.budget,
        f"a multiple of {group_size}, the group of {folder}: groups write together",
    )
    slots = entry.budget // group_size
    rollout = config.rollout
    lanes_per_slot = math.ceil(rollout.num_lanes / rollout.decode_slots)
    changes = {
        name: value for name, value in fields.flatten(env.to_dict(), prefix="env.")
    }
    return fields.change(
        config,
        changes
        | {
            "num_ticks": entry.num_ticks,
            "ticks_per_dispatch": 1,
            "rollout.num_blocks": 1,
            "rollout.num_lanes": slots * lanes_per_slot,
            "rollout.decode_slots": slots,
            "rollout.num_rows": 0,
            "learner.update_slots": 0,
            "learner.num_microbatches": 1,
            "learner.schedule": "constant",
            "learner.warmup_ticks": 0,
            "algorithm.pilot_groups": 0,
        },
    )
