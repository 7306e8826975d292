"""The work that is measured, of ours and of the peers: one place for every size.

``learner_step`` and ``decoding`` use one decoder; ``job`` is generation, reward and
learner together. What a peer does for the same work is in ``workers/``.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import optax

from agentic_grpo import learner, records
from agentic_grpo.lanes import RolloutSettings
from agentic_grpo.models.policy import decoder_policy
from agentic_grpo.models.transformer import Transformer, TransformerConfig
from agentic_grpo.ops import aggregation, credit, objective
from agentic_grpo.ops.policy_losses import ppo_clip_loss
from agentic_grpo.training import compiling, devices, tick
from scripts.benchmarks.trivial_environment import TrivialEnvironment

#: In so many blocks, that as many devices share, does the whole job its groups.
JOB_BLOCKS = 2

#: Decoders by name; the peers build the same.
DECODER = dict(
    num_layers=4,
    hidden_size=256,
    num_heads=4,
    num_kv_heads=4,
    head_size=64,
    mlp_size=1024,
)
SMALL_DECODER = dict(
    num_layers=3,
    hidden_size=96,
    num_heads=4,
    num_kv_heads=4,
    head_size=24,
    mlp_size=384,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much work; the defaults are those that are reported.

    Attributes:
      decoder: fields of ``TransformerConfig`` but the vocabulary.
      rows, columns, trained_columns: of a learner's step.
      decode_rows, prompt, new_tokens: of decoding.
      small_decoder: of the whole job.
      groups, members: episodes of a tick of the whole job.
    """

    decoder: tuple = tuple(DECODER.items())
    rows: int = 8
    columns: int = 256
    trained_columns: int = 224
    decode_rows: int = 32
    prompt: int = 32
    new_tokens: int = 128
    small_decoder: tuple = tuple(SMALL_DECODER.items())
    groups: int = 16
    members: int = 8


FULL = Sizes()
_TINY_DECODER = dict(DECODER, num_layers=1, hidden_size=16, head_size=4, mlp_size=32)
TINY = Sizes(
    decoder=tuple(_TINY_DECODER.items()),
    rows=2,
    columns=16,
    trained_columns=12,
    decode_rows=2,
    prompt=4,
    new_tokens=4,
    small_decoder=tuple(_TINY_DECODER.items()),
    groups=2,
    members=2,
)


def policy_of(decoder: tuple, spec, **choices):
    """A ``Policy`` for an environment; ``choices`` are of ``TransformerConfig``."""
    config = TransformerConfig(
        vocabulary_size=spec.vocabulary_size, **{**dict(decoder), **choices}
    )
    return decoder_policy(
        Transformer(config),
        spec.layout,
        end_tokens=spec.end_tokens,
        pad_token=spec.pad_token,
    )


def optimizer() -> optax.GradientTransformation:
    """AdamW of unit learning rate under a global norm, as in a run."""
    return optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.scale_by_adam(b1=0.9, b2=0.98),
        optax.add_decayed_weights(0.01),
        optax.scale(-1.0),
    )


def learner_settings(layout, trained_tokens: float) -> learner.LearnerSettings:
    """The clipped loss against the log-probs at sampling, over a constant divisor."""
    return learner.LearnerSettings(
        objective=objective.make_objective(
            ppo_clip_loss,
            anchor="behaviour",
            granularity="token",
            treatment="none",
            low=0.5,
            high=2.0,
            length_normalised=False,
            segment_of_column=layout.segment_of_column,
        ),
        aggregate=aggregation.constant_divisor(trained_tokens),
    )


def learner_step(sizes: Sizes, vocabulary: int, **choices):
    """A whole optimizer step, its state donated from call to call.

    Args:
      sizes: of the work.
      vocabulary: V.
      choices: further fields of ``TransformerConfig``.

    Returns:
      (call: () -> a number of the step's metrics, compiled: its executable).
    """
    prompt = sizes.columns - sizes.trained_columns
    spec = TrivialEnvironment(
        prompt_width=prompt,
        action_width=sizes.trained_columns,
        vocabulary_size=vocabulary,
    ).spec
    policy = policy_of(sizes.decoder, spec, **choices)
    adamw = optimizer()
    settings = learner_settings(spec.layout, float(sizes.trained_columns))
    state = learner.init(jax.jit(policy.init)(jax.random.key(0)), adamw)
    batch = _batch(sizes, vocabulary, prompt)

    def step(state, batch):
        return learner.update(
            state, batch, policy.score, adamw, settings, learning_rate=1e-4
        )

    compiled = jax.jit(step, donate_argnums=0).lower(state, batch).compile()

    def call():
        nonlocal state
        state, metrics = compiled(state, batch)
        return metrics["entropy"].total

    return call, compiled


