"""The state in words, for people who look at an episode. On the host."""

import jax
import numpy as np

from agentic_grpo.envs.tool_workflow import judging, problems, tools, vocabulary
from agentic_grpo.envs.tool_workflow.config import ToolWorkflowConfig
from agentic_grpo.envs.tool_workflow.state import WorkflowState


def describe_problem(state: WorkflowState, lane: int) -> list[str]:
    """The right way, and what the checks look at."""
    problem = _lane(state, lane).problem
    chain = np.asarray(problems.reference(problem))[0]
    goal = np.asarray(problem.goal)[0]
    like = np.asarray(problem.hidden_like)[0]
    route = vocabulary.ROUTES[int(problem.moving[0])]
    lines = [f"right: {route}, {_draft(chain)}"]
    for checks, record in _records_looked_at(like):
        what = f"record {record}" if record else "the example"
        lines.append(f"{_numbered(checks)} at {what}: wants {goal[record]}")
    return lines


def describe_member(
    config: ToolWorkflowConfig, state: WorkflowState, lane: int, member: int
) -> list[str]:
    """Draft, expenses and results of one member after a stage."""
    state = _lane(state, lane)
    outcome = judging.judge(config, state.problem, state.members, state.members.ended)
    state, outcome = jax.device_get((state, outcome))
    problem, members = state.problem, state.members
    ended = members.ended[0, member]
    written = int(members.parts_written[0, member])
    results, goal = outcome.results[0, member], problem.goal[0]
    lines = [
        f"reads from {vocabulary.ROUTES[members.route[0, member]]}",
        *_parts(members.draft[0, member, :written]),
        f"cost {outcome.cost[0, member]} of budget {problem.budget[0]}",
    ]
    completed = "" if ended or written == config.num_parts else " once completed"
    for checks, record in _records_looked_at(problem.hidden_like[0]):
        passed = outcome.passed[0, member, checks[0]]
        found = "passed" if passed else f"failed, wants {goal[record]}"
        lines.append(f"{_numbered(checks)}{completed}: {results[record]} {found}")
    if ended:
        audited = slice(1 + config.num_checks, None)
        right = np.all(results[audited] == goal[audited], axis=-1)
        within = outcome.cost[0, member] <= problem.budget[0]
        held = "held" if within else "overspent"
        lines.append(f"audit: {right.sum()} of {right.size} right, budget {held}")
    return lines


def _records_looked_at(hidden_like) -> list[tuple[list[int], int]]:
    """(checks, the record that they look at): the example's first, if any."""
    of_example = [check for check, like in enumerate(hidden_like) if not like]
    others = [([check], 1 + check) for check, like in enumerate(hidden_like) if like]
    return [(of_example, 0), *others] if of_example else others


def _numbered(checks) -> str:
    """ "check 2", "checks 1 3 4"."""
    name = "check" if len(checks) == 1 else "checks"
    return " ".join([name, *(str(1 + check) for check in checks)])


def spell_call(call) -> str:
    """One call [3] as it is written; what is no call by what became of it."""
    tool, x, argument = map(int, call)
    if tool >= tools.REFUSED:
        return "(refused)" if tool == tools.REFUSED else "(none)"
    of_type = tools.SLOTS if tools.TAKES_SLOT[tool] else range(tools.NUM_DIGITS)
    return f"{tools.Tool(tool).name.lower()} {tools.SLOTS[x]} {of_type[argument]}"


def _parts(draft) -> list[str]:
    """One line for each part of a draft [P, 2, 3]."""
    return [
        f"part{1 + index}: " + ", ".join(map(spell_call, part))
        for index, part in enumerate(draft)
    ]


def _draft(draft) -> str:
    return "; ".join(", ".join(map(spell_call, part)) for part in draft)


def _lane(state, lane) -> WorkflowState:
    """The state of one lane, its leading axis kept."""
    return jax.tree.map(lambda x: x[lane : lane + 1], state)
