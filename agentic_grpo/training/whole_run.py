"""A whole run for somebody else's environment and policy: ``agentic_grpo.train``.

What ``experiments.train`` does with a config, as one function of arguments: sizes from
the latencies, the loop with its evaluation, metrics and checkpoints, and resume.
"""

import contextlib
import dataclasses
import functools
import io
import json
import os
import types
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

from agentic_grpo import learner
from agentic_grpo.envs.base import Environment
from agentic_grpo.errors import require, require_choice
from agentic_grpo.lanes import RolloutSettings
from agentic_grpo.models.base import Params, Policy
from agentic_grpo.ops import aggregation, objective, policy_losses
from agentic_grpo.ops import credit as credit_ops
from agentic_grpo.ops.credit import CreditRule
from agentic_grpo.training import (
    compiling,
    devices,
    leaves,
    loop,
    optimizers,
    paths,
    processes,
    run_folder,
    running,
    sizes,
    tick,
)
from agentic_grpo.training.checkpoints import Checkpoints
from agentic_grpo.training.evaluation import EvaluationSettings
from agentic_grpo.training.progress import Progress
from agentic_grpo.training.recording import Recording
from agentic_grpo.training.stopping import stop_on_signals
from agentic_grpo.training.streams import Stream, key_of

#: Steps in a row that are not finite and end a run.
MAX_SKIPPED = 10

EVALUATION = EvaluationSettings(split="test", num_problems=256)


class Trained(NamedTuple):
    """What a run came to.

    Attributes:
      params: of the newest checkpoint.
      summary: as in ``summary.json``; None if a signal ended the run before its end.
    """

    params: Params
    summary: dict[str, Any] | None


def train(
    environment: Environment,
    policy: Policy,
    *,
    workdir: str | os.PathLike,
    learning_rate: float,
    credit: str | CreditRule = "calibrated",
    params: Params | None = None,
    seed: int = 0,
    num_ticks: int = 400,
    group_size: int = 8,
    num_lanes: int = 16,
    decode_slots: int = 8,
    num_blocks: int = 1,
    stage_deadline: int = 64,
    verdict_deadline: int = 128,
    temperature: float = 1.0,
    max_age: int = 64,
    loss: Callable = policy_losses.ppo_clip_loss,
    optimizer: optax.GradientTransformation | None = None,
    schedule: str = "constant",
    warmup_ticks: int = 5,
    ticks_per_dispatch: int = 5,
    evaluate_every: int = 20,
    evaluation: EvaluationSettings = EVALUATION,
    checkpoint_every: int = 50,
    keep: int = 2,
    layout: devices.Layout | None = None,
    verbose: bool = True,
) -> Trained:
    """Trains a policy in an environment; both may come from anywhere.

    The folder gets what a run of ``experiments.train`` leaves: ``config.json``,
    ``metrics.jsonl``, ``checkpoints/`` and ``summary.json``. The same call again goes
    on where it stopped, and of a finished run only reads what came of it. SIGTERM or
    Ctrl-C ends it after the dispatch that is running, with everything saved.

    Args:
      environment: see ``envs/README.md``; ``envs.testing`` says whether it is one.
      policy: see ``models/README.md``; ``models.testing`` says whether it is one.
      workdir: the run's folder.
      learning_rate: after the warm-up.
      credit: a name of ``ops.credit.RULES``, whose options are then the decided ones,
        or a rule.
      params: where it starts; None: ``policy.init`` of the seed.
      seed: of everything that is drawn.
      num_ticks: the run ends here; a higher one goes on with a run that has ended.
      group_size: G, members that are compared with each other.
      num_lanes: groups in flight that still write, in all blocks together.
      decode_slots: of them, how many write a stage per tick.
      num_blocks: B; the devices of a layout must divide it.
      stage_deadline, verdict_deadline: ticks until what is missing counts as absent.
      temperature: of sampling.
      max_age: learner steps after which a stage is too old to be trained on.
      loss: of ``ops.policy_losses``, its options bound.
      optimizer: of unit learning rate; None: AdamW, its gradient cut at norm 1.
      schedule, warmup_ticks: of ``optimizers.schedule``.
      ticks_per_dispatch: ticks in one compiled scan; one line of metrics each.
      evaluate_every: ticks; 0: at the end only.
      evaluation: of the learning curve, and before and after with greedy play as well.
      checkpoint_every: ticks; 0: at the end only.
      keep: the newest so many checkpoints.
      layout: where it runs; None: the first device.
      verbose: tell how it goes, on standard error.

    Returns:
      ``Trained``.

    Raises:
      ValueError: an argument or the folder is not fit for it, named with the rule,
        before anything is computed; or the environment broke its contract.
      NonFiniteError: the training diverged; the newest checkpoint is from before.
      CheckpointError: a checkpoint is damaged, or cannot be written.
    """
    given = types.SimpleNamespace(**locals())
    folder = paths.locate_workdir(workdir)
    _check(given)
    when = loop.LoopSettings(
        num_ticks=num_ticks,
        ticks_per_dispatch=ticks_per_dispatch,
        evaluate_every=evaluate_every,
        checkpoint_every=checkpoint_every,
        max_skipped=MAX_SKIPPED,
    )
    program = _program(given)
    layout = layout or devices.make_layout(num_blocks=num_blocks)
    settings = _settings(given)
    processes.require_same({"workdir": str(folder), **settings})
    run_key = key_of(Stream.RUN, seed)
    shapes = jax.eval_shape(
        lambda key: tick.init(program, policy.init(key), key), run_key
    )
    # What does not fit together fails here, before the folder is touched.
    jax.eval_shape(functools.partial(tick.tick, program), shapes)
    with contextlib.ExitStack() as stack:
        stop_requested = stack.enter_context(stop_on_signals())
        done = stack.enter_context(run_folder.claimed(folder, settings))
        if done is None:
            recording = stack.enter_context(
                Recording(folder, settings, schedule_to=_schedule_to(given))
            )
            progress = stack.enter_context(_progress(given))

            def begin():
                first = params
                if first is None:
                    first = jax.jit(policy.init)(key_of(Stream.INIT, seed))
                return devices.first_state(layout, program, first, run_key)

            done = running.go_on(
                recording,
                _machine(given, program, layout),
                when,
                progress,
                stop_requested,
                target=layout.abstract(shapes),
                begin=begin,
            )
    return Trained(load_params(folder, policy), done)


