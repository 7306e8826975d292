"""Signs: the four rules in the two headline regimes, with two seeds.

Two seeds give signs without significance, and that is all this is for: to see within
minutes that the machinery works and points the way of ``credit``.

  python -m experiments.ablate --suite=quick --parallel=2

Wall time: 5 min on two cores (a new clone, beside other work, compile cache warm).
Outcome: the signs of ``credit`` (two seeds: nothing is significant).
"""

from experiments.configs.ablations import laboratory as lab
from experiments.studies.suites import Suite

get_config = lab.get_config

SUITE = Suite(
    cells=lab.HEADLINE,
    arms=lab.RULES,
    reference=lab.OUTCOME,
    seeds=(100, 101),
    settings_of="credit",
)
