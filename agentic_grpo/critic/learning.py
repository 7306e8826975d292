"""How a critic learns, and what is reported of it.

It learns from settled members alone: an episode enters the memory when its verdict is
served, and some optimizer steps a tick are taken on draws from it. A forecast is asked
for before that, so that the critic that is measured has not learnt from what it is
measured on (progressive validation).
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax

from agentic_grpo import blocks, records
from agentic_grpo.critic import memory as memory_lib
from agentic_grpo.critic.memory import Memory
from agentic_grpo.critic.network import Critic, Prefix
from agentic_grpo.errors import require
from agentic_grpo.ops.reductions import Mean, masked, masked_mean, sum_over_devices

#: How many bins the report of forecasts against verdicts has.
NUM_BINS = 10

#: Sets the keys of draws apart from all others that are folded from the run's key.
_STREAM = 0x637269


@dataclasses.dataclass(frozen=True, kw_only=True)
class CriticSettings:
    """A critic and how it learns. Static.

    Attributes:
      network: what forecasts.
      num_stages: S.
      capacity: M, settled episodes that each block remembers.
      batch_size: episodes of each block in a step.
      steps: optimizer steps per tick.
      learning_rate: of Adam.
    """

    network: Critic
    num_stages: int
    capacity: int = 512
    batch_size: int = 64
    steps: int = 2
    learning_rate: float = 2e-3

    def __post_init__(self):
        for name in ("num_stages", "capacity", "batch_size", "steps"):
            value = getattr(self, name)
            require(value >= 1, name, value, "at least 1")
        rate = self.learning_rate
        require(0.0 < rate < 1.0, "learning_rate", rate, "between 0 and 1")

    @property
    def optimizer(self) -> optax.GradientTransformation:
        return optax.chain(
            optax.clip_by_global_norm(1.0), optax.adam(self.learning_rate)
        )


@records.record
class CriticState:
    """What a critic has learnt; equal on all devices.

    Attributes:
      params: of the network.
      optimizer_state: of Adam.
      episodes: int32 []; settled episodes that it has been taught with; 0: it knows
        nothing, and its forecasts are not to be used.
      skipped: int32 []; steps left out because something was not finite.
    """

    params: Any
    optimizer_state: Any
    episodes: jax.Array
    skipped: jax.Array


def init(settings: CriticSettings, key) -> CriticState:
    """A critic that has seen nothing."""
    params = settings.network.init(jax.random.fold_in(key, _STREAM))
    return CriticState(
        params=params,
        optimizer_state=settings.optimizer.init(params),
        episodes=jnp.zeros((), jnp.int32),
        skipped=jnp.zeros((), jnp.int32),
    )


def init_memory(settings: CriticSettings, policy_params, layout) -> Memory:
    """The empty memory of one block."""
    nothing = Prefix(
        tokens=jnp.zeros((1, layout.num_columns), jnp.int32),
        token_mask=jnp.zeros((1, layout.num_columns), bool),
        reward=jnp.zeros((1, layout.num_stages), jnp.float32),
        reward_mask=jnp.zeros((1, layout.num_stages), bool),
    )
    examples = jax.eval_shape(settings.network.observe, policy_params, nothing)
    return memory_lib.init(
        examples, capacity=settings.capacity, num_stages=layout.num_stages
    )


def forecast(settings: CriticSettings, state: CriticState, policy_params, prefix):
    """Forecasts of N episodes from the end of each stage.

    Returns:
      (examples, to be remembered; float32 [N, S] in [0, 1]; bool []: has it learnt
      anything yet, so that the forecasts mean something).
    """
    examples = settings.network.observe(policy_params, prefix)
    logits = settings.network.forecast(state.params, examples)
    return examples, jax.nn.sigmoid(logits), state.episodes > 0


def learn(
    settings: CriticSettings,
    state: CriticState,
    memory: Memory,
    examples,
    verdict,
    known,
    *,
    key,
    tick,
    first_block=0,
    axis_name=None,
):
    """Remembers what has settled and takes some steps on what is remembered.

    The loss is the binary cross-entropy of the verdict, a number in [0, 1], averaged
    over stages of episodes: -y log p - (1 - y) log(1 - p).

    Args:
      settings: static.
      state: of the critic.
      memory: leading axis B.
      examples: leading axes [B, N].
      verdict: float [B, N].
      known: bool [B, N, S]; see ``memory.put``.
      key: of the run.
      tick: int32 [].
      first_block: index of the first block here among all blocks of the run.
      axis_name: of the devices that hold other blocks.

    Returns:
      (state, memory, metrics).
    """
    memory = jax.vmap(memory_lib.put)(memory, examples, verdict, known)
    num_new = jnp.sum(jnp.any(known, axis=2), dtype=jnp.int32)
    state = dataclasses.replace(
        state, episodes=state.episodes + sum_over_devices(num_new, axis_name)
    )
    index = first_block + jnp.arange(verdict.shape[0], dtype=jnp.int32)
    tick_key = jax.random.fold_in(jax.random.fold_in(key, _STREAM), tick)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(tick_key, index)

    def step(carry, number):
        state, skipped = carry
        step_keys = jax.vmap(jax.random.fold_in, (0, None))(keys, number)
        drawn = jax.vmap(lambda m, k: memory_lib.draw(m, k, settings.batch_size))(
            memory, step_keys
        )
        state, loss, refused = _step(settings, state, *blocks.merge(drawn), axis_name)
        return (state, skipped + refused), loss

    numbers = jnp.arange(settings.steps, dtype=jnp.int32)
    (state, skipped), losses = jax.lax.scan(step, (state, jnp.int32(0)), numbers)
    state = dataclasses.replace(state, skipped=state.skipped + skipped)
    metrics = {
        "critic/loss": Mean(jnp.sum(losses.total), jnp.sum(losses.count)),
        "critic/episodes": state.episodes,
        "critic/steps_skipped": skipped,
    }
    return state, memory, metrics


def _step(settings, state, examples, verdict, known, axis_name):
    """(state after one step, loss as ``Mean``, int32: it was refused)."""

    def local_total(params):
        logits = settings.network.forecast(params, examples)
        losses = optax.sigmoid_binary_cross_entropy(
            logits, jnp.broadcast_to(verdict[:, None], logits.shape)
        )
        loss = masked_mean(losses, known)
        return loss.total, loss

    gradients, loss = jax.grad(local_total, has_aux=True)(state.params)
    gradients, loss = sum_over_devices((gradients, loss), axis_name)
    gradients = jax.tree.map(lambda g: g / jnp.maximum(loss.count, 1.0), gradients)
    updates, optimizer_state = settings.optimizer.update(
        gradients, state.optimizer_state, state.params
    )
    params = optax.apply_updates(state.params, updates)
    some = loss.count > 0
    finite = jnp.isfinite(optax.tree.norm(gradients)) & jnp.isfinite(loss.total)
    take = some & finite

    def choose(new, old):
        return jax.tree.map(lambda a, b: jnp.where(take, a, b), new, old)

    state = dataclasses.replace(
        state,
        params=choose(params, state.params),
        optimizer_state=choose(optimizer_state, state.optimizer_state),
    )
    loss = Mean(*(jnp.where(take, part, 0.0) for part in loss))
    return state, loss, (some & ~finite).astype(jnp.int32)


def report(forecasts, verdict, known, stage_names) -> dict[str, Mean]:
    """How good forecasts were, over members whose verdict is in.

    Args:
      forecasts: float [U, G, S]; made before anything was learnt from these members.
      verdict: float [U, G].
      known: bool [U, G, S].
      stage_names: of the S stages.

    Returns:
      dict of ``Mean``: ``critic/forecast/bin_k`` and ``critic/verdict/bin_k``, the mean
      of both where the forecast lies in [k / 10, (k + 1) / 10); and by stage
      ``critic/explained``: 1 - Σ (a_N - a_s)² / Σ a_N², the share of the verdicts'
      variance within groups that the forecast explains (a: centred in the group).
    """
    verdicts = jnp.broadcast_to(verdict[:, :, None], forecasts.shape)
    place = jnp.clip((forecasts * NUM_BINS).astype(jnp.int32), 0, NUM_BINS - 1)
    metrics = {}
    for number in range(NUM_BINS):
        here = known & (place == number)
        metrics[f"critic/forecast/bin_{number}"] = masked_mean(forecasts, here)
        metrics[f"critic/verdict/bin_{number}"] = masked_mean(verdicts, here)
    centred_forecast = _centred(forecasts, known)
    centred_verdict = _centred(verdicts, known)
    whole = centred_verdict**2
    left = (centred_verdict - centred_forecast) ** 2
    for stage, name in enumerate(stage_names):
        metrics[f"critic/explained/{name}"] = Mean(
            jnp.sum((whole - left)[..., stage]), jnp.sum(whole[..., stage])
        )
    return metrics


def _centred(values, known):
    mean = masked_mean(values, known, axis=1).over()
    return masked(values - mean[:, None, :], known)
