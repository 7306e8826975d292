"""Several seeds of one config in one compiled program, side by side.

Each seed's folder gets what a run of its own would have given: metrics, checkpoints,
summary. Made for accelerators, which a single small run leaves idle; a CPU gains
nothing. Each seed goes on from its own newest checkpoint: those that stand at the same
tick share a program, so that a group which was killed between two saves, or of which
one seed lost a checkpoint, loses nothing. (Programs of other sizes round differently: a
group that stayed together goes on to the bit, one that was parted to rounding.)

Letters: K seeds, the leading axis of everything on the device.
"""

import contextlib
import dataclasses
import functools
import itertools
import pathlib

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from agentic_grpo.training import evaluation, run_folder, running, tick
from agentic_grpo.training.checkpoints import CheckpointError
from agentic_grpo.training.loop import NonFiniteError
from agentic_grpo.training.progress import Progress
from agentic_grpo.training.recording import Recording
from agentic_grpo.training.stopping import stop_on_signals
from experiments.config import real_clock
from experiments.config.build import Experiment, build, state_shapes
from experiments.config.checks import require
from experiments.runs import base_model, starting, workdir


class SeedsError(RuntimeError):
    """Some seeds could not be trained to the end; says which, and why."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Seed:
    """One seed: what it is made of, and its files."""

    config: ConfigDict
    experiment: Experiment
    recording: Recording

    @property
    def name(self) -> str:
        return f"seed {self.config.seed}"


def run(
    folders: list[pathlib.Path],
    configs: list[ConfigDict],
    *,
    warm_start_cache: pathlib.Path | None = None,
) -> list[dict] | None:
    """Trains configs that differ in their seed alone, each in its folder.

    Returns:
      The summaries; None if a signal ended the run before.

    Raises:
      ValueError: the configs differ otherwise, or a folder is not fit for it; nothing
        was computed.
      SeedsError: some seeds diverged or have no intact checkpoint; the others are
        finished, or saved.
    """
    require_only_seeds_differ(configs)
    _require_one_device(configs[0])
    experiments = list(map(build, configs))
    starting.require_there(configs[0].init_from, experiments[0])
    settings = list(map(workdir.settings_of, configs))
    pairs = list(zip(folders, settings, strict=True))
    errors: list[str] = []
    with contextlib.ExitStack() as stack:
        for experiment in experiments:  # each plays its own warm start
            stack.enter_context(experiment.at_work())
        stop_requested = stack.enter_context(stop_on_signals())
        done = [stack.enter_context(run_folder.claimed(*pair)) for pair in pairs]
        left = [k for k, summary in enumerate(done) if summary is None]
        seeds = [
            _Seed(
                config=configs[k],
                experiment=experiments[k],
                recording=stack.enter_context(
                    workdir.recording_of(
                        configs[k],
                        folders[k],
                        share=1 / len(left),
                        base=experiments[k].frozen_base,
                    )
                ),
            )
            for k in left
        ]
        progress = stack.enter_context(Progress(configs[0].num_ticks))
        groups = _groups(seeds, warm_start_cache, progress, stop_requested, errors)
        for group in groups:
            if not stop_requested.is_set():
                try:
                    _train(group, progress, stop_requested)
                except NonFiniteError as error:
                    errors.append(str(error))
    if errors:
        raise SeedsError(" ".join(errors))
    summaries = [run_folder.finished(*pair) for pair in pairs]
    return None if None in summaries else summaries


def require_only_seeds_differ(configs: list[ConfigDict]) -> None:
    """Raises a ValueError unless the seeds differ, and nothing else does."""
    seeds = [config.seed for config in configs]
    require(len(set(seeds)) == len(seeds), "seed", seeds, "different in every folder")
    for config in configs[1:]:
        other = config.copy_and_resolve_references()
        other.seed = configs[0].seed
        require(
            other.to_json(sort_keys=True) == configs[0].to_json(sort_keys=True),
            "config",
            f"of seed {config.seed}",
            f"that of seed {configs[0].seed} but for the seed",
        )


def _require_one_device(config):
    require(
        not config.profile,
        "profile",
        config.profile,
        "False: one seed is profiled at a time, by experiments.train",
    )
    require(
        config.devices.data * config.devices.fsdp == 1,
        "devices",
        (config.devices.data, config.devices.fsdp),
        "data=1 and fsdp=1: seeds in one program share one device",
    )
    require(
        config.rollout.clock == real_clock.SIMULATED,
        "rollout.clock",
        config.rollout.clock,
        f"{real_clock.SIMULATED!r}: seeds in one program share their ticks; train each "
        "by experiments.train",
    )


def _groups(seeds, cache, progress, stop_requested, errors) -> list[list]:
    """Pairs (seed, state) that stand at the same tick; those that are behind first.

    None where it was asked to stop; what is wrong with single seeds goes to ``errors``.
    """
    standing = []
    for seed in seeds:
        try:
            state = _newest_or_first(seed, cache, progress, stop_requested)
        except (CheckpointError, NonFiniteError) as error:
            errors.append(f"{seed.name}: {error}")
            continue
        if state is None:
            return []
        standing.append((seed, state))

    def tick_of(pair):
        return int(pair[1].tick)

    by_tick = itertools.groupby(sorted(standing, key=tick_of), key=tick_of)
    return [list(group) for _, group in by_tick]


def _newest_or_first(seed, cache, progress, stop_requested):
    """The state from which a seed goes on; None if it was asked to stop before."""
    experiment = seed.experiment
    state = seed.recording.restore(state_shapes(experiment))
    if state is not None:
        return state
    params = base_model.first_params(
        experiment, seed.config, cache, progress, stop_requested
    )
    if params is None:
        return None
    init = functools.partial(tick.init, experiment.program)
    return jax.jit(init)(experiment.starting_params(params), experiment.run_key)


def _train(group, progress, stop_requested):
    """Trains seeds that stand at the same tick."""
    seeds, states = zip(*group, strict=True)
    experiment = seeds[0].experiment
    running.train(
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *states),
        _machine(experiment, len(seeds)),
        experiment.loop,
        {seed.name: seed.recording for seed in seeds},
        progress,
        stop_requested.is_set,
    )


def _machine(experiment: Experiment, count: int) -> running.Machine:
    """K seeds at a time: everything has a leading axis [K]."""
    program, key = experiment.program, experiment.evaluation_key

    def evaluator(settings):
        def compute(params, key):
            return evaluation.evaluate(
                program.policy, params, program.environment, key, settings
            )

        return jax.jit(jax.vmap(compute, in_axes=(0, None)))

    curve, test = evaluator(experiment.evaluation), evaluator(experiment.test)

    def compile_tick(state):
        run_ticks = functools.partial(
            tick.run_ticks,
            program,
            num_ticks=experiment.loop.ticks_per_dispatch,
            keep_refused=True,
        )
        dispatch = jax.jit(jax.vmap(run_ticks), donate_argnums=0).lower(state).compile()
        evaluate = curve.lower(state.learner.policy_params, key).compile()
        return dispatch, lambda params: evaluate(params, key)

    def split(tree):
        return [jax.tree.map(lambda x, k=k: x[k], tree) for k in range(count)]

    return running.Machine(
        compile=compile_tick, test=lambda params: test(params, key), split=split
    )
