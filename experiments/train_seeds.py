"""Trains several seeds of one config in one compiled program, side by side.

  python -m experiments.train_seeds --workdir=runs/x/seed=0 --workdir=runs/x/seed=1

Each folder holds the ``config.json`` of its seed (``experiments.sweep --vmap_seeds``
writes them) and gets what a run of its own would have given.
"""

import sys

from absl import app, flags, logging

from agentic_grpo.training import compile_cache, paths
from agentic_grpo.training.checkpoints import CheckpointError
from agentic_grpo.training.plain_text import printable
from experiments.runs import vmapped_seeds, workdir

WORKDIRS = flags.DEFINE_multi_string(
    "workdir", None, "The folder of a seed; once for each.", required=True
)
COMPILE_CACHE = flags.DEFINE_string(
    "compile_cache", None, 'Folder of compiled programs; "off" for none.'
)
WARM_START_CACHE = flags.DEFINE_string(
    "warm_start_cache", None, "Folder of base models that runs share; none by default."
)


def main(argv):
    if len(argv) > 1:
        sys.exit(f"error: {argv[1]!r} is no flag; flags look like --workdir=DIR")
    if not flags.FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)
    shared = WARM_START_CACHE.value
    try:
        folders = [paths.locate_workdir(folder) for folder in WORKDIRS.value]
        compile_cache.enable(COMPILE_CACHE.value)
        vmapped_seeds.run(
            folders,
            [workdir.load_config(folder) for folder in folders],
            warm_start_cache=paths.locate(shared, "warm_start_cache")
            if shared
            else None,
        )
    except (ValueError, CheckpointError, vmapped_seeds.SeedsError) as error:
        sys.exit(printable(f"error: {error}"))


if __name__ == "__main__":
    app.run(main)
