"""Claim: two-phase credit keeps its lead at every group size.

Groups of 4, 8 and 16, with 64 episodes writing a stage per tick in each.

  python -m experiments.ablate --suite=group_size --parallel=2

Wall time: 4 min on two cores (groups of 8 were shared with ``credit``).
Outcome: it holds. To 80% `calibrated` needs 0.65 [0.57, 0.74], 0.66 [0.53, 0.83] and
0.57 [0.44, 0.73] of the ticks of outcome credit in groups of 4, 8 and 16, all of them
significant after Holm.
"""

from experiments.configs.ablations import laboratory as lab
from experiments.studies.suites import Suite

get_config = lab.get_config

EPISODES = 64

SUITE = Suite(
    cells={
        f"groups of {members}": {
            **lab.REGIMES[lab.TRUTHFUL],
            "rollout.group_size": members,
            "rollout.decode_slots": EPISODES // members,
            "rollout.num_lanes": 2 * EPISODES // members,
        }
        for members in (4, 8, 16)
    },
    arms={name: lab.RULES[name] for name in (lab.OUTCOME, lab.CANDIDATE)},
    reference=lab.OUTCOME,
    seeds=lab.FIVE_SEEDS,
    settings_of="credit",
)
