"""Claim: early updates pay where stage rewards are truthful and verdicts are late.

The map: share of hidden-like visible tests x ticks to the verdict. Settings as tuned in
``credit`` (at the middle latency), for every cell alike.

  python -m experiments.ablate --suite=map --parallel=2

Wall time: 30 min on two cores.
Outcome: it holds. At fidelity 1 and a verdict 48 ticks late `agentic` needs 0.17 [0.12,
0.24] of the ticks of outcome credit to 80%, at 16 ticks 0.40 [0.29, 0.56], at 4 nothing
is certain. At fidelity 0 it ends level (4 ticks late) to 0.25 [0.12, 0.38] below.
`calibrated` is nowhere below; 48 ticks late it ends 0.15 to 0.25 above at every
fidelity.
"""

from experiments.configs.ablations import laboratory as lab
from experiments.studies.suites import Suite, grid_cell

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
