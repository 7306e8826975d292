"""What a run is expected to cost, before any has been timed: seconds on one CPU core.

The constants were measured with the model of ``configs/default.py`` on one core of a
2.5 GHz x86 server. They plan; once jobs have ended, the runner goes by those.
"""

from ml_collections import ConfigDict

from experiments.build import Experiment

#: Imports, tracing, loading compiled programs, the last checkpoint.
START_SECONDS = 9.0
#: A program that is not in the compile cache yet.
COMPILE_SECONDS = 22.0
#: An episode and token column that is played; of it, a row that is learnt from.
PLAY_SECONDS = 2.4e-5
LEARN_SECONDS = 2.1e-5
WARM_START_SECONDS = 2.2e-5


def of_run(experiment: Experiment, config: ConfigDict) -> float:
    """Everything after the warm start and without compilation."""
    program, layout = experiment.program, experiment.program.environment.spec.layout
    members, blocks = config.rollout.group_size, config.rollout.num_blocks
    columns = layout.num_columns
    played = program.rollout.decode_slots * blocks * members / layout.num_stages
    passes = program.passes + 0.3 * program.anchor_after_immediate
    learnt = program.update_slots * blocks * members * passes
    per_tick = columns * (PLAY_SECONDS * played + LEARN_SECONDS * learnt)
    evaluations = _count(config.num_ticks, config.evaluation.every)
    curve = evaluations * experiment.evaluation.num_problems
    episodes = (curve + 2 * experiment.test.num_problems) * (
        experiment.evaluation.samples_per_problem
    )
    return (
        START_SECONDS + config.num_ticks * per_tick + episodes * columns * PLAY_SECONDS
    )


def of_warm_start(experiment: Experiment, config: ConfigDict) -> float:
    """Pre-training one base model."""
    columns = experiment.program.environment.spec.layout.num_columns
    episodes = config.warm_start.num_steps * config.warm_start.episodes_per_step
    return WARM_START_SECONDS * episodes * columns


def _count(num_ticks, every):
    return 1 + num_ticks // every if every else 2
