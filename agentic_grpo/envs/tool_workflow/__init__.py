"""The tool-workflow environment; ``environment`` holds its specification."""

from agentic_grpo.envs.latency import Latency
from agentic_grpo.envs.tool_workflow.config import ToolWorkflowConfig
from agentic_grpo.envs.tool_workflow.environment import ToolWorkflow
from agentic_grpo.envs.tool_workflow.scripted_agent import ScriptedAgent

__all__ = ["Latency", "ScriptedAgent", "ToolWorkflow", "ToolWorkflowConfig"]
