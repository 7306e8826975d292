"""Claim: paying less in advance is safer where stage rewards mislead, and slower else.

Weight of the immediate phase, with the correction in full; and a correction of half the
outcome credit.

  python -m experiments.ablate --suite=phase_weights --parallel=2

Wall time: 5 min on two cores (one arm was shared with ``credit``).
Outcome: safer, and not slower. A weight of 0.3 ends +0.175 [+0.058, +0.293] in blind
and +0.016 [-0.013, +0.044] where rewards are partly truthful, in 0.83 [0.60, 1.16] of
the ticks to 80%. Half a correction is worse in both: -0.155 [-0.261, -0.048] and -0.033
[-0.088, +0.022]. Nothing survives Holm.
"""

from experiments.configs.ablations import laboratory as lab
from experiments.studies.suites import Suite

get_config = lab.get_config


def _weights(immediate, correction):
    return {
        "algorithm.agentic.immediate_weight": immediate,
        "algorithm.agentic.correction_weight": correction,
    }


SUITE = Suite(
    cells=lab.HEADLINE,
    arms=lab.variants(
        lab.AGENTIC,
        {
            "1 and 1": _weights(1.0, 1.0),
            "0.3 and 1": _weights(0.3, 1.0),
            "0.1 and 1": _weights(0.1, 1.0),
            "1 and 0.5": _weights(1.0, 0.5),
        },
    ),
    reference="1 and 1",
    seeds=lab.FIVE_SEEDS,
    settings_of="credit",
)
