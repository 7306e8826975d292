"""What each number in a config may be; the rules between fields are in ``build``.

Environments say for themselves what their fields may be. Of every number it holds that
float32 can compute with it, and of every int that it fits the clock of a run.
"""

from ml_collections import ConfigDict

from experiments.config import fields
from experiments.config.checks import require

LARGEST_INT = 10**9  # two of them add up within int32
LARGEST_FLOAT, SMALLEST_FLOAT = 1e9, 1e-12  # their products stay within float32

AT_LEAST_ZERO = (
    "model.adapter_rank",
    "model.chunk_size",
    "warm_start.num_steps",
    "rollout.num_rows",
    "rollout.stage_deadline",
    "rollout.verdict_deadline",
    "algorithm.clip",
    "algorithm.clip_high",
    "algorithm.correction_clip_high",
    "algorithm.importance_low",
    "algorithm.max_age",
    "algorithm.pilot_groups",
    "algorithm.immediate.skill_weight",
    "algorithm.agentic.immediate_weight",
    "algorithm.agentic.correction_weight",
    "algorithm.agentic.skill_weight",
    "algorithm.calibrated.prior_groups",
    "algorithm.returns.skill_weight",
    "algorithm.turn_mix.outcome_weight",
    "algorithm.state_groups.state_weight",
    "learner.warmup_ticks",
    "learner.weight_decay",
    "learner.entropy_weight",
    "learner.kl_weight",
    "learner.packed_rows",
    "learner.num_microbatches",
    "learner.update_slots",
    "learner.trained_tokens_per_tick",
    "evaluation.every",
    "evaluation.seed",
    "checkpoint.every",
    "devices.data",
    "seed",
)
AT_LEAST_ONE = (
    "num_ticks",
    "ticks_per_dispatch",
    "env.python_tasks.workers",
    "model.num_layers",
    "model.hidden_size",
    "model.num_heads",
    "model.num_kv_heads",
    "model.head_size",
    "model.mlp_size",
    "warm_start.episodes_per_step",
    "warm_start.steps_per_dispatch",
    "rollout.num_blocks",
    "rollout.num_lanes",
    "rollout.decode_slots",
    "algorithm.importance_high",
    "critic.hidden_size",
    "critic.num_layers",
    "critic.num_heads",
    "critic.capacity",
    "critic.batch_size",
    "critic.steps",
    "learner.passes",
    "learner.max_skipped",
    "evaluation.num_problems",
    "evaluation.samples_per_problem",
    "evaluation.batch_size",
    "evaluation.test_problems",
    "checkpoint.keep",
    "devices.fsdp",
)
AT_LEAST_TWO = ("rollout.group_size",)  # members are compared with each other
ABOVE_ONE = ("algorithm.dual_clip_ratio",)
ABOVE_ZERO = (
    "algorithm.decay",
    "learner.max_grad_norm",
    "learner.activation_gigabytes",
)
LEARNING_RATES = ("warm_start.learning_rate", "critic.learning_rate")
LEARNING_RATES_OR_ZERO = ("learner.learning_rate",)
TEMPERATURES = ("rollout.temperature",)  # a logit is divided by it
TEMPERATURES_OR_ZERO = ("evaluation.temperature",)
SHARES = (
    "agent.code_execution.efficient_share",
    "agent.tool_workflow.careful_share",
    "agent.tool_workflow.slip_share",
    "agent.python_tasks.quick_share",
    "agent.python_tasks.slow_share",
    "algorithm.clip_low",
    "algorithm.correction_clip_low",
    "algorithm.calibrated.prior_beta",
    "algorithm.returns.discount",
    "algorithm.state_groups.discount",
)
SHARES_BELOW_ONE = ("algorithm.decay", "learner.b1", "learner.b2")
SHARES_OR_MINUS_ONE = (
    "agent.code_execution.repair_share",
    "agent.tool_workflow.repair_share",
    "algorithm.calibrated.fixed_beta",
)
NAMED_SHARES = (
    "agent.code_execution.competence",
    "agent.tool_workflow.competence",
    "env.code_execution.fidelity_of_family",
)
NAMED_LATENCIES = (
    "env.code_execution.latency_of_stage",
    "env.tool_workflow.latency_of_stage",
    "env.python_tasks.latency_of_stage",
)
NATURAL_NUMBERS = ("evaluation.pass_at", "env.python_tasks.levels")

