"""The desk of an agent in a contest: what it works on next, and what it hands in.

It knows what a contestant knows: which tests its own programs pass that it can see, and
the verdicts of what it has handed in, once they have come. The functions are of ONE
contest; the caller vmaps. Letters: Q problems, M submissions that a problem allows, P
lanes, D decode slots, R rows of the table, G members, L length of a program.

**What it works on.** A lane that is free takes the open problem with the fewest groups
so far for its weight: 1 for each (``round_robin``), or its level (``by_difficulty``, so
that hard problems get more of the budget). A problem is open until an accepted
submission is known, or none is left; those with a verdict under way come last.

**What it hands in.** When a group has ended, the programs of members that pass every
visible test, and every test of their own where the workflow has any, are candidates. It
hands in the one that most of them wrote, and so on up to ``per_group``; never a
program that the problem has seen, never more than M, and nothing while a verdict on the
problem is under way or an accepted one is known.
"""

import dataclasses

import jax
import jax.numpy as jnp

from agentic_grpo import records
from agentic_grpo.envs.code_execution.judging import TestStatus
from agentic_grpo.errors import require, require_choice
from agentic_grpo.records import NEVER

SCHEDULES = ("round_robin", "by_difficulty")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeskSettings:
    """Static rules of a contest and choices of the agent.

    Attributes:
      schedule: of ``SCHEDULES``.
      limit: M, submissions that a problem allows.
      per_group: programs of a group that are handed in together, at most.
    """

    schedule: str = "round_robin"
    limit: int = 6
    per_group: int = 2

    def __post_init__(self):
        require_choice("schedule", self.schedule, SCHEDULES)
        require(1 <= self.limit <= 64, "limit", self.limit, "in 1 .. 64")
        require(
            1 <= self.per_group <= self.limit,
            "per_group",
            self.per_group,
            f"in 1 .. limit={self.limit}",
        )


@records.record
class Desk:
    """What has been worked on and handed in; slots of submissions fill up in order.

    Attributes:
      problem: int32 [P]; what each lane works on.
      groups: int32 [Q]; groups that were started.
      count: int32 [Q]; submissions.
      program: int32 [Q, M, L]; what was handed in.
      tick: int32 [Q, M]; when; NEVER in slots that are empty.
      known_at: int32 [Q, M]; when its verdict comes; NEVER in slots that are empty.
      accepted: bool [Q, M]; the verdict. Nobody may look before ``known_at``.
      copies: int32 [Q, M]; members of the group that wrote it.
    """

    problem: jax.Array
    groups: jax.Array
    count: jax.Array
    program: jax.Array
    tick: jax.Array
    known_at: jax.Array
    accepted: jax.Array
    copies: jax.Array


def init(settings: DeskSettings, *, num_problems, num_lanes, program_width) -> Desk:
    """A desk before the first tick."""
    slots = (num_problems, settings.limit)
    return Desk(
        problem=jnp.zeros((num_lanes,), jnp.int32),
        groups=jnp.zeros((num_problems,), jnp.int32),
        count=jnp.zeros((num_problems,), jnp.int32),
        program=jnp.zeros((*slots, program_width), jnp.int32),
        tick=jnp.full(slots, NEVER, jnp.int32),
        known_at=jnp.full(slots, NEVER, jnp.int32),
        accepted=jnp.zeros(slots, bool),
        copies=jnp.zeros(slots, jnp.int32),
    )


def is_open(settings: DeskSettings, desk: Desk, tick) -> tuple[jax.Array, jax.Array]:
    """(open, waiting) bool [Q], by what is known at a tick."""
    is_in = desk.known_at <= tick
    solved = jnp.any(is_in & desk.accepted, axis=1)
    waiting = jnp.any((desk.tick != NEVER) & ~is_in, axis=1)
    return ~solved & ((desk.count < settings.limit) | waiting), waiting


def assign(settings: DeskSettings, desk: Desk, level, lane, starting, tick):
    """Gives every starting slot a problem.

    Args:
      settings: static.
      desk: of the contest.
      level: int32 [Q], from 0.
      lane: int32 [D]; lanes of the slots.
      starting: bool [D].
      tick: int32 [].

    Returns:
      (desk, problem int32 [D]).
    """
    weight = jnp.ones_like(level) if settings.schedule == "round_robin" else 1 + level
    open_now, waiting = is_open(settings, desk, tick)
    # three classes, whatever was spent: open, open but under way, done with
    order = jnp.where(open_now, jnp.where(waiting, 1, 0), 2)

    def take(groups, starts):
        share = groups.astype(jnp.float32) / weight.astype(jnp.float32)
        best = jnp.min(order)
        problem = jnp.argmin(jnp.where(order == best, share, jnp.inf)).astype(jnp.int32)
        return groups.at[problem].add(starts.astype(jnp.int32)), problem

    groups, problem = jax.lax.scan(take, desk.groups, starting)
    new = jnp.where(starting, problem, desk.problem[lane])
    return dataclasses.replace(
        desk, groups=groups, problem=desk.problem.at[lane].set(new)
    ), new


