"""Claim: early updates pay where stage rewards are truthful and verdicts are late.

The map: share of hidden-like visible tests x ticks to the verdict. Settings as tuned in
``credit`` (at the middle latency), for every cell alike.

  python -m experiments.ablate --suite=map --parallel=2

Wall time: 37 min on two cores (planned).
Outcome: not run yet.
"""

from experiments.configs.ablations import laboratory as lab
from experiments.suites import Suite, grid_cell

get_config = lab.get_config

ROWS = ("latency", (4, lab.LATENCY, 48))
COLUMNS = ("fidelity", (0.0, 0.25, 1.0))

SUITE = Suite(
    cells={
        grid_cell(ROWS, COLUMNS, latency, fidelity): {
            "env.code_execution.visible_fidelity": fidelity,
            **lab.latency(latency),
        }
        for latency in ROWS[1]
        for fidelity in COLUMNS[1]
    },
    arms=lab.RULES,
    reference=lab.OUTCOME,
    seeds=lab.FIVE_SEEDS,
    settings_of="credit",
    rows=ROWS,
    columns=COLUMNS,
)
