"""What a run is expected to cost, before any has been timed: seconds on one CPU core.

The constants were measured with two small decoders (98,000 and 304,000 parameters in
their layers) on one core of a 2.5 GHz x86 server. They plan; once jobs have ended, the
runner goes by those.
"""

import jax
from ml_collections import ConfigDict

from experiments.config.build import Experiment

#: Imports, tracing, loading compiled programs, the last checkpoint.
START_SECONDS = 9.0
#: A program that is not in the compile cache yet.
COMPILE_SECONDS = 22.0
#: A token column of an episode, per parameter of the layers: of one that is played, of
#: a row that is learnt from, of the warm start.
PLAY_SECONDS = 7.5e-11
LEARN_SECONDS = 6.5e-11
WARM_START_SECONDS = 7e-11


def of_run(experiment: Experiment, config: ConfigDict) -> float:
    """Everything after the warm start and without compilation."""
    program, layout = experiment.program, experiment.program.environment.spec.layout
    members, blocks = config.rollout.group_size, config.rollout.num_blocks
    columns = layout.num_columns
    played = program.rollout.decode_slots * blocks * members / layout.num_stages
    passes = program.passes + 0.3 * program.anchor_after_immediate
    learnt = program.update_slots * blocks * members * passes
    tick = PLAY_SECONDS * played + LEARN_SECONDS * learnt
    evaluations = _count(config.num_ticks, config.evaluation.every)
    curve = evaluations * experiment.evaluation.num_problems
    episodes = (curve + 2 * experiment.test.num_problems) * (
        experiment.evaluation.samples_per_problem
    )
    work = config.num_ticks * tick + episodes * PLAY_SECONDS
    return START_SECONDS + _parameters(experiment) * columns * work


def of_warm_start(experiment: Experiment) -> float:
    """Pre-training one base model."""
    columns = experiment.program.environment.spec.layout.num_columns
    settings = experiment.warm_start
    episodes = settings.num_steps * settings.episodes_per_step
    return WARM_START_SECONDS * _parameters(experiment) * episodes * columns


def _parameters(experiment):
    """Of the layers: all that is multiplied with, once per token.

    Of a model from elsewhere: of all its matrices, whatever they are for.
    """
    params = jax.eval_shape(experiment.program.policy.init, experiment.init_key)
    if isinstance(params, dict):
        params = params.get("blocks", params)
    return sum(leaf.size for leaf in jax.tree.leaves(params) if leaf.ndim > 1)


def _count(num_ticks, every):
    return 1 + num_ticks // every if every else 2
