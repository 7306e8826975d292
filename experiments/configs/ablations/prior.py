"""Claim: a prior of beta trades the start where rewards are truthful against the risk.

Beta before the first verdicts, how many groups it weighs, and whether difficulty levels
have one each.

  python -m experiments.ablate --suite=prior --parallel=2

Wall time: 9 min on two cores, beside other work.
Outcome: (settings of the first search, clip 0.4) no trade. A prior above 0
starts earlier, but comes to 80% later (1.4 to 1.7 times the ticks) where rewards are
partly truthful, and in blind ends 0.1 to 0.26 lower (5 seeds; no difference is
significant after Holm). By level or not is all the same.
"""

from experiments.configs.ablations import laboratory as lab
from experiments.studies.suites import Suite

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
