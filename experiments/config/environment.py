"""The environment of a config, with the scripted agent of its warm start."""

import dataclasses

from ml_collections import config_dict

from agentic_grpo.envs import code_execution, tool_workflow
from agentic_grpo.envs.latency import Latency
from experiments.config.checks import choose, instantiate, require


def build_environment(config):
    """(environment, scripted agent) that ``env.name`` names."""
    name = config.env.name
    build = choose("env.name", name, ENVIRONMENTS)
    return build(config.env[name], config.agent[name])


def code_execution_fields() -> dict:
    """The fields of ``env.code_execution``, with the defaults of the environment.

    Two differ from ``CodeExecutionConfig``, because a flag has one type: latencies
    whose ``maximum`` is None are constant, and ``fidelity_of_family`` (pairs) replaces
    ``visible_fidelity`` where it is not empty.
    """
    defaults = code_execution.CodeExecutionConfig()
    return _fields(defaults) | {"fidelity_of_family": ()}


def _code_execution(env, agent):
    fields = dict(env)
    of_family = fields.pop("fidelity_of_family")
    if of_family:
        families = sorted(fields["families"])
        require(
            sorted(name for name, _ in of_family) == families,
            "env.code_execution.fidelity_of_family",
            of_family,
            f"a pair (family, share) for each of {', '.join(families)}",
        )
        fields["visible_fidelity"] = of_family
    fields["latency_of_stage"] = _latencies("env.code_execution", env)
    config = instantiate(
        "env.code_execution", code_execution.CodeExecutionConfig, fields
    )
    environment = code_execution.CodeExecution(config)
    fields = dict(agent)
    if fields["repair_share"] < 0:
        fields["repair_share"] = None
    fields["competence"] = dict(fields["competence"])
    try:
        return environment, code_execution.ScriptedAgent(environment, **fields)
    except ValueError as error:
        raise ValueError(f"agent.code_execution.{error}") from error


def tool_workflow_fields() -> dict:
    """The fields of ``env.tool_workflow``; as above, a None maximum is a constant."""
    return _fields(tool_workflow.ToolWorkflowConfig())


def _fields(defaults):
    fields = dataclasses.asdict(defaults)
    for name in ("stage_latency", "verdict_latency"):
        fields[name]["maximum"] = config_dict.placeholder(int)  # an int, or None
    return fields


def _latencies(path, env) -> tuple[tuple[str, Latency], ...]:
    """The pairs (stage, (minimum, maximum, tail_probability)) of a config."""
    names = [field.name for field in dataclasses.fields(Latency)]
    found = []
    for stage, numbers in env.latency_of_stage:
        given = dict(zip(names, numbers, strict=False))
        where = f"{path}.latency_of_stage of {stage!r}"
        found.append((stage, instantiate(where, Latency, given)))
    return tuple(found)


def _tool_workflow(env, agent):
    fields = dict(env)
    fields["latency_of_stage"] = _latencies("env.tool_workflow", env)
    config = instantiate("env.tool_workflow", tool_workflow.ToolWorkflowConfig, fields)
    environment = tool_workflow.ToolWorkflow(config)
    fields = dict(agent)
    if fields["repair_share"] < 0:
        fields["repair_share"] = None
    fields["competence"] = dict(fields["competence"])
    try:
        return environment, tool_workflow.ScriptedAgent(environment, **fields)
    except ValueError as error:
        raise ValueError(f"agent.tool_workflow.{error}") from error


#: name -> (its fields of ``env``, its fields of ``agent``) -> (environment, agent).
ENVIRONMENTS = {"code_execution": _code_execution, "tool_workflow": _tool_workflow}
