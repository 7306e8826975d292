"""Trains one agent: warm start, then credit as it comes, then a test.

  python -m experiments.train --config=experiments/configs/quickstart.py \
      --workdir=runs/quickstart [--config.any.field=value]

Run again on the same workdir it goes on where it stopped, or says that it is finished.
SIGTERM stops it at the end of a dispatch, with everything saved. In a job of several
processes each of them runs this command with --distributed.
"""

import contextlib
import functools
import json
import os
import pathlib
import sys
import time

import jax
from absl import app, flags, logging

from agentic_grpo.training import (
    compile_cache,
    compiling,
    devices,
    evaluation,
    leaves,
    paths,
    processes,
)
from agentic_grpo.training.checkpoints import CheckpointError, Checkpoints
from agentic_grpo.training.loop import Hooks, NonFiniteError, stop_on_sigterm, train
from agentic_grpo.training.metrics import MetricsWriter, Progress
from experiments.config import command_line
from experiments.config.build import (
    Experiment,
    build,
    build_layout,
    state_shapes,
    trace,
)
from experiments.runs import base_model, profiling, workdir

CONFIG = flags.DEFINE_string(
    "config", None, "The experiment's config file.", required=True
)
WORKDIR = flags.DEFINE_string("workdir", None, "The run's folder.", required=True)
COMPILE_CACHE = flags.DEFINE_string(
    "compile_cache", None, 'Folder of compiled programs; "off" for none.'
)
WARM_START_CACHE = flags.DEFINE_string(
    "warm_start_cache", None, "Folder of base models that runs share; none by default."
)

DISTRIBUTED = flags.DEFINE_bool(
    "distributed", False, "Join the other processes of the job; see the README."
)


def main(argv):
    if not flags.FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)  # Orbax tells a lot at INFO
    shared = WARM_START_CACHE.value
    try:
        changes = command_line.split(argv[1:], "config")["config"]
        config = command_line.read_config(CONFIG.value, changes)
        folder = paths.locate_workdir(WORKDIR.value)
        compile_cache.enable(COMPILE_CACHE.value)
        if DISTRIBUTED.value:
            processes.join()
        else:
            devices.split_cpu(
                data=config.devices.data,
                fsdp=config.devices.fsdp,
                num_blocks=config.rollout.num_blocks,
            )
        run(
            config,
            folder,
            warm_start_cache=paths.locate(shared, "warm_start_cache")
            if shared
            else None,
        )
    except (ValueError, CheckpointError, NonFiniteError) as error:
        sys.exit(f"error: {error}")
    except OSError as error:  # a full disk, say
        sys.exit(
            f"error: {error}, in {WORKDIR.value}. What was saved before is intact, and "
            "the same command goes on from there."
        )


def run(
    config, folder: pathlib.Path, *, warm_start_cache: pathlib.Path | None = None
) -> dict | None:
    """Trains the config in a folder.

    Args:
      config: of the run.
      folder: its workdir.
      warm_start_cache: folder of base models that runs share.

    Returns:
      The summary, as in ``summary.json``; None if SIGTERM ended the run before.

    Raises:
      ValueError: the config or the folder is not fit for it; nothing was computed.
      CheckpointError: a checkpoint is missing or damaged, or cannot be written.
      NonFiniteError: training diverged.
    """
    experiment = build(config)
    layout = build_layout(config, experiment.program)
    with stop_on_sigterm() as stop_requested, workdir.claimed(folder, config):
        done = workdir.finished(folder, config)
        if done:
            if processes.is_first_process():
                print(
                    f"{folder} is finished; its summary:\n{json.dumps(done, indent=2)}"
                )
            return done
        return _train(
            experiment, layout, config, folder, warm_start_cache, stop_requested
        )


