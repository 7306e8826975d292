"""Claim: what ``credit`` finds is not about code: the same rules on tool workflows.

Six credit rules on chains of tool calls whose audit comes 16 ticks late, all or
nothing; checks look at audited records in half of the cases, or never. Each rule has
the setting that was tuned for it on code (``credit``): nothing is tuned here.

  python -m experiments.ablate --suite=tool_workflow --parallel=2

Wall time: 23 min on two cores, beside other work.
Outcome: (settings of the first search, clip 0.4) the same order, less certain
(5 seeds, of which two have a base model that solves next to nothing).
Where rewards are partly truthful, rules that spend early end ahead of outcome credit
(`calibrated` +0.099 [-0.010, 0.209], `agentic` +0.109 [0.014, 0.203]), but 80% is not
reached by every seed: the claim on ticks fails. In blind `calibrated` is level (+0.054
[-0.032, 0.140]: holds), `agentic` and `immediate` fall behind.
"""

from experiments.configs.ablations import credit
from experiments.configs.ablations import laboratory as lab
from experiments.studies.suites import (
    SOLVE_RATE,
    TICKS_TO_80,
    Claim,
    Suite,
)

RULES = (*lab.RULES, "returns", "turn_mix")


def get_config():
    c = lab.get_config()
    c.num_ticks = 200  # six stages: half as many episodes a tick as with three
    c.env.name = "tool_workflow"
    c.env.tool_workflow.verdict_latency.minimum = lab.LATENCY
    return c


SUITE = Suite(
    cells={
        lab.TRUTHFUL: {"env.tool_workflow.visible_fidelity": 0.5},
        lab.BLIND: {"env.tool_workflow.visible_fidelity": 0.0},
    },
    arms={name: credit.SUITE.arms[name] for name in RULES},
    reference=lab.OUTCOME,
    seeds=lab.FIVE_SEEDS,
    settings_of="credit",
    claims=(
        Claim(
            text="Fewer ticks to 80% than outcome credit",
            metric=TICKS_TO_80,
            cell=lab.TRUTHFUL,
            candidate=lab.CANDIDATE,
            reference=lab.OUTCOME,
            high_below=1.0,
        ),
        Claim(
            text="Ends no worse than 0.05 below outcome credit",
            metric=SOLVE_RATE,
            cell=lab.BLIND,
            candidate=lab.CANDIDATE,
            reference=lab.OUTCOME,
            low_above=-0.05,
        ),
    ),
)
