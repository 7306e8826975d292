"""Several seeds of one config in one compiled program, side by side.

Each seed's folder gets what a run of its own would have given: metrics, checkpoints,
summary. Made for accelerators, which a single small run leaves idle; a CPU gains
nothing. An interrupted group goes on from the newest tick that all seeds have saved.

Letters: K seeds, the leading axis of everything on the device.
"""

import contextlib
import functools
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from agentic_grpo.training import evaluation, tick, tick_metrics
from agentic_grpo.training.checkpoints import Checkpoints
from agentic_grpo.training.loop import NonFiniteError, stop_on_sigterm
from agentic_grpo.training.metrics import MetricsWriter, Progress
from experiments.config.build import build, state_shapes
from experiments.config.checks import require
from experiments.runs import base_model, workdir


class Seed:
    """One seed: its config, what it is made of, and its files.

    Attributes:
      folder, config, experiment, checkpoints, writer: as in a run of its own.
      before: rates of its base model on the test problems.
      spent: seconds of earlier parts of the run.
    """

    def __init__(self, folder: pathlib.Path, config, stack: contextlib.ExitStack):
        self.experiment = build(config)
        stack.enter_context(workdir.claimed(folder, config))
        self.folder, self.config = folder, config
        self.checkpoints = stack.enter_context(
            Checkpoints(
                folder / "checkpoints",
                keep=config.checkpoint.keep,
                keep_best=config.checkpoint.keep_best,
            )
        )
        self.writer = stack.enter_context(
            MetricsWriter(folder, tensorboard=config.logging.tensorboard)
        )
        self.before: dict[str, float] = {}
        self.spent = 0.0


def run(
    folders: list[pathlib.Path],
    configs: list[ConfigDict],
    *,
    warm_start_cache: pathlib.Path | None = None,
) -> list[dict] | None:
    """Trains configs that differ in their seed alone, each in its folder.

    Returns:
      The summaries; None if SIGTERM ended the run before.

    Raises:
      ValueError: the configs differ otherwise, or a folder is not fit for it.
      CheckpointError: a checkpoint is missing or damaged.
      NonFiniteError: training of a seed diverged; names it.
    """
    require_only_seeds_differ(configs)
    require(
        not configs[0].profile,
        "profile",
        configs[0].profile,
        "False: one seed is profiled at a time, by experiments.train",
    )
    devices = configs[0].devices
    require(
        devices.data * devices.fsdp == 1,
        "devices",
        (devices.data, devices.fsdp),
        "data=1 and fsdp=1: seeds in one program share one device",
    )
    num_ticks = configs[0].num_ticks
    done = list(map(workdir.finished, folders, configs))
    if all(done):
        return done
    with contextlib.ExitStack() as stack:
        pairs = zip(folders, configs, strict=True)
        seeds = [Seed(folder, config, stack) for folder, config in pairs]
        progress = stack.enter_context(Progress(num_ticks))
        return _train(seeds, warm_start_cache, progress)


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


def _train(seeds, warm_start_cache, progress):
    """The loop of ``training.loop``, for all seeds at the same tick."""
    config, experiment = seeds[0].config, seeds[0].experiment
    started = time.perf_counter()
    evaluate = _evaluator(experiment, experiment.evaluation)
    test = _evaluator(experiment, experiment.test)
    state = _restore(seeds) or _first_state(seeds, test, warm_start_cache, progress)
    now = int(state.tick[0])
    lines = [{} for _ in seeds]
    _save(seeds, now, state, lines, started)
    for seed in seeds:
        seed.checkpoints.wait()  # no metrics without a checkpoint to go on from
        seed.writer.truncate_after(now or -1)
    if now == 0:
        _write(seeds, 0, lines, evaluate(state.learner.params), progress)
    dispatch = _compile(experiment, state, config.ticks_per_dispatch)
    with stop_on_sigterm() as stop_requested:
        while now < config.num_ticks and not stop_requested.is_set():
            began = time.perf_counter()
            state, metrics = dispatch(state)
            now += config.ticks_per_dispatch
            last = now == config.num_ticks
            rates = [{} for _ in seeds]
            if last or _due(now, config.evaluation.every):
                rates = evaluate(state.learner.params)
            lines = _summaries(metrics, seeds, now)
            for line in lines:
                line["time/seconds"] = time.perf_counter() - began
            _write(seeds, now, lines, rates, progress)
            if last or _due(now, config.checkpoint.every):
                _save(seeds, now, state, lines, started)
    if now < config.num_ticks:
        _save(seeds, now, state, lines, started)
        progress.message(f"stopped at tick {now}; run again to go on")
        return None
    after, passed = test(state.learner.params), time.perf_counter() - started
    for seed in seeds:
        seed.checkpoints.wait()  # a summary says that all is there
    return [
        workdir.write_summary(
            seed.folder, seed.config, seed.before, rates, seconds=seed.spent + passed
        )
        for seed, rates in zip(seeds, after, strict=True)
    ]


