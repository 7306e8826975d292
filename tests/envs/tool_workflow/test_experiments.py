"""Every config runs on it once ``env.name`` says so, under every credit rule."""

import importlib
import pathlib

import pytest

from agentic_grpo.ops import credit
from experiments.config.build import build
from experiments.configs import default

CONFIGS = pathlib.Path(default.__file__).parent
#: Modules that make a config out of nothing.
NAMES = [
    "experiments.configs." + ".".join(path.relative_to(CONFIGS).with_suffix("").parts)
    for path in sorted(CONFIGS.rglob("*.py"))
    if path.stem not in ("__init__", "saved", "python_quickstart", "python")
]


@pytest.mark.parametrize("name", NAMES)
def test_every_config_can_be_built_on_it(name):
    module = importlib.import_module(name)
    if not hasattr(module, "get_config"):
        pytest.skip("a module that configs share")
    config = module.get_config()
    config.env.name = "tool_workflow"
    spec = build(config.lock()).program.environment.spec
    assert spec.layout.stages[0].name == "plan"


@pytest.mark.parametrize("rule", credit.RULES)
def test_every_credit_rule_can_be_built_on_it(rule):
    config = default.get_config()
    config.env.name = "tool_workflow"
    config.algorithm.credit = rule
    if rule == "value_baseline":  # the one that asks a critic
        config.critic.kind = "decoder"
    program = build(config.lock()).program
    assert program.credit_rule.event_mask.shape == (7,)


def test_settings_that_make_no_sense_are_refused_with_their_path():
    config = default.get_config()
    config.env.name = "tool_workflow"
    config.env.tool_workflow.num_checks = 0
    with pytest.raises(ValueError, match=r"env\.tool_workflow\.num_checks=0 must"):
        build(config)
    config.env.tool_workflow.num_checks = 4
    config.agent.tool_workflow.careful_share = 2.0
    with pytest.raises(ValueError, match=r"agent\.tool_workflow\.careful_share.*2"):
        build(config)


def test_latencies_of_single_stages_are_triples():
    config = default.get_config()
    config.env.name = "tool_workflow"
    config.env.tool_workflow.latency_of_stage = (("call", (2, 5, 0.25)), ("plan", (3,)))
    stages = build(config).program.environment.spec.layout.stages
    assert [stage.max_latency for stage in stages[:3]] == [3, 5, 5]
