"""The laboratory of the ablations: one base config, its regimes, its arms.

Shared by all suites, so that they share base models too. Changing a value here changes
every suite; what a suite is about stands in its own file.

Latency, fidelities, candidate and model were chosen on validation problems with seeds
900 and 901, before anything that is compared was run; the log of results says how.
"""

from experiments.configs import default
from experiments.studies.suites import Arm

#: Ticks from the end of an episode to its verdict in the headline regimes.
LATENCY = 16

#: Tuning has seeds 0, 1, 2 for itself; what is compared runs with these.
TEN_SEEDS, FIVE_SEEDS = tuple(range(100, 110)), tuple(range(100, 105))

#: Share of hidden-like visible tests, family by family: partly truthful stage rewards.
FIDELITY_OF_FAMILY = (
    ("multiples", 0.0),
    ("toggle", 0.25),
    ("odd_terms", 0.5),
    ("cubes", 0.75),
    ("staircase", 1.0),
)

#: Regime T, and the two kinds of regime D.
TRUTHFUL, BLIND, DECEPTIVE = "partly truthful", "blind", "deceptive"
REGIMES = {
    TRUTHFUL: {"env.code_execution.fidelity_of_family": FIDELITY_OF_FAMILY},
    BLIND: {"env.code_execution.visible_fidelity": 0.0},
    DECEPTIVE: {
        "env.code_execution.visible_fidelity": 0.0,
        "env.code_execution.fidelity_mode": "deceptive",
    },
}
HEADLINE = {name: REGIMES[name] for name in (TRUTHFUL, BLIND)}

OUTCOME, IMMEDIATE, AGENTIC, CALIBRATED = (
    "outcome",
    "immediate",
    "agentic",
    "calibrated",
)
RULES = {
    name: Arm(overrides={"algorithm.credit": name})
    for name in (OUTCOME, IMMEDIATE, AGENTIC, CALIBRATED)
}

#: The two-phase rule that has to stand in both regimes: it spends nothing before the
#: first verdicts have shown what that is worth (prior 0), and clips both phases alike.
CANDIDATE = CALIBRATED


def get_config():
    c = default.get_config()
    c.num_ticks = 140
    c.model.num_layers = 2  # enough for five families, and half the time
    c.model.hidden_size = 64
    c.model.head_size = 16
    c.model.mlp_size = 192
    c.env.code_execution.families = tuple(name for name, _ in FIDELITY_OF_FAMILY)
    c.env.code_execution.num_cases = 1  # f(0): a counterexample is the hidden parameter
    c.env.code_execution.verdict_latency.minimum = LATENCY
    c.learner.schedule = "cosine"
    c.learner.packed_rows = 8  # exact, and a tick takes half the time
    c.algorithm.max_age = 160  # longer than any verdict here takes: nothing expires
    c.evaluation.every = 5
    c.evaluation.num_problems = 512
    c.evaluation.batch_size = 128
    c.checkpoint.keep = 1
    c.checkpoint.keep_best = False
    return c


def variants(base, options):
    """Arms of one rule: {name: overrides} on top of the arm ``base``, tuned as it."""
    return {
        name: Arm(overrides={"algorithm.credit": base, **overrides}, tuned_as=base)
        for name, overrides in options.items()
    }


def latency(ticks):
    return {"env.code_execution.verdict_latency.minimum": ticks}
