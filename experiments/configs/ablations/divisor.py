"""Claim: a divisor under which the phases telescope beats the one publicly reported.

``own`` divides r_N - r_s by its own deviation, so that the phases do not add up to
outcome credit; "as reported" also treats skills as estimates. The others telescope.

  python -m experiments.ablate --suite=divisor --parallel=2

Wall time: 11 min on two cores (planned).
Outcome: not run yet.
"""

from experiments.configs.ablations import laboratory as lab
from experiments.suites import Suite

get_config = lab.get_config

SUITE = Suite(
    cells=lab.HEADLINE,
    arms=lab.variants(
        lab.AGENTIC,
        {
            "running": {"algorithm.divisor": "running"},
            "own": {"algorithm.divisor": "own"},
            "as reported": {
                "algorithm.divisor": "own",
                "algorithm.agentic.skill_as_estimate": True,
            },
            "stage": {"algorithm.divisor": "stage"},
            "none": {"algorithm.divisor": "none"},
        },
    ),
    reference="running",
    seeds=lab.FIVE_SEEDS,
    settings_of="credit",
)
