"""Measuring agents and rewards: episodes as arrays, and what they tell.

``player`` plays the scripted agents. What measures takes ``Episodes``, or any record
that has its fields: the rows of ``agentic_grpo.episodes.play_episodes``, for a policy.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo import records
from agentic_grpo.envs.code_execution.environment import CodeExecution
from agentic_grpo.envs.code_execution.scripted_agent import Dials, ScriptedAgent
from agentic_grpo.records import EndReason


@records.record
class Episodes:
    """Finished episodes of N groups with G members.

    Attributes:
      level: int32 [N], from 0.
      acted: bool [N, G, S]; the member wrote this stage.
      reward: float32 [N, G, S]; the stage rewards, 0 where it did not act.
      verdict: float32 [N, G].
      solved: bool [N, G].
    """

    level: jax.Array
    acted: jax.Array
    reward: jax.Array
    verdict: jax.Array
    solved: jax.Array


def player(
    environment: CodeExecution, *, split: str, num_members: int
) -> Callable[[jax.Array, Dials], Episodes]:
    """A compiled function (keys [N], dials) -> Episodes of a scripted agent."""
    agent = ScriptedAgent(environment, efficient_share=1.0)
    num_stages = environment.spec.layout.num_stages

    def play(keys, dials):
        start = environment.start(keys, split=split, num_members=num_members)

        def act(carry, stage):
            state, acting = carry
            stage_keys = jax.vmap(lambda key: jax.random.fold_in(key, stage))(keys)
            stages = jnp.full(keys.shape, stage)
            for_agent, for_step = jnp.moveaxis(
                jax.vmap(jax.random.split)(stage_keys), 1, 0
            )
            tokens, mask = agent.write(state, stages, for_agent, dials)
            result = environment.step(state, stages, tokens, mask, acting, for_step)
            goes_on = acting & (result.end_reason == EndReason.RUNNING)
            told = (acting, result.reward, result.verdict, result.solved)
            return (result.state, goes_on), told

        everyone = jnp.ones((keys.shape[0], num_members), bool)
        stages = jnp.arange(num_stages, dtype=jnp.int32)
        _, (acted, reward, verdict, solved) = jax.lax.scan(
            act, (start.state, everyone), stages
        )
        return Episodes(
            level=start.level,
            acted=jnp.moveaxis(acted, 0, -1),
            reward=jnp.moveaxis(reward, 0, -1),
            verdict=jnp.sum(verdict, axis=0),
            solved=jnp.any(solved, axis=0),
        )

    return jax.jit(play)


def mean_rewards(episodes: Episodes) -> np.ndarray:
    """float [S]: mean reward of each stage over its writers; NaN without any."""
    acted = np.asarray(episodes.acted)
    total = np.sum(np.asarray(episodes.reward), axis=(0, 1), where=acted)
    return _ratio(total, acted.sum(axis=(0, 1)))


def reward_verdict_correlation(episodes: Episodes, num_levels: int) -> np.ndarray:
    """float [num_levels, S]: correlation of each stage's reward with the verdict.

    Over the members of all groups of a level that wrote the stage; NaN where nothing
    varies. A stage whose reward does not foretell the verdict is a poor estimate of it.
    """
    level = np.asarray(episodes.level)
    acted, reward = np.asarray(episodes.acted), np.asarray(episodes.reward)
    verdict = np.asarray(episodes.verdict)
    table = np.full((num_levels, acted.shape[-1]), np.nan)
    for index in np.ndindex(*table.shape):
        of_level, stage = level == index[0], index[1]
        chosen = acted[of_level][..., stage]
        table[index] = _correlation(
            reward[of_level][..., stage][chosen], verdict[of_level][chosen]
        )
    return table


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    if x.size < 2 or np.ptp(x) < 1e-6 or np.ptp(y) < 1e-6:
        return float("nan")
    return float(np.corrcoef(x.astype(float), y.astype(float))[0, 1])


def _ratio(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
