"""The simulated code-execution environment; ``environment`` holds its specification."""

from agentic_grpo.envs.code_execution.config import CodeExecutionConfig, Latency
from agentic_grpo.envs.code_execution.environment import CodeExecution
from agentic_grpo.envs.code_execution.scripted_agent import ScriptedAgent

__all__ = ["CodeExecution", "CodeExecutionConfig", "Latency", "ScriptedAgent"]
