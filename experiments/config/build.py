"""From a config to the objects of a run: the only reader of ``ConfigDict``.

Names are looked up in literal dicts; whatever is wrong with a config is said here, with
the field, its value and the rule, before anything is compiled or written.
"""

import dataclasses
import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax
from ml_collections import ConfigDict

from agentic_grpo.errors import Refused
from agentic_grpo.lanes import RolloutSettings
from agentic_grpo.models.transformer import Transformer
from agentic_grpo.training import bases, devices, sizes, tick
from agentic_grpo.training.evaluation import EvaluationSettings
from agentic_grpo.training.loop import LoopSettings
from agentic_grpo.training.real_clock.settings import RealClockSettings
from agentic_grpo.training.streams import Stream, key_of
from agentic_grpo.training.warm_start import WarmStartSettings
from experiments.config import (
    algorithm,
    critic,
    evaluations,
    fields,
    memory,
    model,
    optimizer,
    policies,
    ranges,
    real_clock,
    warm_start,
)
from experiments.config.checks import choose, require
from experiments.config.environment import build_environment

SCHEMA_VERSION = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """Everything that a run is made of.

    Attributes:
      program: what the tick is made of.
      decoder: the model of the policy; None: it is from outside the repository.
      agent: the scripted agent of the warm start; None: there is none.
      at_work: as of ``setting.Setting``; around everything that asks the environment.
      digest: of the same; what the environment read from files.
      published: the model that it starts from; None: from nothing.
      makers: functions from outside the repository that made environment or policy.
      warm_start: its settings.
      loop: when things are due.
      real_clock: its settings; None: the clock is simulated.
      evaluation: the learning curve, on its split.
      test: the evaluation before and after training, on the test split.
      init_key, warm_start_key, run_key, evaluation_key, adapter_key: typed keys; see
        ``streams``.
    """

    program: tick.Program
    decoder: Transformer | None
    agent: Any
    at_work: Callable[[], AbstractContextManager]
    digest: Callable[[], str]
    published: model.Published | None
    makers: tuple[Callable, ...]
    warm_start: WarmStartSettings
    loop: LoopSettings
    real_clock: RealClockSettings | None
    evaluation: EvaluationSettings
    test: EvaluationSettings
    init_key: jax.Array
    warm_start_key: jax.Array
    run_key: jax.Array
    evaluation_key: jax.Array
    adapter_key: jax.Array

    @property
    def frozen_base(self) -> bases.Base | None:
        """Published weights that stay as they are from start to end; None: there are
        none, and a checkpoint has to hold every parameter."""
        if not self.program.policy.adapt or self.warm_start.num_steps:
            return None
        return self.published and self.published.as_base()

    def starting_params(self, base):
        """What training starts from: a base model, with an adapter that is to be.

        Args:
          base: parameters as of ``policy.init``.
        """
        adapt = self.program.policy.adapt
        return base if adapt is None else (base, jax.jit(adapt)(self.adapter_key))


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
    fields.check(config)
    ranges.check(config)
    known = dict.fromkeys(devices.PARALLELISMS)
    choose("devices.parallelism", config.devices.parallelism, known)
    published = model.open_published(config)
    setting = build_environment(config, published)
    loop = _loop(config)
    evaluation, test = evaluations.settings(config, setting.environment)
    spec = setting.environment.spec
    decoder = policies.decoder_of(config, spec, published)
    policy, makers = policies.policy_of(config, spec, decoder)
    program = _program(config, setting.environment, policy, decoder)
    return Experiment(
        program=program,
        decoder=decoder,
        agent=setting.agent,
        at_work=setting.at_work,
        digest=setting.digest,
        published=published,
        makers=setting.makers + makers,
        warm_start=warm_start.settings(config, setting.agent),
        loop=loop,
        real_clock=real_clock.settings(config, program),
        evaluation=evaluation,
        test=test,
        # keys compute; whatever is wrong was said above
        init_key=key_of(Stream.INIT, config.seed),
        warm_start_key=key_of(Stream.WARM_START, config.seed),
        run_key=key_of(Stream.RUN, config.seed),
        evaluation_key=key_of(Stream.EVALUATION, config.evaluation.seed),
        adapter_key=key_of(Stream.ADAPTER, config.seed),
    )


