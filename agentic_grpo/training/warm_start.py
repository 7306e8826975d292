"""Supervised pre-training on episodes of a scripted agent: the base model.

What reinforcement learning starts from is a policy that writes valid stages, mostly of
the wrong kind: how often the scripted agent is efficient, and how competent in each
stage, are the agent's own dials.
"""

import dataclasses

import jax
import jax.numpy as jnp
import optax

from agentic_grpo import episodes
from agentic_grpo.errors import require
from agentic_grpo.ops.reductions import masked_mean


@dataclasses.dataclass(frozen=True, kw_only=True)
class WarmStartSettings:
    """Static choices of the pre-training.

    Attributes:
      num_steps: optimizer steps, a multiple of ``steps_per_dispatch``; 0 for none.
      episodes_per_step: reference episodes, each on a new problem of the train split.
      learning_rate: peak of a schedule that warms up over the first 5% of the steps and
        decays to a tenth along a cosine.
      steps_per_dispatch: steps in one compiled scan.
    """

    num_steps: int
    episodes_per_step: int
    learning_rate: float
    steps_per_dispatch: int = 25

    def __post_init__(self):
        require(
            self.num_steps % self.steps_per_dispatch == 0,
            "num_steps",
            self.num_steps,
            f"a multiple of steps_per_dispatch={self.steps_per_dispatch}",
        )


def optimizer_of(settings: WarmStartSettings) -> optax.GradientTransformation:
    """AdamW under global-norm clipping and the schedule of the settings."""
    return optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(schedule_of(settings), b2=0.98, weight_decay=0.01),
    )


def schedule_of(settings: WarmStartSettings) -> optax.Schedule:
    """step -> learning rate; no step has rate 0, for it would be played for nothing."""
    warmup_steps = max(settings.num_steps // 20, 1)
    return optax.warmup_cosine_decay_schedule(
        init_value=settings.learning_rate / (warmup_steps + 1),
        peak_value=settings.learning_rate,
        warmup_steps=warmup_steps,
        decay_steps=max(settings.num_steps, 2),
        end_value=settings.learning_rate / 10,
    )


def run_steps(policy, agent, environment, settings, carry, key):
    """Some steps on fresh reference episodes. Pure; the caller jits it.

    Args:
      policy: a ``models.base.Policy``.
      agent: an ``envs.base.ScriptedAgent``.
      environment: an ``envs.base.Environment``.
      settings: static.
      carry: (params, optimizer state, step int32 []).
      key: of the warm start; folded with the step.

    Returns:
      (carry, loss float32 [steps_per_dispatch]: nats per reference token).
    """
    optimizer = optimizer_of(settings)

    def step(carry, _):
        params, optimizer_state, index = carry
        rows = episodes.play_episodes(
            episodes.write_with(agent),
            environment,
            jax.random.split(
                jax.random.fold_in(key, index), settings.episodes_per_step
            ),
            split="train",
            num_members=1,
        )
        loss, gradients = jax.value_and_grad(_loss)(params, policy.score, rows)
        updates, optimizer_state = optimizer.update(gradients, optimizer_state, params)
        params = optax.apply_updates(params, updates)
        return (params, optimizer_state, index + 1), loss

    return jax.lax.scan(step, carry, length=settings.steps_per_dispatch)


def init(params, settings: WarmStartSettings):
    """The carry before the first step."""
    return params, optimizer_of(settings).init(params), jnp.zeros((), jnp.int32)


def _loss(params, score, rows):
    """Cross-entropy of the reference's actions, per token; rows [N, 1, T]."""
    log_probs, _ = score(
        params, rows.tokens[:, 0], rows.token_mask[:, 0], temperature=1.0
    )
    return -masked_mean(log_probs, rows.action_mask[:, 0]).over()
