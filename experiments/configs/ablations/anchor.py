"""Claim: the tighter clip of corrections matters more than the anchor of their ratio.

Anchor of the ratio x clip of the corrections, at the tuned clip 0.8 of the immediate
phase. With the anchor ``proximal`` and one step per tick the clip is idle, so it has
one arm, with truncated weights.

  python -m experiments.ablate --suite=anchor --parallel=2

Wall time: 4 min on two cores (one arm was shared with ``credit``).
Outcome: the clip matters, and tighter is worse: a quarter of the clip ends -0.063
[-0.120, -0.006], half -0.040 [-0.079, 0.000] (not after Holm). The anchor does not:
post_immediate -0.002 [-0.014, +0.011], proximal +0.001 [-0.015, +0.017].
"""

from experiments.configs.ablations import laboratory as lab
from experiments.studies.suites import Suite

get_config = lab.get_config


CLIP = 0.8  # of the immediate phase; see experiments/results/credit/settings.json


def _arm(anchor, clip):
    return {
        "algorithm.anchor": anchor,
        "algorithm.clip_low": CLIP,
        "algorithm.clip_high": CLIP,
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
                for clip in (CLIP / 4, CLIP / 2, CLIP)
            },
            "proximal": {
                **_arm("proximal", CLIP),
                "algorithm.importance_treatment": "truncate",
            },
        },
    ),
    reference="behaviour, 0.8",
    seeds=lab.FIVE_SEEDS,
    settings_of="credit",
)
