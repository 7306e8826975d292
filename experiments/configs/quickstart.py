"""Quickstart: an agent learns to write efficient programs, in minutes on two cores.

  python -m experiments.train --config=experiments/configs/quickstart.py \
      --workdir=runs/quickstart

Five families of levels 2 and 3; the statement hides a parameter in half of the
problems, which the hypothesis stage reveals. The base model writes slow programs: right
on small visible tests, out of fuel on the hidden ones. Half of the visible tests are
hidden-like (stage rewards are partly truthful); the verdict comes 10 ticks late, all or
nothing.

Expected: solve rate on 1,024 test problems from 0.08 to 0.96 or more, rising without a
fall of more than 0.07 on the way, in 1.5 minutes on two quiet cores, compilation
included (seeds, on one core and on two: experiments/results/README.md).
"""

from experiments.configs import default


def get_config():
    c = default.get_config()
    c.num_ticks = 250
    c.env.code_execution.families = (
        "multiples",
        "toggle",
        "odd_terms",
        "cubes",
        "staircase",
    )
    c.env.code_execution.num_cases = 1  # f(0): a counterexample is the hidden parameter
    c.env.code_execution.visible_fidelity = 0.5
    c.env.code_execution.verdict_latency.minimum = 10
    c.learner.schedule = "cosine"
    c.learner.packed_rows = 8
    return c
