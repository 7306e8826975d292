"""Claim: a prior of beta trades the start where rewards are truthful against the risk.

Beta before the first verdicts, how many groups it weighs, and whether difficulty levels
have one each.

  python -m experiments.ablate --suite=prior --parallel=2

Wall time: 11 min on two cores (planned).
Outcome: not run yet.
"""

from experiments.configs.ablations import laboratory as lab
from experiments.suites import Suite

get_config = lab.get_config


def _prior(beta, groups, **more):
    return {
        "algorithm.calibrated.prior_beta": beta,
        "algorithm.calibrated.prior_groups": groups,
        **more,
    }


SUITE = Suite(
    cells=lab.HEADLINE,
    arms=lab.variants(
        lab.CALIBRATED,
        {
            "0, 4 groups": _prior(0.0, 4.0),
            "0.5, 4 groups": _prior(0.5, 4.0),
            "1, 4 groups": _prior(1.0, 4.0),
            "0.5, 32 groups": _prior(0.5, 32.0),
            "0, 4 groups, by level": _prior(
                0.0, 4.0, **{"algorithm.calibrated.by_level": True}
            ),
        },
    ),
    reference="0, 4 groups",
    seeds=lab.FIVE_SEEDS,
    settings_of="credit",
)
