"""What each number in a config may be; the rules between fields are in ``build``.

Environments say for themselves what their fields may be. Of every number it holds that
it is finite, and of every int that it fits the clock of a run.
"""

import math

from ml_collections import ConfigDict

from experiments.config import fields
from experiments.config.checks import require

LARGEST_INT = 10**9  # two of them add up within int32

AT_LEAST_ZERO = (
    "model.chunk_size",
    "warm_start.num_steps",
    "rollout.num_rows",
    "rollout.stage_deadline",
    "rollout.verdict_deadline",
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
    "learner.learning_rate",
    "learner.warmup_ticks",
    "learner.weight_decay",
    "learner.entropy_weight",
    "learner.kl_weight",
    "learner.packed_rows",
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
    "learner.num_microbatches",
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
    "warm_start.learning_rate",
    "rollout.temperature",
    "algorithm.decay",
    "critic.learning_rate",
    "learner.max_grad_norm",
)
SHARES = (
    "agent.code_execution.efficient_share",
    "agent.tool_workflow.careful_share",
    "agent.tool_workflow.slip_share",
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
    "algorithm.calibrated.fixed_worth",
)
NAMED_NUMBERS = (
    "agent.code_execution.competence",
    "agent.tool_workflow.competence",
    "env.code_execution.fidelity_of_family",
)
NAMED_LATENCIES = (
    "env.code_execution.latency_of_stage",
    "env.tool_workflow.latency_of_stage",
)
NATURAL_NUMBERS = ("evaluation.pass_at",)

_RULES = (
    (AT_LEAST_ZERO, "at least 0", lambda x: x >= 0),
    (AT_LEAST_ONE, "at least 1", lambda x: x >= 1),
    (AT_LEAST_TWO, "at least 2", lambda x: x >= 2),
    (ABOVE_ONE, "above 1", lambda x: x > 1),
    (ABOVE_ZERO, "above 0", lambda x: x > 0),
    (SHARES, "in [0, 1]", lambda x: 0 <= x <= 1),
    (SHARES_BELOW_ONE, "in [0, 1)", lambda x: 0 <= x < 1),
    (SHARES_OR_MINUS_ONE, "in [0, 1], or -1", lambda x: 0 <= x <= 1 or x == -1),
    (NAMED_NUMBERS, "pairs (name, number)", lambda x: _are_pairs(x, _is_number)),
    (
        NAMED_LATENCIES,
        "pairs (name, (minimum, maximum, tail_probability))",
        lambda x: _are_pairs(x, _is_latency),
    ),
    (NATURAL_NUMBERS, "ints of at least 1", lambda x: all(map(_is_natural, x))),
)


def check(config: ConfigDict) -> None:
    """Raises a ValueError that names the first field that is out of its range."""
    values = dict(fields.flatten(config))
    for field, value in values.items():
        if isinstance(value, float):
            require(math.isfinite(value), field, value, "finite")
        elif isinstance(value, int) and not isinstance(value, bool):
            require(abs(value) <= LARGEST_INT, field, value, f"at most {LARGEST_INT}")
    for names, rule, holds in _RULES:
        for field in names:
            value = values[field]
            require(value is None or holds(value), field, value, rule)


def _are_pairs(entries, is_second) -> bool:
    return all(
        isinstance(entry, list | tuple)
        and len(entry) == 2
        and isinstance(entry[0], str)
        and is_second(entry[1])
        for entry in entries
    )


def _is_number(value) -> bool:
    return isinstance(value, int | float) and 0 <= value <= LARGEST_INT


def _is_latency(value) -> bool:
    """The fields of a latency in order; later ones may be left out."""
    return (
        isinstance(value, list | tuple)
        and 1 <= len(value) <= 3
        and all(map(_is_number, value))
    )


def _is_natural(entry) -> bool:
    return isinstance(entry, int) and not isinstance(entry, bool) and entry >= 1