def load_params(
    workdir: str | os.PathLike, policy: Policy, *, step: int | None = None
) -> Params:
    """The parameters of a checkpoint of a run.

    Args:
      workdir: the run's folder.
      policy: that was trained there.
      step: tick of the checkpoint; None: the newest.

    Raises:
      CheckpointError: there is none, or it is of another policy.
    """
    shapes = jax.eval_shape(policy.init, jax.random.key(0))
    folder = paths.locate_workdir(workdir) / run_folder.CHECKPOINTS
    with Checkpoints(folder) as checkpoints:
        return checkpoints.restore_part("learner/params", shapes, step)[0]


def _check(given):
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


def _program(given) -> tick.Program:
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
        schedule=_schedule_to(given)(given.num_ticks),
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


def _schedule_to(given):
    def schedule_to(num_ticks):
        return optimizers.schedule(
            given.learning_rate,
            num_ticks=num_ticks,
            name=given.schedule,
            warmup_ticks=given.warmup_ticks,
        )

    return schedule_to


def _machine(given, program, layout) -> running.Machine:
    def compile_dispatch(state):
        dispatch, _ = compiling.compile_dispatch(
            layout, program, state, num_ticks=given.ticks_per_dispatch
        )
        return dispatch

    return running.machine_of_one(
        program,
        layout,
        curve=given.evaluation,
        test=dataclasses.replace(given.evaluation, with_greedy=True),
        key=key_of(Stream.EVALUATION, given.seed),
        compile_dispatch=compile_dispatch,
    )


def _progress(given) -> Progress:
    told = given.verbose and processes.is_first_process()
    return Progress(given.num_ticks, stream=None if told else io.StringIO())


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


def _settings(given) -> dict[str, Any]:
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