def hand_in(settings: DeskSettings, desk: Desk, table, lanes, lane, ended, tick):
    """Hands in programs of the groups that have just ended, and keeps the rest secret.

    A verdict that nobody asked for is struck from the rows: of members whose program
    was not handed in the table says nothing of the judge any more, and a group of which
    nothing was handed in has no verdict to wait for.

    Args:
      settings: static.
      desk: of the contest.
      table: ``SnapshotTable``, R rows.
      lanes: ``Lanes``, P; of the code-execution environment.
      lane: int32 [D]; lanes that wrote in this tick, without repetition.
      ended: bool [D]; the generation of their group ended with it.
      tick: int32 [].

    Returns:
      (desk, table).
    """
    members = lanes.problem.members

    def of_slot(desk, slot):
        index, has_ended = slot
        row = lanes.row[index]
        solved = table.verdict_mask[row] & table.solved[row]
        handed = jnp.zeros(solved.shape, bool)
        problem, program = desk.problem[index], members.program[index]
        may, waiting = is_open(settings, desk, tick)
        may = has_ended & may[problem] & ~waiting[problem]
        passes = _passes(members.visible_status[index], members.own_status[index])
        passes &= table.verdict_mask[row]
        for _ in range(settings.per_group):
            desk, which, taken = _hand_in_one(
                settings,
                desk,
                problem,
                program,
                passes & may,
                solved,
                tick=tick,
                known_at=table.ready_at[row, -1],
            )
            handed |= taken & (jnp.arange(solved.size) == which)
        return desk, handed

    desk, handed = jax.lax.scan(of_slot, desk, (lane, ended))
    num_rows = table.occupied.shape[0]
    rows = jnp.where(ended, lanes.row[lane], num_rows)
    old = table.verdict_mask.at[rows].get(mode="clip")
    judged = handed & old
    never = jnp.where(jnp.any(judged, axis=1), 0, NEVER)
    verdict_at = jnp.maximum(table.ready_at.at[rows, -1].get(mode="clip"), never)

    def put(field, value):
        return field.at[rows].set(value, mode="drop")

    verdict = table.verdict.at[rows].get(mode="clip")
    solved = table.solved.at[rows].get(mode="clip")
    return desk, dataclasses.replace(
        table,
        verdict_mask=put(table.verdict_mask, judged),
        verdict=put(table.verdict, jnp.where(judged, verdict, 0.0)),
        solved=put(table.solved, solved & judged),
        ready_at=table.ready_at.at[rows, -1].set(verdict_at, mode="drop"),
    )


def _passes(visible_status, own_status):
    """bool [G]: every visible test passes, and every valid test of one's own."""
    own = (own_status == TestStatus.PASSED) | (own_status == TestStatus.NOT_RUN)
    return jnp.all(visible_status == TestStatus.PASSED, axis=-1) & jnp.all(own, axis=-1)


def _hand_in_one(settings, desk, problem, program, passes, solved, *, tick, known_at):
    """Hands in the program that most members wrote, of those that may be.

    Returns:
      (desk, which member int32 [], whether there was one bool []).
    """
    equal = jnp.all(program[:, None] == program[None, :], axis=-1)
    filled = jnp.arange(settings.limit) < desk.count[problem]
    seen = jnp.all(program[:, None] == desk.program[problem][None, :], axis=-1)
    candidate = passes & ~jnp.any(seen & filled[None, :], axis=1)
    copies = jnp.sum(equal & passes[None, :], axis=1, dtype=jnp.int32)
    which = jnp.argmax(jnp.where(candidate, copies, 0)).astype(jnp.int32)
    count = desk.count[problem]
    taken = jnp.any(candidate) & (count < settings.limit)
    slot = jnp.where(taken, count, settings.limit)  # the last writes nothing

    def put(field, value):
        return field.at[problem, slot].set(value, mode="drop")

    return (
        dataclasses.replace(
            desk,
            count=desk.count.at[problem].add(taken.astype(jnp.int32)),
            program=put(desk.program, program[which]),
            tick=put(desk.tick, tick),
            known_at=put(desk.known_at, known_at),
            accepted=put(desk.accepted, solved[which]),
            copies=put(desk.copies, copies[which]),
        ),
        which,
        taken,
    )
