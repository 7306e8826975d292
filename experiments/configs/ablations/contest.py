"""Claim: learning during a contest, two-phase credit ranks above outcome credit.

Five agents, each trained with its credit rule on one budget of ticks, then entered in
50 contests twice: as they are, and with training at test time by their own rule. Base
is the base model, which a pilot without end never trains (at test time it learns by
``calibrated``). Verdicts of a contest are few and late, so that what the stages teach
at once should matter most there.

  python -m experiments.ablate --suite=contest --parallel=2
  python -m experiments.rank_suite --suite=runs/ablations/contest \
      --output=experiments/results/contest

The families cover levels 1 to 5, with the words of the held-out compositions in others.
Settings as tuned in ``credit``. Contests: the defaults of ``experiments.contest``.

Wall time: not run yet; 25 runs, and 50 times 50 contests.
Outcome: open.
"""

from experiments.configs.ablations import critic
from experiments.configs.ablations import laboratory as lab
from experiments.contests.study import RankClaim
from experiments.studies.suites import Arm, Suite

BASE, CRITIC = "base", critic.PLAIN

#: They teach each word of the held-out compositions in others.
FAMILIES = (
    "affine",
    "multiples",
    "odd_terms",
    "staircase",
    "times_of_per",
    "triangle_of_rest",
    "squared_of_per",
    "times_of_triangle_of_rest",
)


def get_config():
    c = lab.get_config()
    c.env.code_execution.families = FAMILIES
    return c


SUITE = Suite(
    cells={"contest": {}},
    arms={
        BASE: Arm(
            overrides={
                "algorithm.credit": lab.CALIBRATED,
                "algorithm.pilot_groups": 1_000_000,
                "num_ticks": 10,
            },
            tuned_as=lab.CALIBRATED,
        ),
        lab.OUTCOME: lab.RULES[lab.OUTCOME],
        lab.AGENTIC: lab.RULES[lab.AGENTIC],
        lab.CALIBRATED: lab.RULES[lab.CALIBRATED],
        CRITIC: critic.SUITE.arms[critic.PLAIN],
    },
    reference=lab.OUTCOME,
    seeds=lab.FIVE_SEEDS,
    settings_of="credit",
)

#: Declared before any of it was run; checked by ``experiments.rank_suite``.
RANK_CLAIMS = (
    RankClaim(
        text="With training at test time calibrated ranks above outcome credit",
        candidate=lab.CALIBRATED,
        reference=lab.OUTCOME,
        adapted=True,
    ),
    RankClaim(
        text="With training at test time agentic ranks above outcome credit",
        candidate=lab.AGENTIC,
        reference=lab.OUTCOME,
        adapted=True,
    ),
)
