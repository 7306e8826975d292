"""Agentic GRPO: learn from a stage as soon as it is rewarded, correct it when judged.

``__all__`` is the public API. Importing it touches no device, and what trains (and
reads checkpoints) is imported when it is asked for.
"""

import importlib

from agentic_grpo import ops, records
from agentic_grpo.ops import *  # noqa: F403 - the list of names lives in ops.__all__

__version__ = "0.2.0"

#: name -> the module that it comes from, on demand.
_ON_DEMAND = {
    "load_params": "agentic_grpo.training.whole_run",
    "train": "agentic_grpo.training.whole_run",
}

__all__ = [*_ON_DEMAND, "ops", "records", *ops.__all__]


def __getattr__(name):
    if name in _ON_DEMAND:
        return getattr(importlib.import_module(_ON_DEMAND[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
