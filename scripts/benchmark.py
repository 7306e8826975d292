"""Measures this machine: every suite, or one, as JSON and as a page of Markdown.

    python scripts/benchmark.py --suite=all --json=benchmark.json
    python scripts/benchmark.py --suite=environment --numba --json=environment.json
    python scripts/benchmark.py --against=experiments/results/benchmark --json=now.json

Suites: ops, environment, learner, rollout, end_to_end, real_clock, scaling, all.
Medians after a warm-up; what is compared with each other takes turns in the same run.
Ratios are how many times better than the reference. The page lies beside the
JSON. On a busy machine the load that was found is in the report, and the numbers mean
little. With --against what became slower by more than its spread is told at the end.

``--tiny`` takes toy sizes: it shows that everything runs, and measures nothing.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from agentic_grpo.training import compile_cache, devices
from experiments.configs import smoke
from scripts.benchmarks import (
    end_to_end,
    environment,
    learner,
    ops,
    real_clock,
    regression,
    reporting,
    rollout,
    scaling,
    virtual_environments,
    workloads,
)

TINY_VOCABULARIES = (32,)
TINY_AXES = (
    scaling.Axis(name="lanes", values=(2, 4)),
    scaling.Axis(name="layers", values=(1, 2)),
)


def _environment(arguments):
    folder = arguments.environments
    if arguments.numba:
        virtual_environments.make("numba", folder)
    if arguments.tiny:
        return environment.run(
            lanes=(2, 4), config=smoke.get_config(), numba_folder=folder
        )
    return environment.run(numba_folder=folder)


def _learner(arguments):
    if arguments.tiny:
        return learner.run(workloads.TINY, TINY_VOCABULARIES)
    return learner.run()


def _rollout(arguments):
    if arguments.tiny:
        return rollout.run(workloads.TINY, TINY_VOCABULARIES)
    return rollout.run()


def _end_to_end(arguments):
    if arguments.tiny:
        return end_to_end.run(
            workloads.TINY, config=smoke.get_config(), ticks=2, study=False
        )
    return end_to_end.run(study=not arguments.no_study)


def _real_clock(arguments):
    if arguments.tiny:
        return real_clock.run(workloads.TINY, lanes=4, seconds=0.2, turns=1, pace=0.05)
    return real_clock.run()


def _scaling(arguments):
    return scaling.run(TINY_AXES) if arguments.tiny else scaling.run()


#: name -> (arguments) -> rows; in the order of the page.
SUITES = {
    "ops": lambda _: ops.run(),
    "environment": _environment,
    "learner": _learner,
    "rollout": _rollout,
    "end_to_end": _end_to_end,
    "real_clock": _real_clock,
    "scaling": _scaling,
}


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", choices=(*SUITES, "all"), default="all")
    parser.add_argument("--json", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument(
        "--against",
        type=pathlib.Path,
        metavar="FILE or FOLDER",
        help="earlier reports: tell what is slower now",
    )
    parser.add_argument("--tiny", action="store_true", help="toy sizes")
    parser.add_argument(
        "--numba",
        action="store_true",
        help="install Numba into an environment of its own, for the suite environment",
    )
    parser.add_argument(
        "--no-study", action="store_true", help="leave the study run out: minutes"
    )
    parser.add_argument(
        "--environments",
        type=pathlib.Path,
        default=virtual_environments.default_folder(),
        metavar="DIR",
        help="where virtual environments of what we compare with are kept",
    )
    return parser.parse_args(argv)


def main(argv=None) -> None:
    arguments = parse_arguments(argv)
    before = read_before(arguments.against)
    compile_cache.enable()
    devices.split_cpu(data=0, num_blocks=workloads.JOB_BLOCKS)
    names = list(SUITES) if arguments.suite == "all" else [arguments.suite]
    machine = reporting.describe_machine()
    rows = []
    for name in names:
        print(f"suite {name} ...", flush=True)
        rows += SUITES[name](arguments)
    report = reporting.report(machine, rows)
    page = reporting.write(arguments.json, report, title="Benchmark")
    if "scaling" in names:
        reporting.draw_scaling(arguments.json.with_suffix(".scaling.png"), rows)
    print(page)
    if before is not None:
        print(regression.page(regression.compare(report, before)))


def read_before(place):
    """What ``--against`` names, before minutes are spent on measuring; None of none."""
    try:
        return None if place is None else regression.read(place)
    except ValueError as error:
        sys.exit(f"benchmark: {error}")


if __name__ == "__main__":
    main()
