"""A run of the tool workflow at the smallest size, made once."""

import pytest

from experiments import train
from experiments.configs import smoke

SMALL = {
    "env.name": "tool_workflow",
    "env.tool_workflow.stages": ("plan", "call", "revise"),
    "env.tool_workflow.hidden_rate": 0.0,
    "env.tool_workflow.num_checks": 2,
    "env.tool_workflow.num_audited": 1,
    "env.tool_workflow.verdict_latency.minimum": 6,
    "num_ticks": 8,  # the first groups wait for their verdict, the second ones write
    "evaluation.every": 0,
    "checkpoint.every": 0,
    "rollout.group_size": 4,
}


@pytest.fixture(scope="session")
def small_config():
    """A function from changed fields to the config of a small run."""

    def make(**changes):
        config = smoke.get_config().lock()
        config.update_from_flattened_dict({**SMALL, **changes})
        return config

    return make


@pytest.fixture(scope="session")
def run(tmp_path_factory, small_config):
    """The workdir of a finished run."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    train.run(small_config(), folder)
    return folder