def _save(seeds, now, state, lines, started):
    passed = time.perf_counter() - started
    states = _unstack(state, len(seeds))
    for seed, own, line in zip(seeds, states, lines, strict=True):
        notes = {"config": seed.config.to_json(), "before": seed.before}
        notes["seconds"] = seed.spent + passed
        score = line.get("eval/solve_rate")
        seed.checkpoints.save(now, own, notes, metric=score)


def _write(seeds, now, lines, rates, progress):
    """Adds the rates to the lines and writes them."""
    for seed, line, own in zip(seeds, lines, rates, strict=True):
        line |= {f"eval/{name}": rate for name, rate in own.items()}
        seed.writer.write(now, line)
    progress.update(now, lines[0])


def _due(now, every):
    return every > 0 and now % every == 0


def _first_state(seeds, test, warm_start_cache, progress):
    """The state at tick 0, of base models that have been tested."""
    for seed in seeds:
        workdir.require_no_metrics(seed.folder)
    params = _stack(
        [
            base_model.first_params(
                seed.experiment, seed.config, warm_start_cache, progress
            )
            for seed in seeds
        ]
    )
    for seed, rates in zip(seeds, test(params), strict=True):
        seed.before = rates
    init = functools.partial(tick.init, seeds[0].experiment.program)
    keys = jnp.stack([seed.experiment.run_key for seed in seeds])
    return jax.jit(jax.vmap(init))(params, keys)


def _restore(seeds):
    """The newest state that all seeds have saved; None where none has begun."""
    steps = [set(seed.checkpoints.steps()) for seed in seeds]
    if not any(steps):
        return None
    common = set.intersection(*steps)
    require(
        common,
        "workdir",
        [str(seed.folder) for seed in seeds],
        "folders that have a checkpoint of the same tick, or none at all",
    )
    states = []
    for seed in seeds:
        state, notes = seed.checkpoints.restore(
            state_shapes(seed.experiment), max(common)
        )
        seed.before, seed.spent = notes["before"], notes["seconds"]
        states.append(state)
    return _stack(states)


def _compile(experiment, state, num_ticks):
    """(state) -> (state, metrics [K, num_ticks]); donates its state."""
    run_ticks = functools.partial(
        tick.run_ticks, experiment.program, num_ticks=num_ticks
    )
    return jax.jit(jax.vmap(run_ticks), donate_argnums=0).lower(state).compile()


def _evaluator(experiment, settings):
    """Parameters of all seeds -> their rates, on the same problems."""
    program = experiment.program

    def compute(params, key):
        return evaluation.evaluate(
            program.policy, params, program.environment, key, settings
        )

    compiled = jax.jit(jax.vmap(compute, in_axes=(0, None)))

    def evaluate(params):
        metrics = jax.device_get(compiled(params, experiment.evaluation_key))
        count = len(jax.tree.leaves(params)[0])
        return [evaluation.read(own) for own in _unstack(metrics, count)]

    return evaluate


def _summaries(metrics, seeds, now):
    """One line of metrics per seed; stops when a seed has gone wrong."""
    lines = []
    per_seed = _unstack(jax.device_get(metrics), len(seeds))
    for seed, own in zip(seeds, per_seed, strict=True):
        skipped = int(np.max(own.pop("skipped_in_a_row")))
        if skipped >= seed.config.learner.max_skipped:
            raise NonFiniteError(
                f"seed {seed.config.seed}: {skipped} steps in a row up to tick {now} "
                "had a loss or gradient that was not finite (learner.max_skipped="
                f"{seed.config.learner.max_skipped})"
            )
        lines.append(tick_metrics.summarise(own))
    return lines


def _stack(trees):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _unstack(tree, count):
    return [jax.tree.map(lambda x, k=k: x[k], tree) for k in range(count)]
