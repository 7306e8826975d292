"""The summary stage: a few tokens that replace the trace before it."""

import jax
import jax.numpy as jnp

from agentic_grpo.envs.code_execution import lookup
from agentic_grpo.envs.code_execution.problems import plans, vocabulary
from agentic_grpo.envs.code_execution.stages import feedback, texts


def facts(
    names: tuple[str, ...], digit: jax.Array, plan: jax.Array, status: jax.Array
) -> jax.Array:
    """int32 [N, G, F]: the tokens that a summary should hold, in order.

    Args:
      names: which facts the workflow has (``workflow.facts_of``).
      digit: int32 [N, G] or [N, 1]; the parameter that the statement may have hidden.
      plan: int32 [N, G]; the plan that binds the member.
      status: int32 [N, G] TestStatus of its program.
    """
    shape = plan.shape
    told = (plan >= 0) & (plan < len(plans.PLANS))
    tokens = {
        "digit": jnp.broadcast_to(feedback.digit(digit), shape),
        "plan": jnp.where(told, vocabulary.FIRST_PLAN + plan, vocabulary.MALFORMED),
        "status": feedback.status_token(status),
    }
    return jnp.stack([tokens[name] for name in names], axis=-1)


def kept(text: texts.Text, expected: jax.Array) -> jax.Array:
    """bool [N, G, F]: which facts stand in their place; none in too long a text."""
    count = expected.shape[-1]
    inside = lookup.numbers(count) < text.length[..., None]
    fits = (text.length <= count)[..., None]
    return inside & fits & (text.tokens[..., :count] == expected)


def observation(kept_facts: jax.Array, width: int) -> feedback.Observation:
    """How many facts were kept."""
    count = jnp.sum(kept_facts, axis=-1, dtype=jnp.int32)
    return feedback.observation([feedback.digit(count)], 1, width)