def _train(experiment, layout, config, folder, warm_start_cache, stop_requested):
    """From the newest checkpoint, or the warm start, to the summary."""
    started = time.perf_counter()
    program, first = experiment.program, processes.is_first_process()
    evaluate, test = _evaluators(experiment, layout)
    with (
        Checkpoints(
            folder / "checkpoints",
            keep=config.checkpoint.keep,
            keep_best=config.checkpoint.keep_best,
        ) as checkpoints,
        open(os.devnull, "w") as nowhere,
        Progress(
            config.num_ticks,
            start_tick=checkpoints.latest_step() or 0,
            stream=None if first else nowhere,
        ) as progress,
        MetricsWriter(folder, tensorboard=config.logging.tensorboard) as writer,
        contextlib.ExitStack() as stack,
    ):
        if checkpoints.latest_step() is None:
            workdir.require_no_metrics(folder)
            trace(experiment)
            params = base_model.first_params(
                experiment, config, warm_start_cache, progress
            )
            state = devices.first_state(layout, program, params, experiment.run_key)
            before, spent = evaluation.read(test(state.learner.params)), 0.0
            progress.message(
                f"base model solves {before['solve_rate']:.3f} of the test problems"
            )
        else:
            target = layout.abstract(state_shapes(experiment))
            state, notes = checkpoints.restore(target)
            before, spent = notes["before"], notes["seconds"]
            progress.message(f"goes on from tick {int(state.tick)}")
        line = {}

        def write(now, values):
            line.update(tick=now, values=values)
            if first:
                writer.write(now, values)
                progress.update(now, values)

        def save(now, state):
            seconds = spent + time.perf_counter() - started
            notes = {"config": config.to_json(), "before": before, "seconds": seconds}
            values = line["values"] if line.get("tick") == now else {}
            score = values.get("eval/solve_rate")
            checkpoints.save(now, state, notes, metric=score)

        def dump(refused):
            path = folder / "refused_batch.npz"
            refused = jax.tree.map(leaves.to_host, refused)
            if first:
                leaves.dump(refused, path)
            return path

        first_tick = int(state.tick)
        save(first_tick, state)
        checkpoints.wait()  # no metrics without a checkpoint to go on from
        if first:
            writer.truncate_after(first_tick if first_tick else -1)
        if first_tick == 0:
            rates = evaluation.read(evaluate(state.learner.params))
            write(0, {f"eval/{name}": rate for name, rate in rates.items()})
        dispatch, seconds = _compile(config, layout, program, state)
        progress.message(f"compiled the tick in {seconds:.1f} s")
        dispatch = stack.enter_context(
            profiling.profiled(
                folder / "profile",
                dispatch,
                ticks_per_dispatch=config.ticks_per_dispatch,
                enabled=config.profile and first,
            )
        )
        hooks = Hooks(
            dispatch=dispatch,
            evaluate=evaluate,
            write=write,
            save=save,
            dump=dump,
            stop=lambda: processes.any_process(stop_requested.is_set()),
        )
        state, finished = train(state, experiment.loop, hooks)
        if not finished:
            progress.message(
                f"stopped at tick {int(state.tick)} of {config.num_ticks}, all of it "
                f"saved in {folder}; the same command goes on from there"
            )
            return None
        after = evaluation.read(test(state.learner.params))
        seconds = spent + time.perf_counter() - started
        checkpoints.wait()  # a summary says that all is there
        if not first:
            return None
        summary = workdir.write_summary(folder, config, before, after, seconds=seconds)
        progress.message(
            f"solve rate on {experiment.test.num_problems} test problems: "
            f"{before['solve_rate']:.3f} before, {after['solve_rate']:.3f} after"
        )
    return summary


def _compile(config, layout, program, state):
    """The dispatch and how long it took; its operations labelled for a profile."""
    compile_dispatch = functools.partial(
        compiling.compile_dispatch, num_ticks=config.ticks_per_dispatch
    )
    if not config.profile:
        return compile_dispatch(layout, program, state)
    with profiling.names_kept():
        return compile_dispatch(layout, profiling.labelled(program), state)


def _evaluators(experiment: Experiment, layout: devices.Layout):
    """(of the learning curve, of the test): params -> metrics on the devices."""
    program = experiment.program
    policy, environment = layout.spread(program.policy, program.environment)
    key = layout.place_everywhere(experiment.evaluation_key)

    def evaluator(settings):
        def compute(params, key):
            return evaluation.evaluate(policy, params, environment, key, settings)

        compiled = jax.jit(compute, out_shardings=layout.everywhere)
        return lambda params: compiled(params, key)

    return evaluator(experiment.evaluation), evaluator(experiment.test)


if __name__ == "__main__":
    app.run(main, argv=command_line.set_aside(sys.argv))
