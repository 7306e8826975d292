"""What each field of a config is for: the comments and docstrings where it is made.

A field has its comment beside it in ``experiments.configs.default``; those that come
from a record or a rule of the library have the docstring there.
"""

import ast
import functools
import inspect
import io
import re
import tokenize
from typing import Any

from agentic_grpo.critic.learning import CriticSettings
from agentic_grpo.envs import code_execution, python_tasks, tool_workflow
from agentic_grpo.envs.latency import Latency
from agentic_grpo.lanes import RolloutSettings
from agentic_grpo.learner import LearnerSettings
from agentic_grpo.models.transformer import TransformerConfig
from agentic_grpo.ops import credit
from agentic_grpo.training.evaluation import EvaluationSettings
from agentic_grpo.training.real_clock.settings import RealClockSettings
from agentic_grpo.training.warm_start import WarmStartSettings
from experiments.config import fields
from experiments.configs import default

#: Whose docstring tells the fields of a group.
_DOCUMENTED: dict[str, Any] = {
    "env.code_execution": code_execution.CodeExecutionConfig,
    "env.tool_workflow": tool_workflow.ToolWorkflowConfig,
    "env.python_tasks": python_tasks.PythonTasksConfig,
    **{f"algorithm.{name}": rule for name, rule in credit.RULES.items()},
    "algorithm.calibrated.prior": credit.Prior,
    "algorithm": credit.Comparison,
    "model": TransformerConfig,
    "warm_start": WarmStartSettings,
    "rollout": RolloutSettings,
    "rollout.real_clock": RealClockSettings,
    "critic": CriticSettings,
    "learner": LearnerSettings,
    "evaluation": EvaluationSettings,
}
_LATENCIES = ("stage_latency", "verdict_latency")


@functools.cache
def of_fields() -> dict[str, str]:
    """{field: what it is for}; "" where nothing is written."""
    beside = _comments(inspect.getsource(default))
    return {name: beside.get(name) or _from_docstring(name) for name in fields.kinds()}


def lines(values: dict[str, Any], words: list[str]) -> list[str]:
    """One line per field: "--config.seed=3  (0)  what it is for".

    Args:
      values: {field: value}.
      words: small letters; some of them must be in the line.
    """
    usual = dict(fields.flatten(default.get_config()))
    told = []
    for field, value in values.items():
        parts = [f"--config.{field}={_typed(value)}"]
        if value != usual[field]:
            parts.append(f"(default {_typed(usual[field])})")
        if of_fields()[field]:
            parts.append(f"# {of_fields()[field]}")
        told.append("  ".join(parts))
    return [line for line in told if not words or any(w in line.lower() for w in words)]


def _typed(value):
    """As it is typed on a command line, but for the quotes that a shell wants."""
    return "none" if value is None else value


def _comments(source) -> dict[str, str]:
    """{field: the comment on its line}, of a ``get_config`` that assigns to ``c``."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    on_line = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokens
        if token.type == tokenize.COMMENT
    }
    found = {}
    for statement in ast.walk(ast.parse(source)):
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Attribute):
                lines = _lines(target.attr, statement.value)
                found |= {name: on_line.get(line, "") for name, line in lines}
    return found


def _lines(path, value):
    """(field, its line) of everything that an expression makes under a path."""
    yield path, value.end_lineno
    if not isinstance(value, ast.Call):
        return
    for keyword in value.keywords:
        if keyword.arg is not None:
            yield from _lines(f"{path}.{keyword.arg}", keyword.value)
        elif isinstance(keyword.value, ast.Call):  # **_defaults(rule, "name", ...)
            for argument in keyword.value.args:
                if isinstance(argument, ast.Constant):
                    yield f"{path}.{argument.value}", argument.end_lineno


def _from_docstring(field):
    group, _, name = field.rpartition(".")
    if group.rpartition(".")[2] in _LATENCIES:
        return _attributes(Latency).get(name, "")
    if group == "algorithm.calibrated" and name.startswith("prior_"):
        group, name = "algorithm.calibrated.prior", name.removeprefix("prior_")
    return _attributes(_DOCUMENTED.get(group, type(None))).get(name, "")


@functools.cache
def _attributes(documented) -> dict[str, str]:
    """{name: its words} of the sections Attributes and Args of a docstring."""
    text = inspect.getdoc(documented) or ""
    found = {}
    for section in re.findall(r"^(?:Attributes|Args):\n((?:  .*\n?|\n)+)", text, re.M):
        for names, words in re.findall(
            r"^  ([\w, ]+): ((?:.+\n?)(?:    +.+\n?)*)", section, re.M
        ):
            told = " ".join(words.split())
            found |= {name.strip(): told for name in names.split(",")}
    return found
