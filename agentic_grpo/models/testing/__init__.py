"""A contract kit: is this a policy that rollout and learner can rely on?

from agentic_grpo.models import testing

def test_my_policy_keeps_the_contract():
    testing.check_policy(my_policy(environment.spec), environment.spec)

It writes whole episodes with the policy, over noise in place of an environment, and
compares what was recorded with what is scored.
"""

from agentic_grpo.errors import ContractError, Violation
from agentic_grpo.models.testing.kit import CHECKS, check_policy, violations

__all__ = ["CHECKS", "ContractError", "Violation", "check_policy", "violations"]
