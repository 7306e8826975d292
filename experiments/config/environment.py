"""The environment of a config, with the scripted agent of its warm start."""

import dataclasses

from agentic_grpo.envs import code_execution, tool_workflow
from experiments.config import elsewhere, latencies, python_tasks
from experiments.config.checks import choose, instantiate, require
from experiments.config.setting import Setting


def build_environment(config, published=None) -> Setting:
    """The environment that ``env.name`` names, with its scripted agent.

    Args:
      config: of the run.
      published: a ``model.Published``, whose tokens are text; or None.
    """
    name = config.env.name
    if not elsewhere.is_elsewhere(name):
        rule = "(): they are those of an env.name like my_package.my_env:make"
        require(config.env.options == (), "env.options", config.env.options, rule)
    names = {**ENVIRONMENTS, **OF_TEXT}
    build = elsewhere.is_elsewhere(name) or choose("env.name", name, names)
    if name in OF_TEXT:
        return build(config, published)
    require(
        published is None,
        "model.pretrained",
        config.model.pretrained,
        f"'' with env.name={name!r}, whose tokens are no text ({', '.join(OF_TEXT)})",
    )
    if elsewhere.is_elsewhere(name):
        return elsewhere.environment(config.env)
    environment, agent = build(config.env[name], config.agent[name])
    return Setting(environment=environment, agent=agent)


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
    fields["latency_of_stage"] = latencies.of_stages("env.code_execution", env)
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
        fields[name] = latencies.fields_of(getattr(defaults, name))
    return fields


def _tool_workflow(env, agent):
    fields = dict(env)
    fields["latency_of_stage"] = latencies.of_stages("env.tool_workflow", env)
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
#: The same of environments whose tokens are text: (config, published model) -> Setting.
OF_TEXT = {"python_tasks": python_tasks.build}
