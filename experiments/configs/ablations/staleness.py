"""Claim: the later the verdict, the more the treatment of old samples matters.

Two-phase credit under verdicts that come up to 64 ticks late. Metric, declared before
any run: the solve rate at the end, against the behaviour anchor, at latency 64; at the
other latencies the same, to see it grow.

  python -m experiments.ablate --suite=staleness --parallel=2

Wall time: 12 min on two cores.
Outcome: not shown. At latency 64 no treatment differs from the behaviour anchor for
certain: no weight +0.042 [-0.033, +0.116], truncated +0.041 [-0.018, +0.100], two-sided
mask -0.015 [-0.039, +0.010]. At latency 16 no weight is quicker to 80% (0.71 [0.58,
0.88] of the ticks, not after Holm), a lead that is gone at 64 (0.97).
"""

from experiments.configs.ablations import laboratory as lab
from experiments.studies.suites import Suite

LATENCIES = (16, 32, 64)


def get_config():
    c = lab.get_config()
    c.num_ticks = 200
    return c


def _proximal(treatment):
    return {"algorithm.anchor": "proximal", "algorithm.importance_treatment": treatment}


SUITE = Suite(
    cells={
        f"latency {ticks}": {**lab.REGIMES[lab.TRUTHFUL], **lab.latency(ticks)}
        for ticks in LATENCIES
    },
    arms=lab.variants(
        lab.AGENTIC,
        {
            "clip at behaviour": {"algorithm.anchor": "behaviour"},
            "no weight": _proximal("none"),
            "truncated weight": _proximal("truncate"),
            "two-sided mask": _proximal("mask"),
        },
    ),
    reference="clip at behaviour",
    seeds=lab.FIVE_SEEDS,
    settings_of="credit",
)
