"""The tick in three parts, with the host between them; each is compiled once.

``hear`` enters what has arrived, ``write`` has the lanes write a stage each, ``learn``
is that of ``training.tick``. Lanes and verdicts that wait for the host stand at the
tick ``records.AWAITED``. Letters: B blocks of P lanes and R rows, G members.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo import blocks, episodes, records, rollout, rollout_metrics, snapshots
from agentic_grpo.envs import base
from agentic_grpo.lanes import choose_lanes
from agentic_grpo.ops.reductions import count, masked_mean
from agentic_grpo.records import AWAITED, NEVER, EndReason
from agentic_grpo.training import refusals, serving, tick
from agentic_grpo.training.devices import Layout


@records.record
class News:
    """What a tick hears. Entries of lanes and rows that are not named are ignored.

    Attributes:
      answered: bool [B, P]; lanes whose stage is over.
      answers: of ``simulated_clock.answers_of``, [B, P, G, ...]; a member who was given
        up has ended as FAULT.
      judged: bool [B, R]; rows whose verdicts are in, or given up.
      verdict, verdict_mask, solved: float32, bool, bool [B, R, G].
      lost: bool [B, R, G]; members whose verdict we could not give.
    """

    answered: np.ndarray
    answers: dict
    judged: np.ndarray
    verdict: np.ndarray
    verdict_mask: np.ndarray
    solved: np.ndarray
    lost: np.ndarray


@records.record
class Asked:
    """What a tick has written: D slots per block, N = B * D.

    Attributes:
      lane, row: int32 [B, D]; P and R where a slot stayed empty.
      stage: int32 [N].
      acting: bool [N, G].
      problem: int32 [N].
      written: int32 [N, G, S, A]; the actions of each stage so far.
      length: int32 [N, G, S].
    """

    lane: jax.Array
    row: jax.Array
    stage: jax.Array
    acting: jax.Array
    problem: jax.Array
    written: jax.Array
    length: jax.Array


@records.record
class Outlook:
    """What can be done in the next tick without any news.

    Attributes:
      can_write: bool []; a lane is free to write, and has a row.
      can_learn: bool []; something is ready to be served.
    """

    can_write: jax.Array
    can_learn: jax.Array


def hear(program: tick.Program, state: tick.TrainState, news: News):
    """Enters stages and verdicts: their events are ready in this tick.

    Returns:
      (state, metrics as of ``rollout.advance``, for what has come).
    """
    table, lanes, told = _enter_stages(program, state, news)
    over = state.table.generating & ~table.generating
    table, judged = _enter_verdicts(table, over, news, state)
    judged["rewards_refused"] += told["rewards_refused"]
    return dataclasses.replace(state, table=table, lanes=lanes), told | judged


def write(program: tick.Program, state: tick.TrainState, may_write):
    """Lanes that can write a stage do, unless the queue is full (``may_write`` []).

    Returns:
      (state, metrics, ``Asked``).
    """
    act = episodes.sample_with(
        program.policy,
        state.learner.policy_params,
        temperature=program.rollout.temperature,
    )
    free = jnp.where(may_write, state.lanes.ready_at, NEVER)
    written, metrics = rollout.begin(
        state.table,
        dataclasses.replace(state.lanes, ready_at=free),
        act,
        program.environment,
        program.rollout,
        tick=state.tick,
        key=state.key,
    )
    problem = program.environment.write(
        written.lanes.problem,
        written.lanes.stage,
        written.tokens,
        written.mask,
        written.acting,
    )
    table, lanes = rollout.hold(
        state.table,
        state.lanes,
        written,
        problem,
        learner_step=state.learner.step,
    )
    asked = Asked(
        lane=written.lane,
        row=written.row,
        stage=written.lanes.stage,
        acting=written.acting,
        problem=problem.problem,
        written=problem.written,
        length=problem.length,
    )
    return dataclasses.replace(state, table=table, lanes=lanes), metrics, asked


def learn(program: tick.Program, state: tick.TrainState, kept: refusals.Refused):
    """``tick.learn``, what it refused, and what the next tick finds.

    Returns:
      (state, metrics, ``refusals.Refused``, ``Outlook``).
    """
    after, metrics, batch = tick.learn(program, state)
    kept = refusals.newest(kept, state, metrics, batch)
    return after, metrics, kept, look_ahead(program, after)


def look_ahead(program: tick.Program, state: tick.TrainState) -> Outlook:
    """What this state's tick can do by itself."""
    choose = functools.partial(
        choose_lanes, tick=state.tick, num_slots=program.rollout.decode_slots
    )
    working = jax.vmap(choose)(state.table, state.lanes)[3]
    event_mask = serving.events_served(
        program, state.pilot_settled < program.pilot_groups
    )
    pending = jax.vmap(lambda table: snapshots.pending(table, event_mask))(state.table)
    ready = pending & (state.table.ready_at <= state.tick)
    return Outlook(can_write=jnp.any(working), can_learn=jnp.any(ready))


