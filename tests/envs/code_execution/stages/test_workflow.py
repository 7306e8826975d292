"""Stages as the rest of the house sees them."""

import numpy as np
import pytest

from agentic_grpo.envs.code_execution import CodeExecutionConfig, Latency
from agentic_grpo.envs.code_execution.problems import vocabulary
from agentic_grpo.envs.code_execution.stages import workflow
from agentic_grpo.layout import StageKind


def layout(*stages, **fields):
    hidden_rate = 0.5 if "hypothesis" in stages else 0.0
    config = CodeExecutionConfig(stages=stages, hidden_rate=hidden_rate, **fields)
    return workflow.layout(config, prompt_width=4, program_width=13)


def test_every_stage_is_of_its_kind():
    kinds = {stage.name: stage.kind for stage in layout(*vocabulary.STAGE_NAMES).stages}
    skills = {name for name, kind in kinds.items() if kind is StageKind.SKILL}
    assert skills == {"hypothesis", "tests", "summary"}
    assert set(kinds.values()) == {StageKind.SKILL, StageKind.ESTIMATE}


def test_repeated_stages_have_names_of_their_own_and_one_marker():
    stages = layout("code", "debug", "debug", "debug").stages
    assert [stage.name for stage in stages] == ["code", "debug", "debug_2", "debug_3"]
    assert len({stage.marker for stage in stages}) == 2


def test_widths_fit_the_longest_sensible_text_and_its_end():
    widths = {
        stage.name: (stage.action_width, stage.observation_width)
        for stage in layout(*vocabulary.STAGE_NAMES, num_cases=3).stages
    }
    assert widths == {
        "hypothesis": (7, 4),  # 3 answers of 2 digits; answer, case, 2 digits
        "algorithm": (2, 2),
        "code": (14, 6),  # status, passed, own tests, and 3 digits of an input
        "tests": (7, 2),  # 2 inputs of 3 digits
        "debug": (14, 6),
        "summary": (4, 0),  # digit, plan, status; nobody reads after the last
    }


def test_a_summary_hides_the_trace_before_it_but_not_the_statement():
    """Who sees the statement, hypothesis, code, summary, debug, debug_2."""
    visible = np.array(
        layout("hypothesis", "code", "summary", "debug", "debug").visibility
    )
    everything, after = [1, 1, 1, 1, 1, 1], [1, 0, 0, 1, 1, 1]
    np.testing.assert_array_equal(visible, [everything] * 4 + [after] * 2)


def test_the_latest_summary_counts():
    visible = layout("summary", "code", "summary", "debug").visibility
    assert visible[3] == (True, True, True, True, True)  # a summary reads the last one
    assert visible[4] == (True, False, False, True, True)


@pytest.mark.parametrize(
    ("stages", "facts"),
    [
        (("hypothesis", "summary", "code"), ("digit",)),
        (("algorithm", "summary", "code"), ("digit", "plan")),
        (("summary", "algorithm", "code"), ("digit",)),
        (("code", "summary", "debug"), ("digit", "status")),
        (("algorithm", "code", "summary", "debug"), ("digit", "plan", "status")),
    ],
)
def test_a_summary_keeps_the_facts_that_earlier_stages_made(stages, facts):
    assert workflow.facts_of(stages) == facts


@pytest.mark.parametrize(
    ("stages", "fewest"),
    [(("hypothesis", "code"), 2), (("code", "debug", "debug"), 2), (("debug",), 1)],
)
def test_nobody_can_end_before_the_first_debug_stage(stages, fewest):
    assert workflow.min_stages(stages) == fewest


def test_latencies_are_told_per_stage():
    slow = Latency(minimum=2, maximum=9, tail_probability=0.1)
    stages = layout("code", "debug", latency_of_stage=(("debug", slow),)).stages
    assert [stage.max_latency for stage in stages] == [1, 9]
