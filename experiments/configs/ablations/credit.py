"""Claim: credit paid early and corrected late is quicker than waiting, and no worse.

Six credit rules, each tuned with the same effort on the validation split, in three
regimes whose verdict comes 16 ticks late, all or nothing. The two-phase candidate keeps
one setting everywhere. Controls: ``calibrated`` with beta fixed at 0 must be outcome
credit, step by step; outcome credit that takes two steps on each row spends as many
gradient tokens as two phases do.

  python -m experiments.ablate --suite=credit --parallel=2

Wall time: 1 h 35 min on two cores, beside other work: search 55 min, the rest 40 min.
Outcome: `calibrated` stands in all three regimes and is ahead in two: 80% in 0.72
[0.57, 0.90] of the ticks of outcome credit where rewards are partly truthful (not in
half: claim 1a fails), and ends 0.032 [0.010, 0.053] higher there, 0.055 [0.032, 0.077]
in blind, 0.022 [-0.032, 0.076] in deceptive. `agentic` is level where rewards are
partly truthful and loses 0.16 in blind, 0.85 in deceptive. With the narrower clip 0.4
for all, which the search chose before it could widen clips, the same signs: 0.62 [0.56,
0.70] of the ticks, +0.055, +0.086, +0.037.
"""

from experiments.configs.ablations import laboratory as lab
from experiments.studies.suites import (
    SOLVE_RATE,
    TICKS_TO_80,
    Arm,
    Claim,
    Search,
    Suite,
)

get_config = lab.get_config


def _clip(value):
    """A clip of the ratio, of both phases."""
    return {"algorithm.clip": value}


SUITE = Suite(
    cells=lab.REGIMES,
    arms={
        **lab.RULES,
        "returns": Arm(overrides={"algorithm.credit": "returns"}),
        "turn_mix": Arm(overrides={"algorithm.credit": "turn_mix"}),
        "outcome, two steps": Arm(
            overrides={
                "algorithm.credit": "outcome",
                "learner.passes": 2,
                "algorithm.max_age": 320,  # in learner steps, of which it takes more
            },
            tuned_as=lab.OUTCOME,
        ),
        "calibrated, beta 0": Arm(
            overrides={
                "algorithm.credit": "calibrated",
                "algorithm.calibrated.fixed_beta": 0.0,
            },
            tuned_as=lab.OUTCOME,
        ),
    },
    reference=lab.OUTCOME,
    seeds={
        lab.TRUTHFUL: lab.TEN_SEEDS,
        lab.BLIND: lab.TEN_SEEDS,
        lab.DECEPTIVE: lab.FIVE_SEEDS,
    },
    search=Search(
        cells=(lab.TRUTHFUL,),
        learning_rates=(1.5e-4, 5e-4, 1.5e-3),
        clips=(0.2, 0.8),
        clip=_clip,
        widenings=4,
        seeds=(0, 1, 2),
    ),
    claims=(
        Claim(
            text="1a. At most half the ticks of outcome credit to 80%",
            metric=TICKS_TO_80,
            cell=lab.TRUTHFUL,
            candidate=lab.CANDIDATE,
            reference=lab.OUTCOME,
            at_most=0.5,
            high_below=0.75,
        ),
        Claim(
            text="1b. Ends above immediate credit",
            metric=SOLVE_RATE,
            cell=lab.TRUTHFUL,
            candidate=lab.CANDIDATE,
            reference=lab.IMMEDIATE,
            low_above=0.0,
        ),
        *(
            Claim(
                text=f"2. Ends no worse than 0.05 below outcome credit ({regime})",
                metric=SOLVE_RATE,
                cell=regime,
                candidate=lab.CANDIDATE,
                reference=lab.OUTCOME,
                low_above=-0.05,
            )
            for regime in (lab.BLIND, lab.DECEPTIVE)
        ),
    ),
    identical=(("calibrated, beta 0", lab.OUTCOME),),
    skip=frozenset(
        (cell, arm)
        for cell in (lab.BLIND, lab.DECEPTIVE)
        for arm in ("calibrated, beta 0", "outcome, two steps")
    ),
)
