"""Trains several seeds of one config in one compiled program, side by side.

  python -m experiments.train_seeds --workdir=runs/x/seed=0 --workdir=runs/x/seed=1

Each folder holds the ``config.json`` of its seed (``experiments.sweep --vmap_seeds``
writes them) and gets what a run of its own would have given.
"""

from absl import flags

from agentic_grpo.training import compile_cache, paths
from experiments import front
from experiments.runs import vmapped_seeds, workdir

WORKDIRS = flags.DEFINE_multi_string(
    "workdir", None, "The folder of a seed; once for each.", required=True
)
COMPILE_CACHE = front.define_compile_cache()
WARM_START_CACHE = front.define_warm_start_cache()


def main(words):
    front.require_only_flags(words, "--workdir=DIR")
    folders = [paths.locate_workdir(folder) for folder in WORKDIRS.value]
    compile_cache.enable(COMPILE_CACHE.value)
    vmapped_seeds.run(
        folders,
        [workdir.load_config(folder) for folder in folders],
        warm_start_cache=front.warm_start_folder(WARM_START_CACHE.value),
    )


if __name__ == "__main__":
    front.run(main, refusals=[vmapped_seeds.SeedsError])
