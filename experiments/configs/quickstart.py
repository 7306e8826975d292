"""Quickstart: an agent learns to write efficient programs, in minutes on a laptop.

  python -m experiments.train --config=experiments/configs/quickstart.py \
      --workdir=runs/quickstart
"""

from experiments.configs import default


def get_config():
    c = default.get_config()
    c.num_ticks = 200
    c.ticks_per_dispatch = 5
    c.env.code_execution.visible_fidelity = 0.5
    c.env.code_execution.verdict_latency.minimum = 10
    return c
