"""Saved: the config of a run that is already on disk, as it was.

Any field may be changed with --config.FIELD=VALUE, as of every config.

  python -m experiments.train --config=experiments/configs/saved.py:runs/a \
      --workdir=runs/b
"""

from agentic_grpo.training import paths
from experiments.runs import workdir


def get_config(folder):
    return workdir.load_config(paths.locate(folder, "config"))
