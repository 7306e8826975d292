"""A whole run at toy size: the toy environment, a tiny decoder, any credit rule."""

import functools

import jax
import optax
import toy_environment as toy

from agentic_grpo import learner
from agentic_grpo.lanes import RolloutSettings
from agentic_grpo.models.policy import decoder_policy
from agentic_grpo.models.transformer import Transformer, TransformerConfig
from agentic_grpo.ops import aggregation, credit, objective
from agentic_grpo.ops.policy_losses import ppo_clip_loss
from agentic_grpo.training import tick

MEMBERS = 4


@functools.cache
def environment():
    return toy.ToyEnvironment()


@functools.cache
def policy():
    spec = environment().spec
    model = Transformer(
        TransformerConfig(
            vocabulary_size=spec.vocabulary_size,
            num_layers=1,
            hidden_size=16,
            num_heads=2,
            num_kv_heads=1,
            head_size=8,
            mlp_size=32,
        )
    )
    return decoder_policy(
        model, spec.layout, end_tokens=spec.end_tokens, pad_token=spec.pad_token
    )


@functools.cache
def initial_params():
    return jax.jit(policy().init)(jax.random.key(0))


def rule(constructor=credit.agentic, **options) -> credit.CreditRule:
    return constructor(environment().spec.layout.kinds, **options)


def program(credit_rule=None, **changes) -> tick.Program:
    segments = environment().spec.layout.segment_of_column
    fields = dict(
        environment=environment(),
        policy=policy(),
        credit_rule=credit_rule or rule(),
        optimizer=optax.chain(optax.scale_by_adam(), optax.scale(-1.0)),
        schedule=optax.constant_schedule(3e-3),
        rollout=RolloutSettings(
            num_lanes=4,
            decode_slots=2,
            num_members=MEMBERS,
            stage_deadline=20,
            verdict_deadline=20,
        ),
        learner=learner.LearnerSettings(
            objective=objective.make_objective(
                ppo_clip_loss,
                anchor="behaviour",
                granularity="token",
                treatment="none",
                low=0.5,
                high=2.0,
                length_normalised=False,
                segment_of_column=segments,
            ),
            aggregate=aggregation.constant_divisor(2.0),
        ),
        num_blocks=2,
        num_rows=16,
        update_slots=4,
        max_age=50,
    )
    return tick.Program(**{**fields, **changes})


def initial_state(built: tick.Program, seed=0) -> tick.TrainState:
    return tick.init(built, initial_params(), jax.random.key(seed))


def run(built: tick.Program, num_ticks, state=None):
    """(state, metrics stacked over ticks), compiled in one scan."""
    state = initial_state(built) if state is None else state
    return jax.jit(functools.partial(tick.run_ticks, built, num_ticks=num_ticks))(state)
