"""The arguments of ``agentic_grpo.train`` as a program of ticks and as settings.

``given`` is a namespace of all of them, named as in ``whole_run.train``.
"""

import dataclasses
import json
import zlib
from typing import Any

import jax
import numpy as np

from agentic_grpo import learner
from agentic_grpo.errors import require, require_choice
from agentic_grpo.lanes import RolloutSettings
from agentic_grpo.ops import aggregation, objective
from agentic_grpo.ops import credit as credit_ops
from agentic_grpo.training import leaves, optimizers, sizes, tick

#: Numbers and names among the arguments, which a run must go on with.
_PLAIN = (
    "seed",
    "num_ticks",
    "ticks_per_dispatch",
    "learning_rate",
    "group_size",
    "num_lanes",
    "decode_slots",
    "num_blocks",
    "stage_deadline",
    "verdict_deadline",
    "temperature",
    "max_age",
    "schedule",
    "warmup_ticks",
    "evaluate_every",
)


def check(given):
    """Refuses what is out of range, or not what ``train`` is for.

    Raises:
      ValueError: names the argument, its value and the rule.
    """
    for field, least in (
        ("num_ticks", 1),
        ("group_size", 2),  # members are compared with each other
        ("num_lanes", 1),
        ("decode_slots", 1),
        ("num_blocks", 1),
        ("max_age", 0),
    ):
        value = getattr(given, field)
        require(value >= least, field, value, f"at least {least}")
    for field in ("learning_rate", "temperature"):
        value = getattr(given, field)
        require(value > 0, field, value, "above 0")
    require(
        given.policy.adapt is None,
        "policy",
        "one with an adapter",
        "one that is trained as a whole; experiments.train trains adapters "
        "(model.adapter_rank)",
    )
    if isinstance(given.credit, str):
        require_choice("credit", given.credit, credit_ops.RULES)
        require(
            given.credit != "value_baseline",
            "credit",
            given.credit,
            "another rule: this one asks a critic, which experiments.train has",
        )


def program(given) -> tick.Program:
    """What the tick is made of; names of rules and of the optimizer are looked up."""
    spec = given.environment.spec
    block = sizes.block_sizes(
        spec,
        num_lanes=given.num_lanes,
        decode_slots=given.decode_slots,
        stage_deadline=given.stage_deadline,
        verdict_deadline=given.verdict_deadline,
        num_blocks=given.num_blocks,
    )
    rule, optimizer = given.credit, given.optimizer
    if isinstance(rule, str):
        rule = credit_ops.RULES[rule](spec.layout.kinds)
    return tick.Program(
        environment=given.environment,
        policy=given.policy,
        credit_rule=rule,
        optimizer=optimizers.adamw() if optimizer is None else optimizer,
        schedule=schedule_to(given)(given.num_ticks),
        rollout=RolloutSettings(
            num_lanes=block.num_lanes,
            decode_slots=block.decode_slots,
            num_members=given.group_size,
            stage_deadline=given.stage_deadline,
            verdict_deadline=given.verdict_deadline,
            temperature=given.temperature,
        ),
        learner=learner.LearnerSettings(
            objective=objective.make_objective(given.loss),
            aggregate=aggregation.constant_divisor(
                sizes.trained_tokens_per_row(spec, block, num_members=given.group_size)
            ),
            temperature=given.temperature,
        ),
        num_blocks=given.num_blocks,
        num_rows=block.num_rows,
        update_slots=block.update_slots,
        max_age=given.max_age,
    )


def schedule_to(given):
    """Of the ticks of a run, its schedule: (num_ticks) -> optax schedule."""

    def to(num_ticks):
        return optimizers.schedule(
            given.learning_rate,
            num_ticks=num_ticks,
            name=given.schedule,
            warmup_ticks=given.warmup_ticks,
        )

    return to


def settings(given) -> dict[str, Any]:
    """What the folder remembers; a function among it by its name, if it has one."""
    settings = {name: getattr(given, name) for name in _PLAIN}
    settings |= {
        "environment": {
            "class": _name(type(given.environment)),
            "spec": dataclasses.asdict(given.environment.spec),
        },
        "policy": _describe(given.policy),
        "credit": given.credit if isinstance(given.credit, str) else "given",
        "loss": _name(getattr(given.loss, "func", given.loss)),
        "optimizer": "adamw" if given.optimizer is None else "given",
        "evaluation": dataclasses.asdict(given.evaluation)
        | {"test_problems": given.evaluation.num_problems},
        "checkpoint": {
            "every": given.checkpoint_every,
            "keep": given.keep,
            "keep_best": False,  # its split is that of the test
        },
        "logging": {"tensorboard": False},
    }
    return json.loads(json.dumps(settings, default=_plain))


def _describe(policy) -> str:
    """What tells one policy's parameters from another's: their names and shapes."""
    shapes = leaves.named(jax.eval_shape(policy.init, jax.random.key(0)))
    numbers = sum(int(np.prod(leaf.shape)) for leaf in shapes.values())
    text = repr([(name, leaf.shape, str(leaf.dtype)) for name, leaf in shapes.items()])
    return f"{numbers} numbers in {len(shapes)} arrays, {zlib.crc32(text.encode()):08x}"


def _name(function_or_class) -> str:
    return f"{function_or_class.__module__}.{function_or_class.__qualname__}"


def _plain(value):
    """What JSON does not know, as what it knows."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
