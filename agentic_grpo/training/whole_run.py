"""A whole run for somebody else's environment and policy: ``agentic_grpo.train``.

What ``experiments.train`` does with a config, as one function of arguments: sizes from
the latencies, the loop with its evaluation, metrics and checkpoints, and resume.
"""

import contextlib
import dataclasses
import functools
import io
import os
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import optax

from agentic_grpo.envs.base import Environment
from agentic_grpo.models.base import Params, Policy
from agentic_grpo.ops import policy_losses
from agentic_grpo.ops.credit import CreditRule
from agentic_grpo.training import (
    arguments,
    compiling,
    devices,
    loop,
    paths,
    processes,
    run_folder,
    running,
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
    arguments.check(given)
    when = loop.LoopSettings(
        num_ticks=num_ticks,
        ticks_per_dispatch=ticks_per_dispatch,
        evaluate_every=evaluate_every,
        checkpoint_every=checkpoint_every,
        max_skipped=MAX_SKIPPED,
    )
    program = arguments.program(given)
    layout = layout or devices.make_layout(num_blocks=num_blocks)
    settings = arguments.settings(given)
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
                Recording(folder, settings, schedule_to=arguments.schedule_to(given))
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
