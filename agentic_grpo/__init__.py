"""Agentic GRPO: learn from a stage as soon as it is rewarded, correct it when judged.

``__all__`` is the public API. Importing it touches no device.
"""

from agentic_grpo import ops, records
from agentic_grpo.ops import *  # noqa: F403 - the list of names lives in ops.__all__

__all__ = ["ops", "records", *ops.__all__]
