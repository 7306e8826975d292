"""Trains one agent: warm start, then credit as it comes, then a test.

  python -m experiments.train --config=experiments/configs/quickstart.py \
      --workdir=runs/quickstart [--config.any.field=value]

Any field of the config is a flag; python -m experiments.describe lists them all. Run
again on the same workdir it goes on where it stopped, or says that it is finished.
SIGTERM or Ctrl-C stops it at the end of a dispatch, with everything saved; a second one
ends it at once. In a job of several processes each of them runs this command with
--distributed.
"""

import contextlib
import functools
import json
import os
import pathlib

from absl import flags

from agentic_grpo.training import (
    compile_cache,
    compiling,
    devices,
    paths,
    processes,
    run_folder,
    running,
)
from agentic_grpo.training.loop import NonFiniteError
from agentic_grpo.training.progress import Progress
from agentic_grpo.training.stopping import stop_on_signals
from experiments import front
from experiments.config import command_line, fields
from experiments.config.build import (
    Experiment,
    build,
    build_layout,
    memory_of,
    state_shapes,
    trace,
)
from experiments.runs import (
    base_model,
    on_real_clock,
    profiling,
    starting,
    workdir,
)

CONFIG = flags.DEFINE_string(
    "config", None, "The experiment's config file.", required=True
)
WORKDIR = front.define_workdir()
COMPILE_CACHE = front.define_compile_cache()
WARM_START_CACHE = front.define_warm_start_cache()
DISTRIBUTED = flags.DEFINE_bool(
    "distributed", False, "Join the other processes of the job; see the README."
)

#: Bytes; who needs less need not be told.
WORTH_TELLING = 1e9


def main(words):
    folder = paths.locate_workdir(WORKDIR.value)
    try:
        changes = command_line.split(words, "config")["config"]
        config = command_line.read_config(CONFIG.value, changes)
        compile_cache.enable(COMPILE_CACHE.value)
        if DISTRIBUTED.value:
            processes.join()
        else:
            devices.split_cpu(
                data=config.devices.data,
                fsdp=config.devices.fsdp,
                num_blocks=config.rollout.num_blocks,
            )
        shared = front.warm_start_folder(WARM_START_CACHE.value)
        run(config, folder, warm_start_cache=shared)
    except OSError as error:  # a full disk, say
        front.refuse(f"{error}. {run_folder.what_is_left(folder)}")
    except KeyboardInterrupt:  # before the run listens, or after it
        return front.INTERRUPTED
    return 0


def run(
    config, folder: pathlib.Path, *, warm_start_cache: pathlib.Path | None = None
) -> dict | None:
    """Trains the config in a folder.

    Args:
      config: of the run.
      folder: its workdir.
      warm_start_cache: folder of base models that runs share.

    Returns:
      The summary, as in ``summary.json``; None if a signal ended the run before.

    Raises:
      ValueError: the config or the folder is not fit for it; nothing was computed.
      CheckpointError: a checkpoint is missing or damaged, or cannot be written.
      NonFiniteError: the warm start or the training diverged.
    """
    experiment = build(config)
    starting.require_there(config.init_from, experiment)
    on_real_clock.check(config, folder)
    layout = build_layout(config, experiment.program)
    settings = workdir.settings_of(config)
    alike = dict(fields.flatten(settings))
    processes.require_same({"workdir": str(folder), **alike})
    with (
        experiment.at_work(),
        stop_on_signals() as stop_requested,
        run_folder.claimed(folder, settings) as done,
    ):
        if done is None:
            return _train(
                experiment, layout, config, folder, warm_start_cache, stop_requested
            )
    if processes.is_first_process():
        print(f"{folder} is finished; its summary:\n{json.dumps(done, indent=2)}")
    return done


def _train(experiment, layout, config, folder, warm_start_cache, stop_requested):
    """From the newest checkpoint, or the warm start, to the summary."""
    with contextlib.ExitStack() as stack:
        base = experiment.frozen_base
        recording = workdir.recording_of(config, folder, base=base)
        stack.enter_context(recording)
        progress = stack.enter_context(_progress(config, stack))

        def begin():
            trace(experiment)
            params = base_model.first_params(
                experiment, config, warm_start_cache, progress, stop_requested
            )
            if processes.any_process(params is None):
                return None
            return devices.first_state(
                layout,
                experiment.program,
                experiment.starting_params(params),
                experiment.run_key,
            )

        return running.go_on(
            recording,
            _machine(
                experiment, layout, config, folder, progress, stop_requested, stack
            ),
            experiment.loop,
            progress,
            stop_requested,
            target=layout.abstract(state_shapes(experiment)),
            begin=begin,
        )


def _progress(config, stack):
    """The display of the first process; the others say nothing."""
    if processes.is_first_process():
        return Progress(config.num_ticks)
    return Progress(config.num_ticks, stream=stack.enter_context(open(os.devnull, "w")))


def _machine(
    experiment: Experiment, layout, config, folder, progress, stop_requested, stack
):
    """The run as it is computed, and profiled where that is asked for."""

    def compile_dispatch(state):
        needed = memory_of(config, experiment)
        if needed is not None and needed.total > WORTH_TELLING:
            progress.message(str(needed))
        if experiment.real_clock is None:
            dispatch, seconds = _compile(config, layout, experiment.program, state)
        else:
            dispatch, seconds = on_real_clock.compile_dispatch(
                experiment,
                config,
                layout,
                folder,
                state,
                stop=stop_requested.is_set,
                stack=stack,
            )
        progress.message(f"compiled the tick in {seconds:.1f} s")
        profiled = profiling.profiled(
            folder / "profile",
            dispatch,
            ticks_per_dispatch=config.ticks_per_dispatch,
            enabled=config.profile and processes.is_first_process(),
        )
        return stack.enter_context(profiled)

    return running.machine_of_one(
        experiment.program,
        layout,
        curve=experiment.evaluation,
        test=experiment.test,
        key=experiment.evaluation_key,
        compile_dispatch=compile_dispatch,
        waits=experiment.real_clock is not None,
    )


def _compile(config, layout, program, state):
    """The dispatch and how long it took; its operations labelled for a profile."""
    compile_dispatch = functools.partial(
        compiling.compile_dispatch, num_ticks=config.ticks_per_dispatch
    )
    if not config.profile:
        return compile_dispatch(layout, program, state)
    with profiling.names_kept():
        return compile_dispatch(layout, profiling.labelled(program), state)


if __name__ == "__main__":
    front.run(main, takes_fields=True, refusals=[NonFiniteError])
