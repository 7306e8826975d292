"""One tick: lanes write a stage, ready rows are credited, the learner takes one step.

The tick composes rollout, credit and learner into one pure function of one record, the
whole state of a run: ``learn`` after ``generate``. It is compiled once and scanned;
nothing in it reads the host.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from agentic_grpo import blocks, episodes, learner, records, rollout, snapshots
from agentic_grpo.critic import learning as critic_learning
from agentic_grpo.critic.learning import CriticSettings
from agentic_grpo.lanes import Lanes, RolloutSettings, init_lanes
from agentic_grpo.models.base import Policy
from agentic_grpo.ops import credit as credit_ops
from agentic_grpo.ops.reductions import sum_over_devices
from agentic_grpo.training import refusals, serving, teaching


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """Everything static about a run: what the tick is made of.

    Attributes:
      environment: an ``envs.base.Environment``.
      policy: samples and scores.
      credit_rule: an ``ops.credit.CreditRule``.
      optimizer: an optax transformation of unit learning rate.
      schedule: tick -> learning rate.
      rollout: sizes and deadlines of generation.
      learner: the loss.
      num_blocks: B of the whole run.
      num_rows: R per block.
      update_slots: U, rows per block that the learner serves per tick.
      max_age: learner steps after which a stage is too old to be trained on.
      passes: optimizer steps per tick over the same rows.
      exclude_zero_variance: leave tokens of groups that nothing tells apart out of the
        loss's counts, of KL and of entropy.
      anchor_after_immediate: take the anchor of the correction's ratio anew after the
        immediate update (one more forward pass per tick).
      critic: how a critic forecasts and learns; None: there is none.
      pilot_groups: groups that the base policy plays to their verdicts before the first
        step; they teach the credit rule and the critic, and are not trained on.
    """

    environment: Any
    policy: Policy
    credit_rule: credit_ops.CreditRule
    optimizer: optax.GradientTransformation
    schedule: Callable[[jax.Array], jax.Array]
    rollout: RolloutSettings
    learner: learner.LearnerSettings
    num_blocks: int
    num_rows: int
    update_slots: int
    max_age: int
    passes: int = 1
    exclude_zero_variance: bool = False
    anchor_after_immediate: bool = False
    critic: CriticSettings | None = None
    pilot_groups: int = 0


@records.record
class TrainState:
    """The whole state of a run, saved as one.

    Attributes:
      learner: parameters and optimizer.
      table: snapshots, leading axes [B, R].
      lanes: generating lanes, leading axes [B, P].
      credit: the credit rule's running moments.
      critic: ``critic.learning.CriticState``; None without a critic.
      memory: ``critic.memory.Memory``, leading axis B; None without a critic.
      pilot_settled: int32 []; groups of the pilot whose verdict is in.
      pilot_ticks: int32 []; ticks that the pilot took; the schedule starts after them.
      key: typed key of the run; never advanced, folded with the tick.
      tick: int32 [].
    """

    learner: learner.LearnerState
    table: snapshots.SnapshotTable
    lanes: Lanes
    credit: Any
    critic: Any
    memory: Any
    pilot_settled: jax.Array
    pilot_ticks: jax.Array
    key: jax.Array
    tick: jax.Array


#: The fields of a state whose leading axis is the block: what devices divide.
PER_BLOCK = ("table", "lanes", "memory")


def init(program: Program, params, key) -> TrainState:
    """The state before the first tick: empty table, vacant lanes.

    Args:
      program: static.
      params: of the policy; or the pair (frozen, trained).
      key: typed; of the run.
    """
    table = snapshots.init(
        program.environment.spec.layout,
        num_rows=program.num_rows,
        num_members=program.rollout.num_members,
    )
    lanes = init_lanes(program.environment, program.rollout)

    def per_block(tree):
        return jax.tree.map(lambda x: jnp.stack([x] * program.num_blocks), tree)

    critic, memory = None, None
    if program.critic is not None:
        critic = critic_learning.init(program.critic, key)
        memory = per_block(
            critic_learning.init_memory(
                program.critic, params, program.environment.spec.layout
            )
        )
    return TrainState(
        learner=learner.init(
            params,
            program.optimizer,
            with_reference=program.learner.kl_weight != 0.0,
        ),
        table=per_block(table),
        lanes=per_block(lanes),
        credit=program.credit_rule.init(),
        critic=critic,
        memory=memory,
        pilot_settled=jnp.zeros((), jnp.int32),
        pilot_ticks=jnp.zeros((), jnp.int32),
        key=key,
        tick=jnp.zeros((), jnp.int32),
    )


def run_ticks(
    program: Program,
    state: TrainState,
    *,
    num_ticks,
    axis_name=None,
    keep_refused=False,
):
    """Scans ``num_ticks`` ticks.

    Returns:
      (state, metrics with a leading axis [num_ticks]); with ``keep_refused`` also the
      ``refusals.Refused`` of these ticks.
    """

    def body(carry, _):
        state, kept = carry
        after, metrics, batch = _tick(program, state, axis_name)
        if keep_refused:
            kept = refusals.newest(kept, state, metrics, batch)
        return (after, kept), metrics

    none = None
    if keep_refused:
        none = nothing_refused(program, state, axis_name=axis_name)
    (state, kept), metrics = jax.lax.scan(body, (state, none), length=num_ticks)
    return (state, metrics, kept) if keep_refused else (state, metrics)


def nothing_refused(
    program: Program, state: TrainState, *, axis_name=None
) -> refusals.Refused:
    """What is kept before any batch was refused."""
    batch = jax.eval_shape(
        lambda state: learn(program, state, axis_name=axis_name)[2], state
    )
    return refusals.nothing(batch)


def tick(program: Program, state: TrainState, *, axis_name=None):
    """One tick of the simulated clock.

    Args:
      program: static.
      state: the run; under ``axis_name`` the table and the lanes hold this device's
        share of the blocks, everything else is equal on all devices.
      axis_name: of the devices, under pmap or shard_map.

    Returns:
      (state, metrics: dict of ``Mean`` (sums and counts) and of scalars).
    """
    state, metrics, _ = _tick(program, state, axis_name)
    return state, metrics


def _tick(program, state, axis_name):
    """As ``tick``, and the batch that the learner saw."""
    state, written = generate(program, state, axis_name=axis_name)
    state, learnt, batch = learn(program, state, axis_name=axis_name)
    return state, written | learnt, batch


def generate(program: Program, state: TrainState, *, axis_name=None):
    """The first half of a tick: lanes write a stage each and hear what came of it.

    Arguments as of ``tick``.

    Returns:
      (state with table and lanes moved on, metrics).
    """
    num_blocks = state.table.occupied.shape[0]
    act = episodes.sample_with(
        program.policy,
        state.learner.policy_params,
        temperature=program.rollout.temperature,
    )
    table, lanes, metrics = rollout.advance(
        state.table,
        state.lanes,
        act,
        program.environment,
        program.rollout,
        tick=state.tick,
        learner_step=state.learner.step,
        key=state.key,
        first_block=blocks.first_here(num_blocks, axis_name),
    )
    state = dataclasses.replace(state, table=table, lanes=lanes)
    return state, sum_over_devices(metrics, axis_name)


def learn(program: Program, state: TrainState, *, axis_name=None):
    """The second half: what is ready is credited, one step is taken, the clock ticks.

    Arguments as of ``tick``.

    Returns:
      (state, metrics, the ``learner.Batch`` that was served).
    """
    in_pilot = state.pilot_settled < program.pilot_groups
    table, served = serving.serve(
        program,
        state.table,
        state.credit,
        tick=state.tick,
        step=state.learner.step,
        forecaster=teaching.forecaster_of(program, state),
        in_pilot=in_pilot,
        axis_name=axis_name,
    )
    learning_rate = program.schedule(state.tick - state.pilot_ticks)
    new_learner, accepted, learner_metrics = learner.take_steps(
        program.passes,
        state.learner,
        served.batch,
        program.policy.score,
        program.optimizer,
        program.learner,
        learning_rate=learning_rate,
        axis_name=axis_name,
        packed=program.policy.packed,
    )
    if program.anchor_after_immediate:
        table = serving.move_anchor(
            program, table, served, new_learner.policy_params, accepted
        )
    table, credit_state, booked = serving.settle(
        program, table, served, state.credit, accepted, in_pilot=in_pilot
    )
    state, taught = teaching.teach_critic(
        program, state, served, accepted, axis_name=axis_name
    )
    settled = jnp.sum(served.events.ready[:, -1], dtype=jnp.int32)
    state = dataclasses.replace(
        state,
        learner=new_learner,
        table=table,
        credit=credit_state,
        pilot_settled=state.pilot_settled
        + in_pilot * sum_over_devices(settled, axis_name),
        pilot_ticks=state.pilot_ticks + in_pilot,
        tick=state.tick + 1,
    )
    metrics = sum_over_devices(served.metrics | booked, axis_name)
    metrics |= served.credit_metrics | learner_metrics | taught
    metrics["learning_rate"] = jnp.asarray(learning_rate, jnp.float32)
    metrics["pilot_ticks"] = state.pilot_ticks
    return state, metrics, served.batch
