"""From a config to the objects of a run: the only reader of ``ConfigDict``.

Names are looked up in literal dicts; whatever is wrong with a config is said here, with
the field, its value and the rule, before anything is compiled or written.
"""

import dataclasses
import math
from typing import Any

import jax
import optax
from ml_collections import ConfigDict

from agentic_grpo.models.policy import decoder_policy
from agentic_grpo.models.transformer import Transformer, TransformerConfig
from agentic_grpo.rollout import RolloutSettings
from agentic_grpo.training import tick
from agentic_grpo.training.evaluation import EvaluationSettings
from agentic_grpo.training.loop import LoopSettings
from agentic_grpo.training.warm_start import WarmStartSettings
from experiments import build_algorithm
from experiments.build_environment import build_environment
from experiments.checks import choose, instantiate, require

SCHEMA_VERSION = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """Everything that a run is made of.

    Attributes:
      program: what the tick is made of.
      agent: the scripted agent of the warm start.
      warm_start: its settings.
      loop: when things are due.
      evaluation: the learning curve, on its split.
      test: the evaluation before and after training, on the test split.
      run_key, warm_start_key, evaluation_key: typed keys, of independent streams.
    """

    program: tick.Program
    agent: Any
    warm_start: WarmStartSettings
    loop: LoopSettings
    evaluation: EvaluationSettings
    test: EvaluationSettings
    run_key: jax.Array
    warm_start_key: jax.Array
    evaluation_key: jax.Array


def build(config: ConfigDict) -> Experiment:
    """Builds and validates a run.

    Raises:
      ValueError: names the field, its value and the rule.
    """
    require(
        config.schema_version == SCHEMA_VERSION,
        "schema_version",
        config.schema_version,
        f"this version reads schema {SCHEMA_VERSION}",
    )
    environment, agent = build_environment(config)
    loop = _loop(config)
    evaluation, test = _evaluations(config)
    seed_key = jax.random.key(config.seed)
    return Experiment(
        program=_program(config, environment),
        agent=agent,
        warm_start=_warm_start(config.warm_start),
        loop=loop,
        evaluation=evaluation,
        test=test,
        run_key=jax.random.fold_in(seed_key, 0),
        warm_start_key=jax.random.fold_in(seed_key, 1),
        evaluation_key=jax.random.key(config.evaluation.seed),
    )


def state_shapes(experiment: Experiment) -> tick.TrainState:
    """The state without its numbers: what a checkpoint is restored into."""
    program = experiment.program

    def state(key):
        return tick.init(program, program.policy.init(key), key)

    return jax.eval_shape(state, experiment.run_key)


def _program(config, environment) -> tick.Program:
    spec = environment.spec
    sizes = _sizes(config.rollout, config.learner, spec)
    fields = dict(config.model)
    chunk_size = fields.pop("chunk_size")
    model = Transformer(
        instantiate(
            "model",
            TransformerConfig,
            {**fields, "vocabulary_size": spec.vocabulary_size},
        )
    )
    policy = decoder_policy(
        model,
        spec.layout,
        end_token=spec.end_token,
        pad_token=spec.pad_token,
        chunk_size=chunk_size or None,
    )
    return tick.Program(
        environment=environment,
        policy=policy,
        credit_rule=build_algorithm.credit_rule(config.algorithm, spec),
        optimizer=_optimizer(config.learner),
        schedule=_schedule(config.learner, config.num_ticks),
        rollout=RolloutSettings(
            num_lanes=sizes["num_lanes"],
            decode_slots=sizes["decode_slots"],
            num_members=config.rollout.group_size,
            stage_deadline=config.rollout.stage_deadline,
            verdict_deadline=config.rollout.verdict_deadline,
            temperature=config.rollout.temperature,
        ),
        learner=build_algorithm.learner_settings(config, spec, sizes),
        num_blocks=config.rollout.num_blocks,
        num_rows=sizes["num_rows"],
        update_slots=sizes["update_slots"],
        max_age=config.algorithm.max_age,
        passes=config.learner.passes,
        anchor_after_immediate=config.algorithm.anchor == "post_immediate",
    )


def _sizes(rollout, learner, spec) -> dict[str, int]:
    """Sizes per block, with the defaults that latencies and arrivals ask for."""
    for name in ("num_blocks", "num_lanes", "decode_slots"):
        require(rollout[name] >= 1, f"rollout.{name}", rollout[name], "at least 1")
    require(
        rollout.group_size >= 2,
        "rollout.group_size",
        rollout.group_size,
        "at least 2: the members of a group are compared with each other",
    )
    require(
        rollout.decode_slots <= rollout.num_lanes,
        "rollout.decode_slots",
        rollout.decode_slots,
        f"at most rollout.num_lanes={rollout.num_lanes}",
    )
    for name in ("num_lanes", "decode_slots"):
        require(
            rollout[name] % rollout.num_blocks == 0,
            f"rollout.{name}",
            rollout[name],
            f"a multiple of rollout.num_blocks={rollout.num_blocks}",
        )
    for name in ("stage_deadline", "verdict_deadline"):
        require(rollout[name] >= 0, f"rollout.{name}", rollout[name], "at least 0")
    require(
        rollout.temperature > 0.0, "rollout.temperature", rollout.temperature, "above 0"
    )
    lanes = rollout.num_lanes // rollout.num_blocks
    slots = rollout.decode_slots // rollout.num_blocks
    # A group that starts in one tick can end min_stages ticks later at the earliest, so
    # at most `ending` groups per tick begin to wait for their verdict.
    ending = slots / min(spec.min_stages, spec.layout.num_stages)
    wait = min(spec.max_verdict_latency, rollout.verdict_deadline) + 2
    rows_needed = lanes + math.ceil(ending * wait)
    served = slots + math.ceil(ending)
    least_served = slots + math.ceil(slots / spec.layout.num_stages)
    rows = rollout.num_rows or rows_needed
    require(
        rows >= rows_needed,
        "rollout.num_rows",
        rollout.num_rows,
        f"at least {rows_needed} per block ({lanes} lanes, up to {ending:g} groups per "
        f"tick that wait {wait} ticks), or 0 for just that",
    )
    update_slots = learner.update_slots or served
    require(
        update_slots >= least_served,
        "learner.update_slots",
        learner.update_slots,
        f"at least {least_served} per block, the rows that become ready per tick "
        f"({slots} stages, and a verdict per {spec.layout.num_stages} stages), or 0 "
        f"for the most that can ({served})",
    )
    return dict(
        num_lanes=lanes, decode_slots=slots, num_rows=rows, update_slots=update_slots
    )


