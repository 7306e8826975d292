"""A suite of two arms in two cells, small enough to be made up."""

from experiments.studies.suites import Arm, Search, Suite

TINY = Suite(
    cells={"open": {}, "blind": {"env.code_execution.visible_fidelity": 0.0}},
    arms={
        "outcome": Arm(overrides={"algorithm.credit": "outcome"}),
        "agentic": Arm(overrides={"algorithm.credit": "agentic"}),
    },
    reference="outcome",
    seeds={"open": (10, 11), "blind": (10,)},
    search=Search(
        cells=("open",),
        learning_rates=(1e-4, 1e-3),
        clips=(0.1, 0.2, 0.4),
        clip=lambda value: {
            "algorithm.clip_low": value,
            "algorithm.correction_clip_low": value,
        },
        seeds=(0, 1),
    ),
)

#: Solve rates every five ticks: 80% at tick 20, at tick 10, never.
SLOW = [0.1, 0.1, 0.1, 0.1, 0.9, 0.9, 0.9]
FAST = [0.1, 0.1, 0.9, 0.9, 0.9, 0.9, 0.9]
NEVER = [0.1] * 7
