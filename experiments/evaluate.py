"""Evaluates a checkpoint on held-out problems and prints the rates as JSON.

  python -m experiments.evaluate --workdir=runs/quickstart [--split=validation] \
      [--problems=1024] [--samples=8] [--pass_at=1,8] [--greedy] [--tick=100]

Other problems than those of the run are asked with --config.env.FIELD=VALUE (its fields
alone), other samples with --temperature=0.5. --tick=best is the checkpoint with the
highest solve rate of those that are kept.
"""

import functools
import json
import math
import pathlib
from typing import Any

import jax
from absl import flags

from agentic_grpo.training import compile_cache, evaluation, paths
from agentic_grpo.training.streams import Stream, key_of
from experiments import front
from experiments.config import command_line, fields
from experiments.config.build import build
from experiments.config.checks import require
from experiments.runs import starting, workdir

#: The group of fields that an evaluation may change.
MAY_CHANGE = "env"

WORKDIR = front.define_workdir()
TICK = front.define_tick()
SPLIT = flags.DEFINE_string("split", "test", "Of the environment's problems.")
PROBLEMS = flags.DEFINE_integer("problems", 1024, "How many.", lower_bound=1)
SAMPLES = flags.DEFINE_integer("samples", 1, "Per problem.", lower_bound=1)
PASS_AT = flags.DEFINE_list("pass_at", [], "The k of pass@k to report.")
GREEDY = flags.DEFINE_bool(
    "greedy", False, "The most probable token instead of a draw."
)
TEMPERATURE = flags.DEFINE_float(
    "temperature", None, "Of the samples; the run's by default.", lower_bound=0.0
)
SEED = flags.DEFINE_integer("seed", None, "Of the problems; the run's by default.")
COMPILE_CACHE = front.define_compile_cache()


def main(words):
    folder = paths.locate_workdir(WORKDIR.value)
    compile_cache.enable(COMPILE_CACHE.value)
    typed = command_line.split(words, "config")["config"]
    changes = dict(map(command_line.parse_change, typed))
    print(json.dumps(run(folder, changes), indent=2))


def _temperature(experiment):
    """Of the samples: as typed, else as in the run."""
    if TEMPERATURE.value is None:
        return 0.0 if GREEDY.value else experiment.test.temperature
    rule = "left out: --greedy is temperature 0"
    require(not GREEDY.value, "--temperature", TEMPERATURE.value, rule)
    return TEMPERATURE.value


def _pass_at(text):
    """One k of --pass_at, which --samples must allow."""
    legal = text.isdigit() and 1 <= int(text) <= SAMPLES.value
    rule = f"1 to --samples={SAMPLES.value}: k of so many samples per problem"
    require(legal, "--pass_at", text, rule)
    return int(text)


def _changed(config, changes):
    """The config of the run, with the fields that are typed."""
    for field in changes:
        rule = f"a field of {MAY_CHANGE}: of what is asked, not of who answers"
        require(field.startswith(f"{MAY_CHANGE}."), "--config", field, rule)
    return fields.change(config, changes)


def run(folder: pathlib.Path, changes: dict[str, Any] | None = None) -> dict:
    """The rates of one checkpoint: {name: number}.

    Args:
      folder: of the run.
      changes: {field: value} in which the problems differ from those of the run.
    """
    changes = changes or {}
    config = workdir.load_config(folder)
    experiment = build(_changed(config, changes))
    program = experiment.program
    settings = evaluation.EvaluationSettings(
        split=SPLIT.value,
        num_problems=PROBLEMS.value,
        samples_per_problem=SAMPLES.value,
        pass_at=tuple(_pass_at(k) for k in PASS_AT.value),
        temperature=_temperature(experiment),
        batch_size=math.gcd(PROBLEMS.value, config.evaluation.batch_size),
    )
    saved_by = workdir.settings_of(config)
    tick, params = starting.read(folder, TICK.value, experiment, saved_by)
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
        metrics = compute(params, key=key_of(Stream.EVALUATION, seed))
        read = evaluation.read(metrics)
    rates = {name: round(rate, 6) for name, rate in read.items()}
    asked = {"tick": tick, "split": SPLIT.value, "seed": seed}
    return asked | changes | rates


if __name__ == "__main__":
    front.run(main, takes_fields=True)
