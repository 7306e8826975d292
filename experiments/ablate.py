"""Runs an ablation: tunes its arms where it says so, then compares them on fresh seeds.

  python -m experiments.ablate --suite=credit [--parallel=2] [--dry_run] \
      [--workdir=runs/ablations] [--shard=2/8] [--vmap_seeds]
  python scripts/plot_runs.py --suite=runs/ablations/credit \
      --output=experiments/results/credit

The suites are the files of ``experiments/configs/ablations``. The same command again
skips what is finished. A run that another suite has already made is not made again.
"""

from absl import flags

from agentic_grpo.training import compile_cache, paths
from experiments import front
from experiments.studies import ablation, search, suites

SUITES = flags.DEFINE_list(
    "suite", None, f"One or some of {', '.join(suites.names())}.", required=True
)
WORKDIR = flags.DEFINE_string("workdir", "runs/ablations", "A folder for each suite.")
RESULTS = flags.DEFINE_string(
    "results", "experiments/results", "Where settings that were tuned before are kept."
)
PARALLEL = front.define_parallel()
DRY_RUN = flags.DEFINE_bool("dry_run", False, "Only say what it would cost.")
SHARD = front.define_shard()
UNTUNED = flags.DEFINE_bool(
    "untuned", False, "Use the config's settings where none have been tuned yet."
)
VMAP_SEEDS = front.define_vmap_seeds()
COMPILE_CACHE = front.define_compile_cache()


def main(words):
    front.require_only_flags(words, "--suite=credit")
    front.leave_accelerators_to_the_runs()
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
        return False
    done = [ablation.ablate(name, options) for name in SUITES.value]
    return not all(done)


if __name__ == "__main__":
    front.run(main, refusals=[search.UnfinishedError], goes_on=True)