_RULES = (
    (AT_LEAST_ZERO, "at least 0", lambda x: x >= 0),
    (AT_LEAST_ONE, "at least 1", lambda x: x >= 1),
    (AT_LEAST_TWO, "at least 2", lambda x: x >= 2),
    (ABOVE_ONE, "above 1", lambda x: x > 1),
    (ABOVE_ZERO, "above 0", lambda x: x > 0),
    (LEARNING_RATES, "above 0, and at most 10", lambda x: 0 < x <= 10),
    (LEARNING_RATES_OR_ZERO, "in [0, 10]", lambda x: 0 <= x <= 10),
    (TEMPERATURES, "in [0.01, 100]", lambda x: 0.01 <= x <= 100),
    (
        TEMPERATURES_OR_ZERO,
        "in [0.01, 100], 0 or none",
        lambda x: x == 0 or 0.01 <= x <= 100,
    ),
    (SHARES, "in [0, 1]", lambda x: 0 <= x <= 1),
    (SHARES_BELOW_ONE, "in [0, 1)", lambda x: 0 <= x < 1),
    (SHARES_OR_MINUS_ONE, "in [0, 1], or -1", lambda x: 0 <= x <= 1 or x == -1),
    (
        NAMED_SHARES,
        "pairs (name, share in [0, 1]), each name once",
        lambda x: _are_pairs(x, _is_share),
    ),
    (
        NAMED_LATENCIES,
        "pairs (stage, (minimum, maximum, tail_probability)), each stage once",
        lambda x: _are_pairs(x, _is_latency),
    ),
    (NATURAL_NUMBERS, "ints of at least 1", lambda x: all(map(_is_natural, x))),
)


def check(config: ConfigDict) -> None:
    """Raises a ValueError that names the first field that is out of its range."""
    values = dict(fields.flatten(config))
    for field, value in values.items():
        if isinstance(value, float):
            require(_is_sane(value), field, value, _SANE)
        elif isinstance(value, int) and not isinstance(value, bool):
            require(abs(value) <= LARGEST_INT, field, value, f"at most {LARGEST_INT}")
    for names, rule, holds in _RULES:
        for field in names:
            value = values[field]
            require(value is None or holds(value), field, value, rule)


_SANE = f"0, or of a size between {SMALLEST_FLOAT:g} and {LARGEST_FLOAT:g}"


def _is_sane(number) -> bool:
    return number == 0 or SMALLEST_FLOAT <= abs(number) <= LARGEST_FLOAT


def _are_pairs(entries, is_second) -> bool:
    """Pairs of a name, each once, and something of one kind."""
    return all(
        isinstance(entry, list | tuple)
        and len(entry) == 2
        and isinstance(entry[0], str)
        and is_second(entry[1])
        for entry in entries
    ) and len({name for name, _ in entries}) == len(entries)


def _is_share(value) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1 and _is_sane(value)


def _is_latency(value) -> bool:
    """The fields of a latency in order; later ones may be left out."""
    kinds = ((int,), (int, type(None)), (int, float))
    return (
        isinstance(value, list | tuple)
        and 1 <= len(value) <= len(kinds)
        and all(type(x) in kind for x, kind in zip(value, kinds, strict=False))
        and all(0 <= x <= LARGEST_INT for x in value if x is not None)
    )


def _is_natural(entry) -> bool:
    return isinstance(entry, int) and not isinstance(entry, bool) and entry >= 1
