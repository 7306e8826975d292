"""Functions to write in Python, which Python runs; ``environment`` specifies them."""

from agentic_grpo.envs.python_tasks.config import PythonTasksConfig
from agentic_grpo.envs.python_tasks.environment import PythonTasks
from agentic_grpo.envs.python_tasks.families import FAMILIES, generate
from agentic_grpo.envs.python_tasks.judging import check_references
from agentic_grpo.envs.python_tasks.problem import Call, Problem
from agentic_grpo.envs.python_tasks.problem_files import human_eval, read_problems
from agentic_grpo.envs.python_tasks.protocols import Sandbox
from agentic_grpo.envs.python_tasks.scripted_agent import ScriptedAgent

__all__ = [
    "FAMILIES",
    "Call",
    "Problem",
    "PythonTasks",
    "PythonTasksConfig",
    "Sandbox",
    "ScriptedAgent",
    "check_references",
    "generate",
    "human_eval",
    "read_problems",
]
