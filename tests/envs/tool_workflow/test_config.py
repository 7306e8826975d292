"""A setting that makes no sense is refused with the field, the value and the rule."""

import pytest

from agentic_grpo.envs.latency import Latency
from agentic_grpo.envs.tool_workflow import (
    ScriptedAgent,
    ToolWorkflow,
    ToolWorkflowConfig,
)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"stages": ["call"]}, r"stages=\['call'\] must be a tuple"),
        ({"stages": ("call", "code")}, "stages='code' must be one of"),
        ({"stages": ("plan",)}, "1 to 6 call stages"),
        ({"stages": ("call",) * 7}, "1 to 6 call stages"),
        ({"kinds": ()}, "kinds=.*not empty"),
        ({"kinds": ("raise", "raise")}, "free of repetitions"),
        ({"kinds": ("multiply",)}, "kinds='multiply'"),
        ({"num_checks": 0}, "num_checks=0 must be in 1 .. 8"),
        ({"budget_slack": 4}, "budget_slack=4"),
        ({"visible_fidelity": 1.5}, r"visible_fidelity=1.5 must be in \[0, 1\]"),
        ({"fidelity_mode": "kind"}, "fidelity_mode='kind'"),
        ({"verdict": "mild"}, "verdict='mild'"),
        ({"stages": ("call",), "hidden_rate": 0.0}, "moving_rate=0.5"),
        ({"stages": ("plan", "call", "check")}, "hidden_rate=0.5"),
        ({"latency_of_stage": (("code", Latency(minimum=1)),)}, "latency_of_stage="),
    ],
)
def test_bad_settings_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        ToolWorkflowConfig(**fields)


@pytest.mark.parametrize(
    ("dials", "message"),
    [
        ({"careful_share": 1.5}, r"careful_share=1.5 must be in \[0, 1\]"),
        ({"careful_share": 1.0, "slip_share": -0.1}, "slip_share=-0.1"),
        (
            {"careful_share": 1.0, "competence": {"code": 1.0}},
            "competence='code'",
        ),
        ({"careful_share": 1.0, "competence": {"plan": 2.0}}, "plan=2.0"),
    ],
)
def test_bad_dials_of_the_agent_are_refused(dials, message):
    environment = ToolWorkflow(ToolWorkflowConfig())
    with pytest.raises(ValueError, match=message):
        ScriptedAgent(environment, **dials)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"minimum": -1}, "minimum=-1"),
        ({"minimum": 3, "maximum": 2}, "maximum=2 must be at least 3"),
        ({"minimum": 3, "tail_probability": 0.5}, "tail_probability=0.5"),
    ],
)
def test_bad_latencies_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Latency(**fields)


def test_the_default_episode_has_its_columns():
    spec = ToolWorkflow(ToolWorkflowConfig()).spec
    # statement 2 + 4 + 3 * 6; plan 3, three parts of 8, check 4, revision 8
    assert spec.layout.num_columns == 24 + 3 + 24 + 4 + 8
    assert spec.min_stages == 6
    assert [stage.name for stage in spec.layout.stages] == [
        "plan",
        "call",
        "call_2",
        "call_3",
        "check",
        "revise",
    ]
