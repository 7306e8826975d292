"""Between the device's arrays and the host's words."""

import numpy as np

from agentic_grpo.envs import simulated_clock
from agentic_grpo.envs.host import Work
from agentic_grpo.training import tick
from agentic_grpo.training.real_clock.books import Group, Task, Ticket
from agentic_grpo.training.real_clock.pieces import Asked, News


def no_news(program: tick.Program) -> News:
    """NumPy arrays in which nothing has come."""
    blocks, lanes = program.num_blocks, program.rollout.num_lanes
    members = program.rollout.num_members
    per_member = (blocks, program.num_rows, members)
    spec = program.environment.spec
    return News(
        answered=np.zeros((blocks, lanes), bool),
        answers=simulated_clock.no_answers(spec, (blocks, lanes, members)),
        judged=np.zeros((blocks, program.num_rows), bool),
        verdict=np.zeros(per_member, np.float32),
        verdict_mask=np.zeros(per_member, bool),
        solved=np.zeros(per_member, bool),
        lost=np.zeros(per_member, bool),
    )


def news_of(program: tick.Program, stages, verdicts) -> News:
    """What is heard when these are closed.

    Args:
      program: of the run.
      stages: what ``Books.close_stage`` gave.
      verdicts: {(block, row): what ``Books.close_verdicts`` gave}.
    """
    news = no_news(program)
    for closed in stages:
        block, lane = closed.group.block, closed.group.lane
        news.answered[block, lane] = True
        for member, task in closed.tasks.items():
            simulated_clock.enter(news.answers, (block, lane, member), task.stage)
    for (block, row), tasks in verdicts.items():
        news.judged[block, row] = True
        for member, task in tasks.items():
            _enter_verdict(news, (block, row, member), task)
    return news


def _enter_verdict(news, place, task: Task):
    """Who is late has no verdict; whom we failed is lost to the group."""
    if task.verdict is None:
        return
    if task.verdict.is_fault:
        news.lost[place] = True
        return
    news.verdict[place] = task.verdict.verdict
    news.verdict_mask[place] = True
    news.solved[place] = task.verdict.solved


def groups_of(asked: Asked, *, tick: int, num_lanes: int) -> list[Group]:
    """The groups that wrote in a tick, each member's work with its ticket."""
    num_blocks, slots = asked.lane.shape
    num_stages = asked.length.shape[-1]
    groups = []
    for block, slot in np.ndindex(num_blocks, slots):
        lane, index = int(asked.lane[block, slot]), block * slots + slot
        if lane == num_lanes:
            continue
        stage = int(asked.stage[index])
        works = {}
        for member in np.flatnonzero(asked.acting[index]).tolist():
            works[member] = Work(
                ticket=Ticket(tick, block, lane, member),
                problem=int(asked.problem[index]),
                actions=simulated_clock.actions_of(
                    asked.written[index, member],
                    asked.length[index, member],
                    stage + 1,
                ),
            )
        groups.append(
            Group(
                block=block,
                lane=lane,
                row=int(asked.row[block, slot]),
                is_last=stage == num_stages - 1,
                works=works,
            )
        )
    return groups
