"""Saved: the config of a run that is already on disk, as it was.

  python -m experiments.train --config=experiments/configs/saved.py:runs/a \
      --workdir=runs/b
"""

import pathlib

from experiments.runs import workdir


def get_config(folder):
    return workdir.load_config(pathlib.Path(folder))
