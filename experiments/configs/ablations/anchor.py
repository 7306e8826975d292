"""Claim: the tighter clip of corrections matters more than the anchor of their ratio.

Anchor of the ratio x clip of the corrections, at clip 0.2 of the immediate phase. With
the anchor ``proximal`` and one step per tick the clip is idle, so it has one arm, with
truncated weights.

  python -m experiments.ablate --suite=anchor --parallel=2

Wall time: 7 min on two cores (planned).
Outcome: not run yet.
"""

from experiments.configs.ablations import laboratory as lab
from experiments.suites import Suite

get_config = lab.get_config


def _arm(anchor, clip):
    return {
        "algorithm.anchor": anchor,
        "algorithm.clip_low": 0.2,
        "algorithm.clip_high": 0.2,
        "algorithm.correction_clip_low": clip,
        "algorithm.correction_clip_high": clip,
    }


SUITE = Suite(
    cells={lab.TRUTHFUL: lab.REGIMES[lab.TRUTHFUL]},
    arms=lab.variants(
        lab.AGENTIC,
        {
            **{
                f"{anchor}, {clip}": _arm(anchor, clip)
                for anchor in ("behaviour", "post_immediate")
                for clip in (0.05, 0.1, 0.2)
            },
            "proximal": {
                **_arm("proximal", 0.1),
                "algorithm.importance_treatment": "truncate",
            },
        },
    ),
    reference="behaviour, 0.1",
    seeds=lab.FIVE_SEEDS,
    settings_of="credit",
)
