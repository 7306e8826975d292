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
from agentic_grpo.models.base import Policy
from agentic_grpo.models.packing import Packing
from agentic_grpo.models.policy import decoder_policy
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
    elsewhere,
    evaluations,
    fields,
    memory,
    model,
    optimizer,
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
    decoder = _decoder(config, spec, published)
    policy, makers = _policy(config, spec, decoder)
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
        _packing(config, experiment.program.environment.spec.layout),
    )


def trace(experiment: Experiment) -> None:
    """Traces a tick, so that what does not fit together fails before the warm start."""
    jax.eval_shape(
        functools.partial(tick.tick, experiment.program), state_shapes(experiment)
    )


def _decoder(config, spec, published) -> Transformer | None:
    """The model; None where it comes from outside the repository."""
    if elsewhere.is_elsewhere(config.model.name):
        model.require_elsewhere_fits(config)
        return None
    choose("model.name", config.model.name, {"transformer": None})
    rule = "(): they are those of a model.name like my_package.my_model:make"
    require(config.model.options == (), "model.options", config.model.options, rule)
    sizes = model.transformer_config(
        config, published, vocabulary_size=spec.vocabulary_size
    )
    return Transformer(sizes, model.adapter(config))


def _policy(config, spec, decoder) -> tuple[Policy, tuple[Callable, ...]]:
    """(the policy, whatever makes it from outside the repository)."""
    if decoder is None:
        policy, make = elsewhere.policy(config.model, spec)
        return policy, (make,)
    policy = decoder_policy(
        decoder,
        spec.layout,
        end_tokens=spec.end_tokens,
        pad_token=spec.pad_token,
        chunk_size=config.model.chunk_size or None,
        packing=_packing(config, spec.layout),
        prompt_once=config.model.prompt_once,
    )
    return policy, ()


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
            num_microbatches=_num_microbatches(config, decoder, spec, per_block),
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


def _num_microbatches(config, decoder, spec, block) -> int:
    """As given, or as few as the memory for activations allows."""
    learner = config.learner
    if learner.num_microbatches:
        return learner.num_microbatches
    rule = f"at least 1 with model.name={config.model.name!r}, whose memory is unknown"
    require(decoder is not None, "learner.num_microbatches", 0, rule)
    return memory.fewest_parts(
        decoder.config,
        rows=config.rollout.num_blocks * block.update_slots * config.rollout.group_size,
        columns=spec.layout.num_columns,
        limit=1e9 * learner.activation_gigabytes,
    )


def _packing(config, layout) -> Packing | None:
    """Packed rows as wide as two whole episodes, so that little stays empty.

    Or as one whole group, where its members share their prompt.
    """
    learner = config.learner
    rows = learner.packed_rows
    if not rows:
        return None
    require(
        learner.num_microbatches == 1,
        "learner.num_microbatches",
        learner.num_microbatches,
        f"1 with learner.packed_rows={rows}: those are taken in parts",
    )
    width = 2 * layout.num_columns
    if not config.model.prompt_once:
        return Packing(rows=rows, width=width)
    grouped = Packing(
        rows=rows,
        width=width,
        group_size=config.rollout.group_size,
        shared_width=layout.prompt_width,
    )
    folded = grouped.folded_columns(layout.num_columns)
    return dataclasses.replace(grouped, width=max(width, folded))


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
