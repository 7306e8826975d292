"""Claim: a divisor under which the phases telescope beats the one publicly reported.

``own`` divides r_N - r_s by its own deviation, so that the phases do not add up to
outcome credit; "as reported" also treats skills as estimates. The others telescope.

  python -m experiments.ablate --suite=divisor --parallel=2

Wall time: 8 min on two cores.
Outcome: not shown. Against ``running`` none differs for certain after Holm: ``own``
ends -0.025 [-0.086, +0.035] (partly truthful) and -0.032 [-0.069, +0.006] (blind), "as
reported" -0.023 [-0.102, +0.056] and -0.002 [-0.047, +0.044]. ``own`` is quicker to 80%
with every seed but one, which it loses.
"""

from experiments.configs.ablations import laboratory as lab
from experiments.studies.suites import Suite

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
