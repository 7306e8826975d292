"""The simulated code-execution environment; ``environment`` holds its specification."""

from agentic_grpo.envs.code_execution.config import CodeExecutionConfig
from agentic_grpo.envs.code_execution.environment import CodeExecution
from agentic_grpo.envs.code_execution.scripted_agent import ScriptedAgent
from agentic_grpo.envs.latency import Latency

__all__ = ["CodeExecution", "CodeExecutionConfig", "Latency", "ScriptedAgent"]
