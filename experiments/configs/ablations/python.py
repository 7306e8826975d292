"""Claim: on real Python, where slow programs look right, what is first weighed is safe.

Eight families that have a right program which is too slow, written by SmolLM2-135M:
visible calls show large inputs as well (they tell slow from quick), or small ones alone
(both look right, and the hidden calls, 16 ticks later, disagree). Plain GRPO, the
two-phase rule trusted and calibrated, and calibrated on a critic that is a head on the
model's own hidden states. It can show who is misled, and by how much, on six held-out
functions; a model of this size can show nothing about reasoning or repair.

  python -m experiments.ablate --suite=python --parallel=1

Needs the package with the model (scripts/real_quickstart.sh fetches it) and 8 GB of
memory per run. Claims were written before any run; nothing is tuned for it.

Wall time: not run yet; 24 runs of 100 ticks.
Outcome: open.
"""

from agentic_grpo.envs.python_tasks import FAMILIES
from experiments.configs import python_quickstart
from experiments.configs.ablations import laboratory as lab
from experiments.studies.suites import SOLVE_RATE, Arm, Claim, Suite

SHOWN, HIDDEN = "large inputs shown", "large inputs hidden"
CRITIC = "critic"

#: Those with a slow right program, up to the third of five levels.
SLOW_OR_QUICK = tuple(
    name for name, family in FAMILIES.items() if family.slow and family.level <= 3
)


def get_config():
    c = python_quickstart.get_config()
    c.num_ticks = 100
    c.env.python_tasks.levels = (2, 3)
    c.env.python_tasks.families = SLOW_OR_QUICK
    c.env.python_tasks.program_width = 48
    c.env.python_tasks.verdict_latency.minimum = lab.LATENCY
    c.algorithm.max_age = 160  # longer than any verdict here takes: nothing expires
    c.checkpoint.keep = 1
    c.checkpoint.keep_best = False
    return c


SUITE = Suite(
    cells={
        SHOWN: {"env.python_tasks.large_visible": True},
        HIDDEN: {"env.python_tasks.large_visible": False},
    },
    arms={
        lab.OUTCOME: lab.RULES[lab.OUTCOME],
        lab.AGENTIC: lab.RULES[lab.AGENTIC],
        lab.CALIBRATED: lab.RULES[lab.CALIBRATED],
        CRITIC: Arm(
            overrides={
                "algorithm.credit": lab.CALIBRATED,
                "algorithm.signal": "critic",
                "critic.kind": "head",
            }
        ),
    },
    reference=lab.OUTCOME,
    seeds=(100, 101, 102),
    claims=(
        Claim(
            text="Where large inputs are shown, ends no worse than 0.05 below outcome "
            "credit",
            metric=SOLVE_RATE,
            cell=SHOWN,
            candidate=lab.CALIBRATED,
            reference=lab.OUTCOME,
            low_above=-0.05,
        ),
        Claim(
            text="Where they are hidden, ends no worse than 0.05 below outcome credit",
            metric=SOLVE_RATE,
            cell=HIDDEN,
            candidate=lab.CALIBRATED,
            reference=lab.OUTCOME,
            low_above=-0.05,
        ),
        Claim(
            text="Where they are hidden, what is trusted ends below what is weighed",
            metric=SOLVE_RATE,
            cell=HIDDEN,
            candidate=lab.AGENTIC,
            reference=lab.CALIBRATED,
            high_below=0.0,
        ),
    ),
)
