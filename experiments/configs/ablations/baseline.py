"""Claim: where the agent may stop early, the baseline must count those who stopped.

Two debug stages, either of which the agent may answer with ``submit``; every stage that
is written costs 0.02. Baseline x what stopped members count as: the mean over those who
*reached* a stage teaches nothing about stopping, zero-filled levels punish it.

  python -m experiments.ablate --suite=baseline --parallel=2

Wall time: 8 min on two cores.
Outcome: against the mean with levels carried forward, zero-filled levels end -0.020
[-0.040, -0.001] (leave-one-out: -0.021 [-0.031, -0.012], the only one that survives
Holm), the mean over those who reached a stage -0.023 [-0.046, +0.001]. So carrying
forward is the best way to count those who stopped; zeros punish stopping too much.
"""

from experiments.configs.ablations import laboratory as lab
from experiments.studies.suites import Suite


def get_config():
    c = lab.get_config()
    c.env.code_execution.stages = ("hypothesis", "code", "debug", "debug")
    c.env.code_execution.stage_cost = 0.02
    return c


SUITE = Suite(
    cells={lab.TRUTHFUL: lab.REGIMES[lab.TRUTHFUL]},
    arms=lab.variants(
        lab.AGENTIC,
        {
            f"{baseline}, {fill}": {
                "algorithm.baseline": baseline,
                "algorithm.agentic.fill": fill,
            }
            for baseline in ("mean", "leave_one_out")
            for fill in ("carry_forward", "zero", "reached")
        },
    ),
    reference="mean, carry_forward",
    seeds=lab.FIVE_SEEDS,
    settings_of="credit",
)
