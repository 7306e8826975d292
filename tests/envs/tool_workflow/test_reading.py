"""What people read of a state says what is in it."""

import jax

from agentic_grpo.envs.tool_workflow import reading
from agentic_grpo.envs.tool_workflow.tools import ABSENT, REFUSED, Tool


def test_calls_are_spelled_as_they_are_written():
    assert reading.spell_call((Tool.SCALE, 1, 3)) == "scale b 3"
    assert reading.spell_call((Tool.SORT, 0, 3)) == "sort a d"
    assert reading.spell_call((REFUSED, 0, 0)) == "(refused)"
    assert reading.spell_call((ABSENT, 0, 0)) == "(none)"


def test_a_solved_episode_is_described(played):
    state = played.begin()
    environment = played.environment
    right = environment.describe_problem(state, 0)[0]
    result = played.drafted(state)
    part = played.right_part(state, 0)[0].split()
    spelled = f"{' '.join(part[:3])}, {' '.join(part[3:])}"
    assert played.right_route(state)[0] in right and spelled in right
    lines = environment.describe_member(jax.device_get(result.state), 0, 1)
    assert f"part1: {spelled}" in lines
    assert any(line.startswith("checks 1 2 3 4: [") for line in lines)
    result = played.write(result.state, "check", "0 0")
    result = played.write(result.state, "revise", "submit")
    lines = environment.describe_member(result.state, 0, 1)
    assert lines[-1] == "audit: 4 of 4 right, budget held"


def test_an_unfinished_draft_says_that_it_was_completed(played):
    result = played.write(played.begin(), "plan", "cache")
    lines = played.environment.describe_member(result.state, 0, 0)
    assert lines[0] == "reads from cache"
    assert any("once completed" in line for line in lines)


def test_any_id_can_be_spelled(played):
    assert played.environment.spell([4, 0, -3, 9999]) == "0 <-3> <9999>"