def _batch(sizes, vocabulary, prompt) -> learner.Batch:
    shape = sizes.rows, sizes.columns
    tokens = jax.random.randint(jax.random.key(1), shape, 0, vocabulary)
    trained = jnp.broadcast_to(jnp.arange(sizes.columns)[None] >= prompt, shape)
    behaviour = jnp.where(trained, -jnp.log(float(vocabulary)), 0.0)
    advantage = jnp.where(trained, jnp.linspace(-1.0, 1.0, sizes.rows)[:, None], 0.0)
    nothing = jnp.zeros(shape, jnp.float32)
    clip = jnp.full((2, *shape), 0.2, jnp.float32)
    return learner.Batch(
        tokens=tokens,
        token_mask=jnp.ones(shape, bool),
        anchor_log_probs=behaviour,
        behaviour_log_probs=behaviour,
        credit=records.TokenCredit(
            advantage=jnp.stack([advantage, nothing]),
            clip_low=clip,
            clip_high=clip,
            mask=jnp.stack([trained, jnp.zeros(shape, bool)]),
        ),
    )


def decoding(sizes: Sizes, vocabulary: int, **choices):
    """Sampling from a prompt, prefill included, log-probs returned: () -> tokens."""
    spec = TrivialEnvironment(
        prompt_width=sizes.prompt,
        action_width=sizes.new_tokens,
        vocabulary_size=vocabulary,
    ).spec
    policy = policy_of(sizes.decoder, spec, **choices)
    params = jax.jit(policy.init)(jax.random.key(0))
    rows, columns = sizes.decode_rows, spec.layout.num_columns
    tokens = jax.random.randint(jax.random.key(2), (rows, columns), 0, vocabulary)
    mask = jnp.broadcast_to(jnp.arange(columns)[None] < sizes.prompt, tokens.shape)
    stage, active = jnp.zeros(rows, jnp.int32), jnp.ones(rows, bool)
    draw = jax.jit(
        functools.partial(jax.random.uniform, shape=(rows, sizes.new_tokens))
    )
    sample = jax.jit(functools.partial(policy.sample, temperature=1.0))
    arguments = params, tokens, mask, stage, active
    sample = sample.lower(*arguments, draw(jax.random.key(0))).compile()
    calls = 0

    def call():
        nonlocal calls
        calls += 1
        return sample(*arguments, draw(jax.random.key(calls)))

    return call


def job_program(sizes: Sizes) -> tick.Program:
    """The whole job: every tick all groups write an episode and are learnt from."""
    return program_on(
        TrivialEnvironment(),
        sizes.small_decoder,
        groups=sizes.groups // JOB_BLOCKS,
        members=sizes.members,
        blocks=JOB_BLOCKS,
    )


def job_layout() -> devices.Layout:
    """Of the whole job: a program for each of the devices that there are."""
    return devices.make_layout(data=0, num_blocks=JOB_BLOCKS, parallelism="pmap")


def program_on(
    environment: TrivialEnvironment,
    decoder: tuple,
    *,
    groups: int,
    members: int,
    blocks: int = 1,
) -> tick.Program:
    """Every tick each group of each block writes a stage; plain GRPO takes verdicts."""
    spec = environment.spec
    layout = spec.layout
    return tick.Program(
        environment=environment,
        policy=policy_of(decoder, spec),
        credit_rule=credit.outcome(layout.kinds),
        optimizer=optimizer(),
        schedule=optax.constant_schedule(1e-4),
        rollout=RolloutSettings(
            num_lanes=groups,
            decode_slots=groups,
            num_members=members,
            stage_deadline=1,
            verdict_deadline=1,
        ),
        learner=learner_settings(layout, float(layout.max_action_width)),
        num_blocks=blocks,
        num_rows=groups,
        update_slots=groups,
        max_age=8 * layout.num_stages,
    )


def compiled_ticks(program: tick.Program, *, num_ticks: int, layout=None):
    """(first state, executable of some ticks in one scan, which donates its state).

    Args:
      program: whose ticks.
      num_ticks: in the scan.
      layout: a ``devices.Layout``; None: one device.
    """
    layout = layout or devices.make_layout(num_blocks=program.num_blocks)
    key = jax.random.key(0)
    params = jax.jit(program.policy.init)(key)
    state = devices.first_state(layout, program, params, key)
    return state, compiling.compile_dispatch(
        layout, program, state, num_ticks=num_ticks
    )[0]


def dispatch_of(program: tick.Program, *, num_ticks: int, layout=None):
    """Some ticks of a program, going on from call to call: () -> stacked metrics."""
    return going_on(*compiled_ticks(program, num_ticks=num_ticks, layout=layout))


def going_on(state, dispatch):
    """A dispatch whose state goes on from call to call: () -> stacked metrics."""

    def call():
        nonlocal state
        state, metrics, *_ = dispatch(state)
        return metrics

    return call
