"""Runs a grid over any fields of a config, each point with some seeds.

  python -m experiments.sweep --config=experiments/configs/quickstart.py \
      --sweep.learner.learning_rate=1e-4,3e-4 --sweep.algorithm.credit=agentic,outcome \
      --seeds=5 --parallel=2 --workdir=runs/credit [--dry_run] [--config.field=value]

Fields that move together are one axis, --sweep.rollout.num_lanes+rollout.decode_slots=
16:8,32:16. A random search draws its points, --random=20, from lists and from ranges,
--sweep.learner.learning_rate="log(1e-5,1e-3)" or "uniform(LOW,HIGH)"; --search_seed=1
draws others. At the end, and at any time with --table, what has been found is told as a
table, the best point first, and written to results.csv.

Without --sweep flags the config file's own ``sweep()`` gives the points: a function
that yields dicts of overrides. Every point has a folder named by what differs, every
seed a folder within it. The same command again skips what is finished and goes on with
the rest; a run that crashes stops no other, and is reported with its traceback.

Runs that differ only after the warm start share it. Machines that share a folder share
a sweep: --shard=2/8 runs the second of eight shares. --vmap_seeds trains all seeds of a
point in one program, which is what an accelerator wants (then with --parallel=1).
"""

import sys

from absl import flags

from agentic_grpo.training import compile_cache, paths
from experiments import front
from experiments.config import command_line
from experiments.config.checks import require
from experiments.sweeps import grid, planning, results_table, scheduler
from experiments.sweeps.live_table import report
from experiments.sweeps.scheduler import State

CONFIG = flags.DEFINE_string(
    "config", None, "What the points start from.", required=True
)
WORKDIR = front.define_workdir("The sweep's folder.")
SEEDS = flags.DEFINE_integer("seeds", None, "Runs per point; 1.", lower_bound=1)
FIRST_SEED = flags.DEFINE_integer(
    "first_seed", None, "Of every point, then upwards; the config's."
)
PARALLEL = front.define_parallel()
DRY_RUN = flags.DEFINE_bool("dry_run", False, "Only list the runs and their cost.")
SHARD = front.define_shard()
RANDOM = flags.DEFINE_integer(
    "random", None, "Points drawn at random, in place of all.", lower_bound=2
)
SEARCH_SEED = flags.DEFINE_integer("search_seed", 0, "Of the points of --random.")
TABLE = flags.DEFINE_bool("table", False, "Only tell what has been found so far.")
VMAP_SEEDS = front.define_vmap_seeds()
COMPILE_CACHE = front.define_compile_cache()
WARM_START_CACHE = front.define_warm_start_cache(
    "Folder of base models; in the sweep's by default."
)


def main(words):
    front.leave_accelerators_to_the_runs()
    progress = run(command_line.split(words, "config", "sweep"))
    if progress is None:
        return False
    print(report(progress))
    return any(one.state is not State.DONE for one in progress)


def run(typed: dict[str, list[str]]) -> list[scheduler.Progress] | None:
    """Runs what the flags say; None after a dry run.

    Args:
      typed: the flags of fields: {"config": ["seed=1"], "sweep": ["num_ticks=8,16"]}.
    """
    folder = paths.locate_workdir(WORKDIR.value)
    config = command_line.read_config(CONFIG.value, typed["config"])
    overrides = _points(typed["sweep"])
    changed = [change.partition("=")[0] for change in typed["config"]]
    planning.require_one_source(
        overrides, changed, num_seeds=SEEDS.value, first_seed=FIRST_SEED.value
    )
    first = config.seed if FIRST_SEED.value is None else FIRST_SEED.value
    seeds = range(first, first + (SEEDS.value or 1))
    points = planning.make_points(overrides, seeds)
    if TABLE.value:
        print(_found(folder, points))
        return None
    jobs = planning.make_jobs(config, points, folder, seeds_together=VMAP_SEEDS.value)
    jobs = scheduler.shard(jobs, SHARD.value)
    if DRY_RUN.value:
        for job in jobs:
            state = "finished" if job.is_finished else f"{job.seconds:.0f} s"
            print(f"{folder / job.name}  {state}")
        print(planning.plan(jobs, PARALLEL.value))
        return None
    print(planning.plan(jobs, PARALLEL.value), file=sys.stderr)
    progress = planning.execute(
        jobs,
        folder,
        parallel=PARALLEL.value,
        lock_name=f"shard-{SHARD.value.replace('/', '-of-')}",
        warm_start_cache=front.warm_start_folder(WARM_START_CACHE.value),
        compile_cache=compile_cache.locate(COMPILE_CACHE.value),
    )
    print(_found(folder, points))
    return progress


def _found(folder, points):
    """What a person is told of the runs that are finished; writes the file, too."""
    found = results_table.rows(folder, points)
    if not any(row["seeds"] for row in found):
        return f"no run in {folder} is finished"
    return f"{results_table.render(found)}\n{results_table.write(folder, found)}"


def _points(axes):
    """From the flags, or from the config file's ``sweep``."""
    if RANDOM.value:
        rule = "left out without axes to draw from: --sweep.FIELD=..."
        require(bool(axes), "--random", RANDOM.value, rule)
        return grid.draw(grid.parse(axes), RANDOM.value, seed=SEARCH_SEED.value)
    if axes:
        return grid.product(grid.parse(axes))
    own = vars(command_line.load_module(CONFIG.value)).get("sweep")
    return list(own()) if own else [{}]


if __name__ == "__main__":
    front.run(main, takes_fields=True, goes_on=True)
