"""A contract kit: is this an environment that the rest of the house can rely on?

from agentic_grpo.envs import testing

def test_my_environment_keeps_the_contract():
    testing.check_environment(MyEnvironment(), splits=("train", "test"))
"""

from agentic_grpo.envs.testing.kit import CHECKS, check_environment, violations
from agentic_grpo.errors import ContractError, Violation

__all__ = [
    "CHECKS",
    "ContractError",
    "Violation",
    "check_environment",
    "violations",
]
