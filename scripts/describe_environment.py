"""Prints what the code-execution environment asks, and what scripted agents score.

For every stage: the mean reward of agents that write noise, brute force, and efficient
programs; and how well each stage's reward foretells the verdict, per level, for an
agent that writes both kinds of program and fails at one stage in four.

  python scripts/describe_environment.py
  python scripts/describe_environment.py --stages=code,debug --fidelity=0
  python scripts/describe_environment.py --families=all --mode=deceptive
"""

import argparse

import jax
import numpy as np

from agentic_grpo.envs.code_execution import (
    CodeExecution,
    CodeExecutionConfig,
    ScriptedAgent,
    diagnostics,
)
from agentic_grpo.envs.code_execution.problems import families, splits

DEFAULTS = CodeExecutionConfig()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--families",
        default=",".join(DEFAULTS.families),
        help="names separated by commas, or 'all'",
    )
    parser.add_argument(
        "--stages",
        default="hypothesis,algorithm,summary,code,tests,debug",
        help="the workflow, names separated by commas",
    )
    parser.add_argument("--fidelity", type=float, default=DEFAULTS.visible_fidelity)
    parser.add_argument("--mode", default=DEFAULTS.fidelity_mode)
    parser.add_argument("--groups", type=int, default=256)
    return parser.parse_args()


def build_environment(arguments) -> CodeExecution:
    chosen = arguments.families
    names = tuple(families.FAMILIES) if chosen == "all" else tuple(chosen.split(","))
    stages = tuple(arguments.stages.split(","))
    return CodeExecution(
        CodeExecutionConfig(
            families=names,
            stages=stages,
            hidden_rate=DEFAULTS.hidden_rate if "hypothesis" in stages else 0.0,
            visible_fidelity=arguments.fidelity,
            fidelity_mode=arguments.mode,
        )
    )


def print_families(environment):
    table = environment.setting.table
    print("family                      level  problems in", *splits.SPLITS)
    for index, family in enumerate(table.families):
        of_family = table.split[table.family == index]
        counts = [int(np.sum(of_family == k)) for k in range(len(splits.SPLITS))]
        print(f"{family.name:27} {family.level:5}   ", *(f"{n:6}" for n in counts))


def print_table(title, names, rows):
    print(f"\n{title:16}" + "".join(f"{name:>12}" for name in names))
    for label, values in rows:
        cells = ("-" if np.isnan(value) else f"{value:.2f}" for value in values)
        print(f"{label:16}" + "".join(f"{cell:>12}" for cell in cells))


def main():
    arguments = parse_arguments()
    environment = build_environment(arguments)
    stages = [stage.name for stage in environment.spec.layout.stages]
    print_families(environment)

    play = diagnostics.player(environment, split="train", num_members=8)
    keys = jax.random.split(jax.random.key(0), arguments.groups)

    def episodes(**dials):
        return play(keys, ScriptedAgent(environment, **dials).dials)

    noise = dict.fromkeys(set(environment.config.stages), 0.0)
    agents = {
        "noise": episodes(efficient_share=0.0, competence=noise),
        "brute force": episodes(efficient_share=0.0),
        "efficient": episodes(efficient_share=1.0),
    }
    print_table(
        "mean reward",
        [*stages, "verdict", "solved"],
        [
            (name, [*diagnostics.mean_rewards(e), e.verdict.mean(), e.solved.mean()])
            for name, e in agents.items()
        ],
    )
    fallible = dict.fromkeys(noise, 0.75)
    mixed = episodes(efficient_share=0.5, competence=fallible)
    levels = environment.spec.levels
    correlation = diagnostics.reward_verdict_correlation(mixed, len(levels))
    print_table("correlation", stages, list(zip(levels, correlation, strict=True)))


if __name__ == "__main__":
    main()
