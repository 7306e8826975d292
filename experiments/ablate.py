"""Runs an ablation: tunes its arms where it says so, then compares them on fresh seeds.

  python -m experiments.ablate --suite=credit [--parallel=2] [--dry_run] \
      [--workdir=runs/ablations] [--shard=2/8] [--vmap_seeds]
  python scripts/plot_runs.py --suite=runs/ablations/credit \
      --output=experiments/results/credit

The suites are the files of ``experiments/configs/ablations``. The same command again
skips what is finished. A run that another suite has already made is not made again.
"""

import sys

import jax
from absl import app, flags, logging

from agentic_grpo.training import compile_cache, paths
from agentic_grpo.training.plain_text import printable
from experiments.studies import ablation, search, suites

SUITES = flags.DEFINE_list(
    "suite", None, f"One or some of {', '.join(suites.names())}.", required=True
)
WORKDIR = flags.DEFINE_string("workdir", "runs/ablations", "A folder for each suite.")
RESULTS = flags.DEFINE_string(
    "results", "experiments/results", "Where settings that were tuned before are kept."
)
PARALLEL = flags.DEFINE_integer("parallel", 1, "Runs side by side.", lower_bound=1)
DRY_RUN = flags.DEFINE_bool("dry_run", False, "Only say what it would cost.")
SHARD = flags.DEFINE_string("shard", "1/1", "Which share of the runs, as 2/8.")
UNTUNED = flags.DEFINE_bool(
    "untuned", False, "Use the config's settings where none have been tuned yet."
)
VMAP_SEEDS = flags.DEFINE_bool(
    "vmap_seeds", False, "All seeds of a point in one program."
)
COMPILE_CACHE = flags.DEFINE_string(
    "compile_cache", None, 'Folder of compiled programs; "off" for none.'
)

#: Exit status after SIGINT or SIGTERM, by which scripts tell it from a failure.
INTERRUPTED = 130


def main(argv):
    if len(argv) > 1:
        sys.exit(f"error: {argv[1]!r} is no flag; flags look like --suite=credit")
    if not flags.FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)
    jax.config.update("jax_platforms", "cpu")  # accelerators are for the runs
    try:
        options = ablation.Options(
            root=paths.locate_workdir(WORKDIR.value),
            results=paths.locate(RESULTS.value, "results"),
            parallel=PARALLEL.value,
            share=SHARD.value,
            untuned=UNTUNED.value,
            seeds_together=VMAP_SEEDS.value,
            compile_cache=compile_cache.locate(COMPILE_CACHE.value),
        )
        if DRY_RUN.value:
            ablation.dry_run(SUITES.value, options)
        else:
            done = [ablation.ablate(name, options) for name in SUITES.value]
            sys.exit(not all(done))
    except (ValueError, search.UnfinishedError) as error:
        sys.exit(printable(f"error: {error}"))
    except KeyboardInterrupt:
        print("stopped, all saved; the same command goes on", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    app.run(main)