@dataclasses.dataclass(frozen=True)
class Compiled:
    """The parts, compiled for one program and layout; states are donated.

    Attributes:
      hear, write, learn: as the functions of this module, without the program.
      look_ahead: the same.
      nothing_refused: () -> ``refusals.Refused``.
      place: puts NumPy arrays where the parts want them.
    """

    hear: jax.stages.Compiled
    write: jax.stages.Compiled
    learn: jax.stages.Compiled
    look_ahead: jax.stages.Compiled
    nothing_refused: jax.stages.Compiled
    place: object


def compile_pieces(
    layout: Layout, program: tick.Program, state: tick.TrainState, news: News
) -> Compiled:
    """Compiles the parts ahead of time.

    Args:
      layout: where the state lies; of one device.
      program: what the tick is made of.
      state: a ``TrainState``, or its shapes.
      news: of the right shapes.
    """
    target = layout.abstract(state)
    shardings, everywhere = layout.shardings(target), layout.everywhere

    def place(tree):
        return jax.device_put(tree, everywhere)

    def shapes(tree):
        def shape(x):
            return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=everywhere)

        return jax.tree.map(shape, tree)

    def compiled(part, outputs, *arguments, donate=()):
        run = functools.partial(part, program)
        jitted = jax.jit(run, out_shardings=outputs, donate_argnums=donate)
        return jitted.lower(*arguments).compile()

    none = functools.partial(tick.nothing_refused, program)
    kept = shapes(jax.eval_shape(none, target))
    may_write = jax.ShapeDtypeStruct((), jnp.bool_, sharding=everywhere)
    after = (shardings, everywhere)
    return Compiled(
        hear=compiled(hear, after, target, shapes(news), donate=0),
        write=compiled(write, (*after, everywhere), target, may_write, donate=0),
        learn=compiled(
            learn, (*after, everywhere, everywhere), target, kept, donate=(0, 1)
        ),
        look_ahead=compiled(look_ahead, everywhere, target),
        nothing_refused=compiled(tick.nothing_refused, everywhere, target),
        place=place,
    )


def _enter_stages(program, state, news):
    """Finishes the stages of lanes that were answered, as of the tick before.

    So their lanes can write in this very tick, and their rewards are ready in it.
    """
    environment, layout = program.environment, program.environment.spec.layout
    waiting = rollout.unanswered(state.table, state.lanes, news.answered)
    acting, stage = waiting.acting, waiting.lanes.stage
    one_tick = jnp.ones(acting.shape, jnp.int32)
    result = environment.result(
        waiting.lanes.problem,
        acting,
        blocks.merge(news.answers),
        latency=one_tick,
        verdict_latency=one_tick,
    )
    table, lanes, told = rollout.finish(
        state.table,
        state.lanes,
        waiting,
        result,
        layout,
        # deadlines are in seconds; and no verdict comes with a stage: all are too late
        dataclasses.replace(program.rollout, stage_deadline=NEVER, verdict_deadline=0),
        tick=state.tick - 1,
        learner_step=waiting.rows.version,
    )
    no_time = dataclasses.replace(
        result,
        latency=jnp.zeros_like(one_tick),
        verdict_latency=one_tick * environment.spec.min_verdict_latency,
    )
    told |= rollout_metrics.of_contract(environment.spec, no_time, stage, acting)
    version = jnp.take_along_axis(waiting.rows.version, stage[:, None], axis=1)[:, 0]
    told["clock/lag_steps_of_stages"] = _mean_lag(state, version, waiting.working)
    return table, lanes, told


def _enter_verdicts(table, over, news, state):
    """Rows that are ``over`` [B, R] await their verdict, unless it has come."""
    legal = base.is_legal_reward(news.verdict)
    known = news.judged[..., None] & news.verdict_mask
    entered = known & legal
    lost = news.judged[..., None] & news.lost
    ready_at = jnp.where(over, AWAITED, table.ready_at[..., -1])
    ready_at = jnp.where(news.judged, state.tick, ready_at)
    youngest = jnp.max(
        jnp.where(jnp.any(table.acted, axis=2), table.version, 0), axis=-1
    )
    metrics = {
        "verdict": masked_mean(news.verdict, entered),
        "solved": masked_mean(news.solved.astype(jnp.float32), known),
        "rewards_refused": count(known & ~legal),
        "clock/lag_steps_of_verdicts": _mean_lag(state, youngest, news.judged),
    }
    table = dataclasses.replace(
        table,
        verdict=jnp.where(entered, news.verdict, table.verdict),
        verdict_mask=table.verdict_mask | entered,
        solved=table.solved | (entered & news.solved),
        end_reason=jnp.where(lost, EndReason.FAULT, table.end_reason),
        ready_at=table.ready_at.at[..., -1].set(ready_at),
    )
    return table, metrics


def _mean_lag(state, version, mask):
    return masked_mean((state.learner.step - version).astype(jnp.float32), mask)
