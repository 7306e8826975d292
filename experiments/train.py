"""Trains one agent: warm start, then credit as it comes, then a test.

  python -m experiments.train --config=experiments/configs/quickstart.py \
      --workdir=runs/quickstart [--config.any.field=value]

Run again on the same workdir it goes on where it stopped, or says that it is finished.
"""

import functools
import json
import pathlib
import sys
import time

import jax
from absl import app, flags, logging
from ml_collections import config_flags

from agentic_grpo.training import compile_cache, devices, evaluation, tick, warm_start
from agentic_grpo.training.checkpoints import CheckpointError, Checkpoints
from agentic_grpo.training.loop import Hooks, NonFiniteError, train
from agentic_grpo.training.metrics import MetricsWriter, Progress
from experiments import workdir
from experiments.build import Experiment, build, state_shapes

CONFIG = config_flags.DEFINE_config_file(
    "config", None, "The experiment's config file."
)
WORKDIR = flags.DEFINE_string("workdir", None, "The run's folder.")
COMPILE_CACHE = flags.DEFINE_string(
    "compile_cache", None, 'Folder of compiled programs; "off" for none.'
)


def main(argv):
    if len(argv) > 1:
        sys.exit(f"error: {argv[1]!r} is no flag; flags look like --config.seed=1")
    if not flags.FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)  # Orbax tells a lot at INFO
    compile_cache.enable(COMPILE_CACHE.value)
    try:
        run(CONFIG.value, pathlib.Path(WORKDIR.value))
    except (ValueError, CheckpointError, NonFiniteError) as error:
        sys.exit(f"error: {error}")


def run(config, folder: pathlib.Path) -> dict | None:
    """Trains the config in a folder.

    Returns:
      The summary, as in ``summary.json``; None if SIGTERM ended the run before.

    Raises:
      ValueError: the config or the folder is not fit for it; nothing was computed.
      CheckpointError: a checkpoint is missing or damaged.
      NonFiniteError: training diverged.
    """
    experiment = build(config)
    workdir.claim(folder, config)
    done = workdir.finished(folder, config.num_ticks)
    if done:
        print(f"{folder} is finished; its summary:\n{json.dumps(done, indent=2)}")
        return done
    started = time.perf_counter()
    evaluate, test = _evaluators(experiment)
    with (
        Checkpoints(folder / "checkpoints", keep=config.checkpoint.keep) as checkpoints,
        Progress(
            config.num_ticks, start_tick=checkpoints.latest_step() or 0
        ) as progress,
        MetricsWriter(folder, tensorboard=config.logging.tensorboard) as writer,
    ):
        if checkpoints.latest_step() is None:
            workdir.require_no_metrics(folder)
            state, before = _first_state(experiment, test, progress)
            spent = 0.0
        else:
            state, notes = checkpoints.restore(state_shapes(experiment))
            before, spent = notes["before"], notes["seconds"]
            progress.message(f"goes on from tick {int(state.tick)}")

        def save(now, state):
            seconds = spent + time.perf_counter() - started
            notes = {"config": config.to_json(), "before": before, "seconds": seconds}
            checkpoints.save(now, state, notes)

        def write(now, values):
            writer.write(now, values)
            progress.update(now, values)

        first_tick = int(state.tick)
        save(first_tick, state)
        writer.truncate_after(first_tick)
        if first_tick == 0:
            write(
                0,
                {
                    f"eval/{k}": v
                    for k, v in evaluation.read(evaluate(state.learner.params)).items()
                },
            )
        dispatch, seconds = devices.compile_dispatch(
            experiment.program, state, num_ticks=config.ticks_per_dispatch
        )
        progress.message(f"compiled the tick in {seconds:.1f} s")
        hooks = Hooks(dispatch=dispatch, evaluate=evaluate, write=write, save=save)
        state, finished = train(state, experiment.loop, hooks)
        if not finished:
            progress.message(f"stopped at tick {int(state.tick)}; run again to go on")
            return None
        after = evaluation.read(test(state.learner.params))
        summary = {
            "solve_rate_before": before["solve_rate"],
            "solve_rate_after": after["solve_rate"],
            "ticks": int(state.tick),
            "wall_seconds": round(spent + time.perf_counter() - started, 1),
            "seed": config.seed,
            "test_problems": experiment.test.num_problems,
            "before": before,
            "after": after,
        }
        workdir.write_json(folder / "summary.json", summary)
        progress.message(
            f"solve rate on {experiment.test.num_problems} test problems: "
            f"{before['solve_rate']:.3f} before, {after['solve_rate']:.3f} after"
        )
    return summary


def _evaluators(experiment: Experiment):
    """(of the learning curve, of the test): params -> metrics on the device."""
    program = experiment.program

    def evaluator(settings):
        def compute(params, key):
            return evaluation.evaluate(
                program.policy, params, program.environment, key, settings
            )

        return functools.partial(_call, jax.jit(compute), experiment.evaluation_key)

    return evaluator(experiment.evaluation), evaluator(experiment.test)


def _call(compute, key, params):
    return compute(params, key)


def _first_state(experiment: Experiment, test, progress):
    """Pre-trains the policy and tests it: (state at tick 0, test metrics)."""
    program, settings = experiment.program, experiment.warm_start
    params = jax.jit(program.policy.init)(experiment.warm_start_key)
    step = jax.jit(
        functools.partial(
            warm_start.run_steps,
            program.policy,
            experiment.agent,
            program.environment,
            settings,
        ),
        donate_argnums=0,
    )
    carry = warm_start.init(params, settings)
    for done in range(0, settings.num_steps, settings.steps_per_dispatch):
        carry, losses = step(carry, experiment.warm_start_key)
        progress.message(
            f"warm start: {done + settings.steps_per_dispatch}/{settings.num_steps} "
            f"steps, {float(losses[-1]):.3f} nats per token"
        )
    before = evaluation.read(test(carry[0]))
    progress.message(
        f"base model solves {before['solve_rate']:.3f} of the test problems"
    )
    # Under jit every leaf gets a buffer of its own, so that all can be donated.
    first = jax.jit(functools.partial(tick.init, program))
    return first(carry[0], experiment.run_key), before


if __name__ == "__main__":
    flags.mark_flags_as_required(["config", "workdir"])
    app.run(main)
