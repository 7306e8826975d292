"""Runs a grid over any fields of a config, each point with some seeds.

  python -m experiments.sweep --config=experiments/configs/quickstart.py \
      --sweep.learner.learning_rate=1e-4,3e-4 --sweep.algorithm.credit=agentic,outcome \
      --seeds=5 --parallel=2 --workdir=runs/credit [--dry_run] [--config.field=value]

Without --sweep flags the config file's own ``sweep()`` gives the points: a function
that yields dicts of overrides. Every point has a folder named by what differs, every
seed a folder within it. The same command again skips what is finished and goes on with
the rest; a run that crashes stops no other, and is reported with its traceback.

Runs that differ only after the warm start share it. Machines that share a folder share
a sweep: --shard=2/8 runs the second of eight shares. --vmap_seeds trains all seeds of a
point in one program, which is what an accelerator wants (then with --parallel=1).
"""

import importlib.util
import pathlib
import sys

import jax
from absl import app, flags, logging
from ml_collections import config_flags

from experiments.config.checks import require
from experiments.sweeps import grid, planning, scheduler
from experiments.sweeps.live_table import report
from experiments.sweeps.scheduler import State

CONFIG = config_flags.DEFINE_config_file("config", None, "What the points start from.")
WORKDIR = flags.DEFINE_string("workdir", None, "The sweep's folder.")
SEEDS = flags.DEFINE_integer("seeds", 1, "Runs per point.", lower_bound=1)
FIRST_SEED = flags.DEFINE_integer("first_seed", 0, "Its seed; then upwards.")
PARALLEL = flags.DEFINE_integer("parallel", 1, "Runs side by side.", lower_bound=1)
DRY_RUN = flags.DEFINE_bool("dry_run", False, "Only list the runs and their cost.")
SHARD = flags.DEFINE_string("shard", "1/1", "Which share of the runs, as 2/8.")
VMAP_SEEDS = flags.DEFINE_bool(
    "vmap_seeds", False, "All seeds of a point in one program."
)
COMPILE_CACHE = flags.DEFINE_string(
    "compile_cache", None, 'Folder of compiled programs; "off" for none.'
)
WARM_START_CACHE = flags.DEFINE_string(
    "warm_start_cache", None, "Folder of base models; in the sweep's by default."
)


def main(argv):
    axes = [argument for argument in argv[1:] if argument.startswith(grid.PREFIX)]
    others = [argument for argument in argv[1:] if argument not in axes]
    if others:
        sys.exit(f"error: {others[0]!r} is no flag; flags look like --seeds=5")
    if not flags.FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)
    jax.config.update("jax_platforms", "cpu")  # accelerators are for the runs
    try:
        progress = run(axes)
    except ValueError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        print("stopped, all saved; the same command goes on", file=sys.stderr)
        sys.exit(130)
    if progress is not None:
        print(report(progress))
        sys.exit(any(one.state is not State.DONE for one in progress))


def run(axes: list[str]) -> list[scheduler.Progress] | None:
    """Runs what the flags say; None after a dry run."""
    overrides = _points(axes)
    seeds = range(FIRST_SEED.value, FIRST_SEED.value + SEEDS.value)
    require(
        SEEDS.value == 1 or not any("seed" in one for one in overrides),
        "seeds",
        SEEDS.value,
        "left out: the points name their seeds",
    )
    folder = pathlib.Path(WORKDIR.value)
    points = planning.make_points(overrides, seeds)
    jobs = planning.make_jobs(
        CONFIG.value, points, folder, seeds_together=VMAP_SEEDS.value
    )
    jobs = scheduler.shard(jobs, SHARD.value)
    if DRY_RUN.value:
        for job in jobs:
            state = "finished" if job.is_finished else f"{job.seconds:.0f} s"
            print(f"{folder / job.name}  {state}")
        print(planning.plan(jobs, PARALLEL.value))
        return None
    print(planning.plan(jobs, PARALLEL.value), file=sys.stderr)
    shared = WARM_START_CACHE.value
    return planning.execute(
        jobs,
        folder,
        parallel=PARALLEL.value,
        lock_name=f"shard-{SHARD.value.replace('/', '-of-')}",
        warm_start_cache=pathlib.Path(shared) if shared else None,
        compile_cache=COMPILE_CACHE.value,
    )


def _points(axes):
    """From the flags, or from the config file's ``sweep``."""
    if axes:
        return grid.product(grid.parse(axes, CONFIG.value))
    path = config_flags.get_config_filename(flags.FLAGS["config"]).split(".py:")[0]
    spec = importlib.util.spec_from_file_location("config_of_sweep", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    own = vars(module).get("sweep")
    return list(own()) if own else [{}]


def _set_axes_aside(argv):
    """Puts --sweep flags behind "--": absl does not know them and leaves them alone."""
    axes = [argument for argument in argv if argument.startswith(grid.PREFIX)]
    rest = [argument for argument in argv if not argument.startswith(grid.PREFIX)]
    return [*rest, "--", *axes] if axes else rest


if __name__ == "__main__":
    flags.mark_flags_as_required(["config", "workdir"])
    app.run(main, argv=_set_axes_aside(sys.argv))