def _optimizer(learner) -> optax.GradientTransformation:
    """AdamW of unit learning rate: the learner multiplies by that of the tick."""
    require(learner.passes >= 1, "learner.passes", learner.passes, "at least 1")
    for name in ("b1", "b2"):
        require(0 <= learner[name] < 1, f"learner.{name}", learner[name], "in [0, 1)")
    for name in ("weight_decay", "entropy_weight", "kl_weight"):
        require(learner[name] >= 0, f"learner.{name}", learner[name], "at least 0")
    require(
        learner.max_grad_norm > 0,
        "learner.max_grad_norm",
        learner.max_grad_norm,
        "above 0",
    )
    return optax.chain(
        optax.clip_by_global_norm(learner.max_grad_norm),
        optax.scale_by_adam(b1=learner.b1, b2=learner.b2),
        optax.add_decayed_weights(learner.weight_decay),
        optax.scale(-1.0),
    )


def _schedule(learner, num_ticks):
    """tick -> learning rate."""
    require(
        learner.learning_rate > 0,
        "learner.learning_rate",
        learner.learning_rate,
        "above 0",
    )
    require(
        0 <= learner.warmup_ticks < num_ticks,
        "learner.warmup_ticks",
        learner.warmup_ticks,
        f"at least 0 and below num_ticks={num_ticks}",
    )
    peak, rest = learner.learning_rate, num_ticks - learner.warmup_ticks
    after = {
        "constant": optax.constant_schedule(peak),
        "linear": optax.linear_schedule(peak, 0.0, rest),
        "cosine": optax.cosine_decay_schedule(peak, rest),
    }
    decay = choose("learner.schedule", learner.schedule, after)
    if not learner.warmup_ticks:
        return decay
    start = peak / (learner.warmup_ticks + 1)
    warmup = optax.linear_schedule(start, peak, learner.warmup_ticks)
    return optax.join_schedules([warmup, decay], [learner.warmup_ticks])


def _warm_start(warm_start) -> WarmStartSettings:
    require(
        warm_start.num_steps >= 0,
        "warm_start.num_steps",
        warm_start.num_steps,
        "at least 0",
    )
    require(
        warm_start.episodes_per_step >= 1,
        "warm_start.episodes_per_step",
        warm_start.episodes_per_step,
        "at least 1",
    )
    require(
        warm_start.learning_rate > 0,
        "warm_start.learning_rate",
        warm_start.learning_rate,
        "above 0",
    )
    return instantiate("warm_start", WarmStartSettings, dict(warm_start))


def _loop(config) -> LoopSettings:
    require(config.num_ticks >= 1, "num_ticks", config.num_ticks, "at least 1")
    per_dispatch = config.ticks_per_dispatch
    require(per_dispatch >= 1, "ticks_per_dispatch", per_dispatch, "at least 1")
    for name, value in {
        "num_ticks": config.num_ticks,
        "evaluation.every": config.evaluation.every,
        "checkpoint.every": config.checkpoint.every,
    }.items():
        require(
            value >= 0 and value % per_dispatch == 0,
            name,
            value,
            f"a multiple of ticks_per_dispatch={per_dispatch}",
        )
    max_skipped = config.learner.max_skipped
    require(max_skipped >= 1, "learner.max_skipped", max_skipped, "at least 1")
    return LoopSettings(
        num_ticks=config.num_ticks,
        ticks_per_dispatch=per_dispatch,
        evaluate_every=config.evaluation.every,
        checkpoint_every=config.checkpoint.every,
        max_skipped=max_skipped,
    )


def _evaluations(config) -> tuple[EvaluationSettings, EvaluationSettings]:
    """(of the learning curve, of the test split before and after)."""
    e = config.evaluation
    for name in ("num_problems", "test_problems", "samples_per_problem", "batch_size"):
        require(e[name] >= 1, f"evaluation.{name}", e[name], "at least 1")
    shared = dict(
        samples_per_problem=e.samples_per_problem,
        pass_at=tuple(e.pass_at),
        batch_size=e.batch_size,
    )
    curve = dict(split=e.split, num_problems=e.num_problems, **shared)
    test = dict(split="test", num_problems=e.test_problems, with_greedy=True, **shared)
    return (
        instantiate("evaluation", EvaluationSettings, curve),
        instantiate("evaluation", EvaluationSettings, test),
    )