def build_layout(config: ConfigDict, program: tick.Program) -> devices.Layout:
    """Where the run lives; asks JAX for its devices.

    Raises:
      ValueError: names the field, the numbers and the rule.
    """
    layout = devices.make_layout(**config.devices, num_blocks=program.num_blocks)
    require(
        not config.learner.packed_rows
        or layout.mesh.size == 1
        or config.devices.parallelism == "pmap",
        "learner.packed_rows",
        config.learner.packed_rows,
        "0 on several devices under jit: a packed row would straddle them",
    )
    require(
        config.rollout.clock == real_clock.SIMULATED or layout.mesh.size == 1,
        "rollout.clock",
        config.rollout.clock,
        f"{real_clock.SIMULATED!r} on {layout.mesh.size} devices; the real clock knows "
        "one (devices.data=1, devices.fsdp=1)",
    )
    if config.devices.parallelism == "pmap":
        blocks = program.num_blocks // layout.mesh.size
        rows = blocks * program.update_slots * program.rollout.num_members
        require(
            rows % program.learner.num_microbatches == 0,
            "learner.num_microbatches",
            program.learner.num_microbatches,
            f"a divisor of the {rows} episodes of a step on each device",
        )
    return layout


def state_shapes(experiment: Experiment) -> tick.TrainState:
    """The state without its numbers: what a checkpoint is restored into."""
    program = experiment.program

    def state(key):
        base = program.policy.init(key)
        return tick.init(program, experiment.starting_params(base), key)

    return jax.eval_shape(state, experiment.run_key)


def memory_of(config: ConfigDict, experiment: Experiment) -> memory.Estimate | None:
    """What a run needs, estimated; None of a model from outside the repository."""
    if experiment.decoder is None:
        return None
    return memory.estimate(
        experiment.decoder.config,
        experiment.program,
        state_shapes(experiment),
        policies.packing_of(config, experiment.program.environment.spec.layout),
    )


def trace(experiment: Experiment) -> None:
    """Traces a tick, so that what does not fit together fails before the warm start."""
    jax.eval_shape(
        functools.partial(tick.tick, experiment.program), state_shapes(experiment)
    )


def _program(config, environment, policy, decoder) -> tick.Program:
    spec = environment.spec
    per_block = _sizes(config.rollout, config.learner, spec)
    critic.check(config, spec)
    return tick.Program(
        environment=environment,
        policy=policy,
        credit_rule=algorithm.credit_rule(config.algorithm, spec),
        optimizer=optimizer.optimizer(config.learner),
        schedule=optimizer.schedule(config.learner, config.model, config.num_ticks),
        rollout=RolloutSettings(
            num_lanes=per_block.num_lanes,
            decode_slots=per_block.decode_slots,
            num_members=config.rollout.group_size,
            stage_deadline=config.rollout.stage_deadline,
            verdict_deadline=config.rollout.verdict_deadline,
            temperature=config.rollout.temperature,
        ),
        learner=algorithm.learner_settings(
            config,
            spec,
            per_block,
            num_microbatches=memory.num_microbatches(config, decoder, spec, per_block),
        ),
        num_blocks=config.rollout.num_blocks,
        num_rows=per_block.num_rows,
        update_slots=per_block.update_slots,
        max_age=config.algorithm.max_age,
        passes=config.learner.passes,
        exclude_zero_variance=config.algorithm.exclude_zero_variance,
        anchor_after_immediate=config.algorithm.anchor == "post_immediate",
        critic=critic.settings(
            config,
            spec,
            policy,
            hidden_size=decoder and decoder.config.hidden_size,
            rows=per_block.update_slots * config.rollout.group_size,
        ),
        pilot_groups=config.algorithm.pilot_groups,
    )


def _sizes(rollout, learner, spec) -> sizes.BlockSizes:
    """Sizes per block; what is refused gets the path of its field."""
    try:
        return sizes.block_sizes(
            spec,
            num_lanes=rollout.num_lanes,
            decode_slots=rollout.decode_slots,
            stage_deadline=rollout.stage_deadline,
            verdict_deadline=rollout.verdict_deadline,
            num_blocks=rollout.num_blocks,
            num_rows=rollout.num_rows,
            update_slots=learner.update_slots,
        )
    except Refused as error:
        group = "learner" if error.field == "update_slots" else "rollout"
        raise error.under(group) from error


def _loop(config) -> LoopSettings:
    try:
        return LoopSettings(
            num_ticks=config.num_ticks,
            ticks_per_dispatch=config.ticks_per_dispatch,
            evaluate_every=config.evaluation.every,
            checkpoint_every=config.checkpoint.every,
            max_skipped=config.learner.max_skipped,
        )
    except Refused as error:
        path = {
            "evaluate_every": "evaluation.every",
            "checkpoint_every": "checkpoint.every",
        }
        field = path.get(error.field, error.field)
        raise Refused(field, error.value, error.rule) from error
