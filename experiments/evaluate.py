"""Evaluates a checkpoint on held-out problems and prints the rates as JSON.

  python -m experiments.evaluate --workdir=runs/quickstart [--split=validation] \
      [--problems=1024] [--samples=8] [--pass_at=1,8] [--greedy] [--tick=100]

--tick=best is the checkpoint with the highest solve rate of those that are kept.
"""

import functools
import json
import math
import pathlib
import sys

import jax
from absl import app, flags, logging

from agentic_grpo.training import bases, compile_cache, evaluation, paths, run_folder
from agentic_grpo.training.checkpoints import CheckpointError, Checkpoints
from agentic_grpo.training.plain_text import printable
from agentic_grpo.training.streams import Stream, key_of
from experiments.config.build import state_shapes
from experiments.config.checks import require
from experiments.runs import finding, workdir

WORKDIR = flags.DEFINE_string("workdir", None, "The run's folder.", required=True)
TICK = flags.DEFINE_string(
    "tick", None, "Which checkpoint, or best; the newest by default."
)
SPLIT = flags.DEFINE_string("split", "test", "Of the environment's problems.")
PROBLEMS = flags.DEFINE_integer("problems", 1024, "How many.", lower_bound=1)
SAMPLES = flags.DEFINE_integer("samples", 1, "Per problem.", lower_bound=1)
PASS_AT = flags.DEFINE_list("pass_at", [], "The k of pass@k to report.")
GREEDY = flags.DEFINE_bool(
    "greedy", False, "The most probable token instead of a draw."
)
SEED = flags.DEFINE_integer("seed", None, "Of the problems; the run's by default.")
COMPILE_CACHE = flags.DEFINE_string(
    "compile_cache", None, 'Folder of compiled programs; "off" for none.'
)


def main(argv):
    if len(argv) > 1:
        sys.exit(f"error: {argv[1]!r} is no flag; flags look like --split=test")
    if not flags.FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)
    try:
        folder = paths.locate_workdir(WORKDIR.value)
        compile_cache.enable(COMPILE_CACHE.value)
        print(json.dumps(run(folder), indent=2))
    except (ValueError, CheckpointError) as error:
        sys.exit(printable(f"error: {error}"))


def _pass_at(text):
    """One k of --pass_at, which --samples must allow."""
    legal = text.isdigit() and 1 <= int(text) <= SAMPLES.value
    rule = f"1 to --samples={SAMPLES.value}: k of so many samples per problem"
    require(legal, "--pass_at", text, rule)
    return int(text)


def run(folder: pathlib.Path) -> dict:
    """The rates of one checkpoint: {name: number}."""
    config, experiment = workdir.load_experiment(folder)
    program = experiment.program
    settings = evaluation.EvaluationSettings(
        split=SPLIT.value,
        num_problems=PROBLEMS.value,
        samples_per_problem=SAMPLES.value,
        pass_at=tuple(_pass_at(k) for k in PASS_AT.value),
        temperature=0.0 if GREEDY.value else experiment.test.temperature,
        batch_size=math.gcd(PROBLEMS.value, config.evaluation.batch_size),
    )
    with Checkpoints(folder / "checkpoints") as checkpoints:
        state, _ = bases.restore(
            checkpoints,
            experiment.frozen_base,
            state_shapes(experiment),
            finding.step_named(checkpoints, TICK.value),
            check=lambda notes: run_folder.require_notes_of(
                notes, workdir.settings_of(config), folder
            ),
        )
    seed = config.evaluation.seed if SEED.value is None else SEED.value
    compute = jax.jit(
        functools.partial(
            evaluation.evaluate,
            program.policy,
            environment=program.environment,
            settings=settings,
        )
    )
    with experiment.at_work():
        key = key_of(Stream.EVALUATION, seed)
        metrics = compute(state.learner.policy_params, key=key)
        read = evaluation.read(metrics)
    rates = {name: round(rate, 6) for name, rate in read.items()}
    return {"tick": int(state.tick), "split": SPLIT.value, "seed": seed} | rates


if __name__ == "__main__":
    app.run(main)
