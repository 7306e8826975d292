"""Claim: a learnt forecast of the verdict, weighed and corrected, is worth spending.

``calibrated`` on the stage reward and on a critic's forecast, each with and without a
pilot (48 groups that the base policy plays to their verdicts before the first step),
against plain GRPO. Controls: the critic trusted fully; the critic never corrected; the
critic as a value baseline (its knowledge, without its haste); a critic that sees the
program without feedback, and one that sees feedback without the program. Plain GRPO
counted from the first tick is the control that trains on the pilot's groups: they are
the first that it plays.

  python -m experiments.ablate --suite=critic --parallel=2

Claims were written before any test seed was run. Settings as tuned in ``credit``: arms
on the critic take those of ``calibrated``.

Wall time: not run as a whole yet; 270 runs, about 1 h 30 min on two quiet cores.
Outcome: open.
"""

from experiments.configs.ablations import laboratory as lab
from experiments.studies.suites import (
    SOLVE_RATE,
    TICKS_AFTER_PILOT,
    TICKS_TO_80,
    Arm,
    Claim,
    Suite,
)

get_config = lab.get_config

PILOT = {"algorithm.pilot_groups": 48}
CRITIC = {"algorithm.signal": "critic", "critic.kind": "decoder"}
LATE = "partly truthful, 48 ticks late"
PILOTED, PLAIN = "critic, pilot", "critic"

_CONTROLS = ("critic, trusted", "critic, not corrected", "value baseline")
_SIGHT = ("critic, actions only", "critic, feedback only")


def _calibrated(**overrides):
    return Arm(
        overrides={"algorithm.credit": lab.CALIBRATED, **overrides},
        tuned_as=lab.CALIBRATED,
    )


SUITE = Suite(
    cells=lab.REGIMES | {LATE: lab.REGIMES[lab.TRUTHFUL] | lab.latency(48)},
    arms={
        lab.OUTCOME: lab.RULES[lab.OUTCOME],
        lab.CALIBRATED: lab.RULES[lab.CALIBRATED],
        "calibrated, pilot": _calibrated(**PILOT),
        PLAIN: _calibrated(**CRITIC),
        PILOTED: _calibrated(**CRITIC, **PILOT),
        "outcome, pilot": Arm(
            overrides={"algorithm.credit": lab.OUTCOME, **PILOT}, tuned_as=lab.OUTCOME
        ),
        "critic, trusted": _calibrated(
            **CRITIC, **PILOT, **{"algorithm.calibrated.fixed_beta": 1.0}
        ),
        "critic, not corrected": Arm(
            overrides={"algorithm.credit": lab.IMMEDIATE, **CRITIC, **PILOT},
            tuned_as=lab.IMMEDIATE,
        ),
        "value baseline": Arm(
            overrides={
                "algorithm.credit": "value_baseline",
                "critic.kind": "decoder",
                **PILOT,
            },
            tuned_as=lab.OUTCOME,
        ),
        "critic, actions only": _calibrated(
            **CRITIC, **PILOT, **{"critic.sees": "actions"}
        ),
        "critic, feedback only": _calibrated(
            **CRITIC, **PILOT, **{"critic.sees": "feedback"}
        ),
    },
    reference=lab.OUTCOME,
    seeds={
        lab.TRUTHFUL: lab.TEN_SEEDS,
        lab.BLIND: lab.TEN_SEEDS,
        lab.DECEPTIVE: lab.FIVE_SEEDS,
        LATE: lab.FIVE_SEEDS,
    },
    settings_of="credit",
    claims=(
        *(
            Claim(
                text=f"a. With a pilot, at most half the ticks after it ({regime})",
                metric=TICKS_AFTER_PILOT,
                cell=regime,
                candidate=PILOTED,
                reference=lab.OUTCOME,
                at_most=0.5,
                high_below=0.75,
            )
            for regime in (lab.TRUTHFUL, lab.BLIND)
        ),
        Claim(
            text="b. All ticks counted, at most 0.75 of them",
            metric=TICKS_TO_80,
            cell=lab.TRUTHFUL,
            candidate=PLAIN,
            reference=lab.OUTCOME,
            at_most=0.75,
        ),
        Claim(
            text="b. All ticks counted, at most half where verdicts are 48 ticks late",
            metric=TICKS_TO_80,
            cell=LATE,
            candidate=PLAIN,
            reference=lab.OUTCOME,
            at_most=0.5,
        ),
        *(
            Claim(
                text=f"c. Ends no worse than 0.05 below outcome credit ({regime})",
                metric=SOLVE_RATE,
                cell=regime,
                candidate=PILOTED,
                reference=lab.OUTCOME,
                at_least=-0.02,
                low_above=-0.05,
            )
            for regime in lab.REGIMES
        ),
    ),
    skip=frozenset(
        (cell, arm)
        for cell in (lab.DECEPTIVE, LATE)
        for arm in (*_CONTROLS, *_SIGHT, "outcome, pilot")
    ),
)
