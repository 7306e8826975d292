"""Contests played by a policy, on the clock of training, with or without learning.

A contest is a block: its lanes work on its problems, G members to a lane, and the desk
says on which and what is handed in. Without learning all contests are blocks of one
program and share the parameters. With learning each contest is a run of its own: it
starts from the checkpoint, uses the same tick, rule and learner as training, and ends
with the contest; nothing goes back.

What a learning contestant is told: the rewards of its stages, which come from visible
tests and its own, and the verdicts of what it handed in. A member whose program was not
handed in keeps the credit that its stages earned at once: no verdict will ever correct
it. So the immediate phase teaches on everything, the few verdicts correct.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from agentic_grpo import blocks, episodes, rollout
from agentic_grpo.envs import base
from agentic_grpo.lanes import choose_lanes
from agentic_grpo.training import tick as tick_lib
from experiments.contests import desk as desk_lib
from experiments.contests.desk import Desk, DeskSettings


class FixedProblems:
    """An environment that starts the problems that it is given; else as another.

    Args:
      environment: an ``envs.base.Environment``.
      start: ``Start`` of the problems, one for each key that ``start`` will be given.
    """

    def __init__(self, environment, start: base.Start):
        self.spec, self.step = environment.spec, environment.step
        self._start = start

    def start(self, keys, *, split, num_members) -> base.Start:
        del keys, split, num_members
        return self._start


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contestant:
    """A policy that competes.

    Attributes:
      name: in the standings.
      program: a ``tick.Program`` of one block, with the budget of the contest: every
        tick its D decode slots write a stage of a group of G members each.
      state: a ``tick.TrainState`` of it: what the checkpoint knows.
    """

    name: str
    program: tick_lib.Program
    state: tick_lib.TrainState


def play(
    contestant: Contestant,
    problems: base.Start,
    key,
    settings: DeskSettings,
    *,
    num_ticks: int,
    adapts: bool,
    at_once: int = 1,
) -> Desk:
    """Plays C contests.

    Args:
      contestant: who.
      problems: ``Start`` [C, Q].
      key: of all contests; equal keys draw equally, whoever plays.
      settings: of the desk.
      num_ticks: T of the clock.
      adapts: whether it learns; each contest from ``contestant.state``.
      at_once: contests that learn side by side (vmap); 1 for few cores.

    Returns:
      ``Desk`` with the leading axis C, on the host, as it stands after the last tick.
    """
    program = contestant.program

    @jax.jit
    def one_by_one(state, problems, contests):
        def of_contest(these):
            own, contest = these
            own = jax.tree.map(lambda leaf: leaf[None], own)
            end, _ = run(
                program,
                fresh(program, state, jax.random.fold_in(key, contest)),
                own,
                key,
                settings,
                num_ticks=num_ticks,
                first_contest=contest,
                adapts=True,
            )
            return jax.tree.map(lambda leaf: leaf[0], end)

        size = None if at_once == 1 else at_once
        return jax.lax.map(of_contest, (problems, contests), batch_size=size)

    @jax.jit
    def together(state, problems, contests):
        whole = dataclasses.replace(program, num_blocks=contests.size)
        end, _ = run(
            whole,
            fresh(whole, state, key),
            problems,
            key,
            settings,
            num_ticks=num_ticks,
            first_contest=0,
            adapts=False,
        )
        return end

    contests = jnp.arange(len(problems.level), dtype=jnp.int32)
    chosen = one_by_one if adapts else together
    return jax.device_get(chosen(contestant.state, problems, contests))


def fresh(program, state, key) -> tick_lib.TrainState:
    """A run that begins with what a state knows: nothing in flight, tick 0."""
    new = tick_lib.init(program, state.learner.policy_params, key)
    return dataclasses.replace(
        new, learner=state.learner, credit=state.credit, critic=state.critic
    )


def run(
    program,
    state,
    problems: base.Start,
    key,
    settings: DeskSettings,
    *,
    num_ticks: int,
    first_contest,
    adapts: bool,
) -> tuple[Desk, Any]:
    """Runs the clock of B contests from its start to its end.

    Args:
      program: a ``tick.Program`` of B blocks; B = 1 where it adapts.
      state: a fresh ``tick.TrainState`` of it.
      problems: ``Start`` [B, Q].
      key: of all contests.
      settings: of the desk.
      num_ticks: T.
      first_contest: int32 []; number of the first of them.
      adapts: whether the learner takes its steps.

    Returns:
      (``Desk`` [B], the state at the end).
    """
    num_contests, num_problems = problems.level.shape
    desk = desk_lib.init(
        settings,
        num_problems=num_problems,
        num_lanes=program.rollout.num_lanes,
        program_width=problems.state.members.program.shape[-1],
    )
    desk = jax.tree.map(lambda x: jnp.stack([x] * num_contests), desk)

    def body(carry, _):
        return _tick(
            program, *carry, problems, key, settings, first_contest, adapts
        ), None

    (desk, state), _ = jax.lax.scan(body, (desk, state), length=num_ticks)
    return desk, state


def _tick(program, desk, state, problems, key, settings, first_contest, adapts):
    """One tick of B contests: stages, what is handed in, a step of the learner."""
    choose = functools.partial(
        choose_lanes, tick=state.tick, num_slots=program.rollout.decode_slots
    )
    lane, _, starting, working, _ = jax.vmap(choose)(state.table, state.lanes)
    assign = functools.partial(desk_lib.assign, settings, tick=state.tick)
    desk, problem = jax.vmap(assign)(desk, problems.level, lane, starting)
    environment = FixedProblems(
        program.environment, blocks.merge(jax.vmap(_take)(problems, problem))
    )
    act = episodes.sample_with(
        program.policy,
        state.learner.policy_params,
        temperature=program.rollout.temperature,
    )
    table, lanes, _ = rollout.advance(
        state.table,
        state.lanes,
        act,
        environment,
        program.rollout,
        tick=state.tick,
        learner_step=state.learner.step,
        key=key,
        first_block=first_contest,
    )
    ended = jax.vmap(_take)(lanes.vacant, lane) & working
    hand_in = functools.partial(desk_lib.hand_in, settings, tick=state.tick)
    desk, table = jax.vmap(hand_in)(desk, table, lanes, lane, ended)
    state = dataclasses.replace(state, table=_close_books(table), lanes=lanes)
    if adapts:
        state, _, _ = tick_lib.learn(program, state)
        return desk, state
    table = dataclasses.replace(
        state.table, occupied=state.table.occupied & state.table.generating
    )
    return desk, dataclasses.replace(state, table=table, tick=state.tick + 1)


def _close_books(table):
    """Of members whom no verdict will correct nothing is to be taken back."""
    judged = (table.generating[..., None] | table.verdict_mask)[..., None]
    return dataclasses.replace(
        table,
        applied_advantage=jnp.where(judged, table.applied_advantage, 0.0),
        paid=table.paid & judged,
    )


def _take(tree, index):
    return jax.tree.map(lambda leaf: leaf[index], tree)
