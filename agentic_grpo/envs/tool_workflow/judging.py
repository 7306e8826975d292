"""Executing drafts on records: scores of the provisional checks, and the verdict."""

import jax
import jax.numpy as jnp

from agentic_grpo import records
from agentic_grpo.envs.tool_workflow import problems, tools, vocabulary
from agentic_grpo.envs.tool_workflow.config import ToolWorkflowConfig
from agentic_grpo.envs.tool_workflow.state import Members, Problem


@records.record
class Outcome:
    """What came of the members' drafts.

    Attributes:
      score: float32 [N, G]; the mean over the checks.
      passed: bool [N, G, K]; the check found nothing wrong.
      verdict: float32 [N, G]; of the draft as it stands.
      solved: bool [N, G].
      cost: int32 [N, G]; spent so far.
      results: int32 [N, G, R, 4]; the records after the draft.
    """

    score: jax.Array
    passed: jax.Array
    verdict: jax.Array
    solved: jax.Array
    cost: jax.Array
    results: jax.Array


def judge(
    config: ToolWorkflowConfig, problem: Problem, members: Members, final: jax.Array
) -> Outcome:
    """Executes the drafts on all records.

    Parts that are not yet written are answered, and paid, as is right, so that a score
    estimates the verdict of an agent that goes on without a mistake. Where ``final``
    bool [N, G], the draft is taken as it stands.
    """
    cost = spent(members)
    results = run(problem, members, final)
    right = results == problem.goal[:, None]
    missing = jnp.where(final, 0, _cost_of_missing_parts(problem, members))
    within = cost + missing <= problem.budget[:, None]

    score, passed = _check(config, problem, right, within)
    if config.fidelity_mode == "deceptive":
        due = problems.reference_cost(problem, members.parts_written)
        share = jnp.clip(cost / jnp.maximum(due, 1), 0.0, 1.0)
        cheapness = 1.0 - 0.5 * share[..., None]
        score = jnp.where(problem.hidden_like[:, None], score, score * cheapness)

    audited = right[:, :, 1 + config.num_checks :]
    solved = jnp.all(audited, axis=(-2, -1)) & within
    verdict = solved.astype(jnp.float32)
    if config.verdict == "graded":
        share = jnp.mean(audited, axis=(-2, -1), dtype=jnp.float32)
        verdict = jnp.where(within, share, 0.0)
    return Outcome(
        score=jnp.mean(score, axis=-1),
        passed=passed,
        verdict=verdict,
        solved=solved,
        cost=cost,
        results=results,
    )


def _check(config, problem, right, within):
    """Score float32 [N, G, K] of each check, and bool: it found nothing wrong."""
    own, example = right[:, :, 1 : 1 + config.num_checks], right[:, :, :1]
    like = problem.hidden_like[:, None]
    seen = jnp.where(like[..., None], own, example)
    counts = ~like | within[..., None]
    score = jnp.mean(seen, axis=-1, dtype=jnp.float32)
    return jnp.where(counts, score, 0.0), jnp.all(seen, axis=-1) & counts


def run(problem: Problem, members: Members, final: jax.Array) -> jax.Array:
    """int32 [N, G, R, 4]: the records after the drafts."""
    parts = jnp.arange(problem.kind.shape[1], dtype=jnp.int32)[None, None]
    written = final[..., None] | (parts < members.parts_written[..., None])
    right = problems.reference(problem)[:, None]
    calls = jnp.where(written[..., None, None], members.draft, right)
    calls = calls.reshape(*calls.shape[:2], -1, tools.CALL_WIDTH)
    reads_origin = (members.route == vocabulary.ORIGIN)[..., None, None]
    start = jnp.where(reads_origin, problem.origin[:, None], problem.cached[:, None])
    return tools.run(calls, start)


def spent(members: Members) -> jax.Array:
    """int32 [N, G]: route, calls of the draft, and what was wasted."""
    calls = members.draft.reshape(*members.draft.shape[:2], -1, tools.CALL_WIDTH)
    route = jnp.asarray(problems.ROUTE_COSTS)[members.route]
    return route + tools.cost(calls) + members.wasted


def _cost_of_missing_parts(problem, members):
    """int32 [N, G]: what the right answers to the other requests will cost."""
    written = problems.reference_cost(problem, members.parts_written)
    whole = jnp.full_like(members.parts_written, problem.kind.shape[1])
    return problems.reference_cost(problem, whole) - written


def state_id(config: ToolWorkflowConfig, results: jax.Array) -> jax.Array:
    """int32 [N, G]: the first member whose results on the checks' records are equal."""
    seen = results[:, :, : 1 + config.num_checks]
    seen = seen.reshape(*seen.shape[:2], -1)
    equal = jnp.all(seen[:, :, None] == seen[:, None], axis=-1)
    return jnp.argmax(equal, axis=-1).astype(jnp.int32)
