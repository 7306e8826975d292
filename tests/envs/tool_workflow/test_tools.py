"""Each tool by hand, chains against a slow reference, and costs."""

import numpy as np
import pytest

from agentic_grpo.envs.tool_workflow import tools
from agentic_grpo.envs.tool_workflow.tools import ABSENT, REFUSED, Tool

RECORD = [7, 2, 9, 4]


def slow_apply(record, tool, x, argument):
    """What the docstring of ``Tool`` says, on one record."""
    record = list(record)
    if tool == Tool.SET:
        record[x] = argument
    elif tool == Tool.ADD:
        record[x] = (record[x] + argument) % 10
    elif tool == Tool.SCALE:
        record[x] = record[x] * argument % 10
    elif tool == Tool.SWAP:
        record[x], record[argument] = record[argument], record[x]
    elif tool == Tool.COPY:
        record[x] = record[argument]
    elif tool == Tool.MIX:
        record[x] = (record[x] + record[argument]) % 10
    elif tool == Tool.SORT and x != argument:
        pair = sorted([record[x], record[argument]])
        record[x], record[argument] = pair
    return record


def run(calls, record):
    calls = np.array(calls, np.int32).reshape(1, -1, 3)
    return tools.run(calls, np.array([[record]], np.int32))[0, 0].tolist()


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ((Tool.SET, 0, 3), [3, 2, 9, 4]),
        ((Tool.ADD, 0, 5), [2, 2, 9, 4]),  # 12, not 12 - 9
        ((Tool.SCALE, 2, 3), [7, 2, 7, 4]),  # 27
        ((Tool.SWAP, 0, 3), [4, 2, 9, 7]),
        ((Tool.COPY, 1, 2), [7, 9, 9, 4]),
        ((Tool.MIX, 3, 0), [7, 2, 9, 1]),  # 11
        ((Tool.SORT, 0, 1), [2, 7, 9, 4]),
        ((Tool.SORT, 1, 0), [7, 2, 9, 4]),  # in order already: not the other way round
        ((REFUSED, 0, 0), RECORD),
        ((ABSENT, 0, 0), RECORD),
    ],
)
def test_a_call_does_what_its_tool_says(call, after):
    assert run([call], RECORD) == after


def test_long_chains_match_a_slow_loop():
    random = np.random.default_rng(0)
    for _ in range(50):
        tool = random.integers(0, len(Tool), 12)
        x = random.integers(0, 4, 12)
        argument = np.where(
            tools.TAKES_SLOT[tool],
            random.integers(0, 4, 12),
            random.integers(0, 10, 12),
        )
        record = expected = random.integers(0, 10, 4).tolist()
        for call in zip(tool, x, argument, strict=True):
            expected = slow_apply(expected, *call)
        assert run(np.stack([tool, x, argument], -1), record) == expected


def test_constants_are_free_and_everything_else_costs_one():
    calls = [[Tool.SET, 0, 1], [Tool.ADD, 0, 1], [REFUSED, 0, 0], [ABSENT, 0, 0]]
    assert tools.cost(np.array(calls, np.int32)) == 2
