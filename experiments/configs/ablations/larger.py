"""Claim: the headline is not of one small decoder: the same with four times the model.

Width 128 instead of 64, all else as in ``credit`` and ``critic``. Learning rates are
those that ``credit`` tuned, times 0.5: rates go as 1 / (width x layers), the rule of
the default (``experiments.config.optimizer``); nothing else is tuned here.

  python -m experiments.ablate --suite=larger --parallel=2

Claims were written before any test seed was run.

Wall time: not run yet.
Outcome: open.
"""

from experiments.configs.ablations import critic
from experiments.configs.ablations import laboratory as lab
from experiments.studies.suites import SOLVE_RATE, TICKS_TO_80, Claim, Suite


def get_config():
    c = lab.get_config()
    c.model.hidden_size = 128
    c.model.mlp_size = 384
    c.model.head_size = 32
    return c


ARMS = (lab.OUTCOME, lab.CALIBRATED, critic.PLAIN)

SUITE = Suite(
    cells=lab.HEADLINE,
    arms={name: critic.SUITE.arms[name] for name in ARMS}
    | {lab.AGENTIC: lab.RULES[lab.AGENTIC]},
    reference=lab.OUTCOME,
    seeds=lab.TEN_SEEDS,
    settings_of="credit",
    rate_factor=0.5,
    claims=tuple(
        claim
        for candidate in (lab.CALIBRATED, critic.PLAIN)
        for claim in (
            Claim(
                text=f"Fewer ticks to 80% than outcome credit ({candidate})",
                metric=TICKS_TO_80,
                cell=lab.TRUTHFUL,
                candidate=candidate,
                reference=lab.OUTCOME,
                high_below=1.0,
            ),
            Claim(
                text=f"Ends no worse than 0.05 below outcome credit ({candidate})",
                metric=SOLVE_RATE,
                cell=lab.BLIND,
                candidate=candidate,
                reference=lab.OUTCOME,
                low_above=-0.05,
            ),
        )
    ),
)
