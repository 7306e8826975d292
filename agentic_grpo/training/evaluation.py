"""Solve rate, pass@k and stage rewards on held-out problems.

Evaluation has its own key and its own settings; it reads parameters and nothing else of
a run. The same key draws the same problems and the same uniforms every time, so that
two evaluations differ by their parameters only.
"""

import dataclasses

import jax
import jax.numpy as jnp

from agentic_grpo import episodes
from agentic_grpo.errors import require
from agentic_grpo.ops.reductions import Mean, masked_mean

#: Problems of a batch whose episodes are scored again: the gap between sampler and
#: learner shows on few, and scoring costs nearly half of what playing does.
RESCORED = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """Static choices of an evaluation.

    Attributes:
      split: of the environment's problems.
      num_problems: a multiple of ``batch_size``.
      samples_per_problem: n of pass@k.
      pass_at: the k to report, each at most n.
      temperature: of the samples; 0 is greedy.
      with_greedy: play each problem once more with the most probable tokens.
      batch_size: problems that are played side by side.
    """

    split: str
    num_problems: int
    samples_per_problem: int = 1
    pass_at: tuple[int, ...] = ()
    temperature: float = 1.0
    with_greedy: bool = False
    batch_size: int = 256

    def __post_init__(self):
        require(
            self.num_problems % self.batch_size == 0,
            "num_problems",
            self.num_problems,
            f"a multiple of batch_size={self.batch_size}",
        )
        for k in self.pass_at:
            require(
                1 <= k <= self.samples_per_problem,
                "pass_at",
                k,
                f"in [1, samples_per_problem={self.samples_per_problem}]",
            )


def evaluate(policy, params, environment, key, settings: EvaluationSettings):
    """Plays held-out problems to the end. Pure; the caller jits it.

    Args:
      policy: a ``models.base.Policy``.
      params: its parameters.
      environment: an ``envs.base.Environment``.
      key: of the evaluation.
      settings: static.

    Returns:
      dict of ``Mean``: "solve_rate", "solve_rate/LEVEL", "verdict", "pass_at_K" (over
      problems of which at least K samples were judged),
      "stage_reward/STAGE", "submitted", with greedy play "greedy_solve_rate" and
      "greedy_solve_rate/LEVEL"; and "log_prob_gap" float32 []: the largest difference
      between log-probs recorded at sampling and scored afterwards, on the first
      ``RESCORED`` problems of every batch.
    """

    def rows_of(index, temperature, num_members):
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, index)
        return episodes.play_episodes(
            episodes.sample_with(policy, params, temperature=temperature),
            environment,
            keys,
            split=settings.split,
            num_members=num_members,
        )

    def play(index):
        rows = rows_of(index, settings.temperature, settings.samples_per_problem)
        means = measure(rows, environment.spec, settings.pass_at)
        if settings.with_greedy:
            greedy = measure(rows_of(index, 0.0, 1), environment.spec)
            means |= {
                f"greedy_{name}": value
                for name, value in greedy.items()
                if name.startswith("solve_rate")
            }
        return means, _gap(policy, params, rows, settings.temperature)

    batches = jnp.arange(settings.num_problems).reshape(-1, settings.batch_size)
    means, gaps = jax.lax.map(play, batches)
    return jax.tree.map(lambda x: jnp.sum(x, axis=0), means) | {
        "log_prob_gap": jnp.max(gaps)
    }


def read(metrics) -> dict[str, float]:
    """Waits for an evaluation: {name: number}, without the rates of what did not occur.

    A level that no problem had has no solve rate: it is left out, not reported as 0.
    """
    numbers = {}
    for name, value in jax.device_get(metrics).items():
        if not isinstance(value, Mean):
            numbers[name] = float(value)
        elif value.count > 0:
            numbers[name] = float(value.total / value.count)
    return numbers


def measure(rows, spec, pass_at=()) -> dict[str, Mean]:
    """Rates over finished episodes: rows [N, ...] of ``episodes.play_episodes``."""
    solved, judged = rows.solved.astype(jnp.float32), rows.verdict_mask
    means = {
        "solve_rate": masked_mean(solved, judged),
        "verdict": masked_mean(rows.verdict, judged),
        "submitted": masked_mean(
            (rows.end_reason == episodes.EndReason.SUBMITTED).astype(jnp.float32),
            judged,
        ),
    }
    for level, name in enumerate(spec.levels):
        here = judged & (rows.level == level)[:, None]
        means[f"solve_rate/{name}"] = masked_mean(solved, here)
    for stage, stage_spec in enumerate(spec.layout.stages):
        means[f"stage_reward/{stage_spec.name}"] = masked_mean(
            rows.reward[:, :, stage], rows.reward_mask[:, :, stage]
        )
    num_solved = jnp.sum(rows.solved & judged, axis=1)
    num_judged = jnp.sum(judged, axis=1)
    for k in pass_at:
        value = pass_at_k(num_solved, num_judged, k)
        means[f"pass_at_{k}"] = masked_mean(value, num_judged >= k)
    return means


def pass_at_k(num_solved, num_samples, k):
    """Unbiased chance that one of k samples solves: 1 - C(n - c, k) / C(n, k).

    The quotient is the product over j < k of (n - c - j) / (n - j)  (Chen et al. 2021,
    arXiv 2107.03374), 0 as soon as a factor is.

    Args:
      num_solved: int [N]; c.
      num_samples: int [N]; n, of those that were judged: where the environment failed,
        the agent did not.
      k: at most n; where it is more there is no such chance, and the value is 0.

    Returns:
      float32 [N].
    """
    draws = jnp.arange(k, dtype=jnp.float32)
    failures = (num_samples - num_solved).astype(jnp.float32)
    pool = num_samples.astype(jnp.float32)[:, None] - draws[None, :]
    factors = (failures[:, None] - draws[None, :]) / jnp.maximum(pool, 1.0)
    chance = 1.0 - jnp.prod(jnp.maximum(factors, 0.0), axis=1)
    return jnp.where(num_samples >= k, chance, 0.0)


def _gap(policy, params, rows, temperature):
    """Largest difference between sampled and scored log-probs of some actions."""
    rows = jax.tree.map(lambda x: x[:RESCORED], rows)
    columns = rows.tokens.shape[-1]
    log_probs, _ = policy.score(
        params,
        rows.tokens.reshape(-1, columns),
        rows.token_mask.reshape(-1, columns),
        temperature=temperature or 1.0,
    )
    difference = jnp.abs(log_probs.reshape(rows.log_probs.shape) - rows.log_probs)
    return jnp.max(jnp.where(rows.action_mask, difference, 0.0))
