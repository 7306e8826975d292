"""An environment that costs nothing: random prompts, and the share of even tokens.

For benchmarks of the whole job, in which generation and learner are to be seen.
"""

import jax
import jax.numpy as jnp

from agentic_grpo.envs import base
from agentic_grpo.layout import EpisodeLayout, StageKind, StageSpec, fully_visible
from agentic_grpo.records import EndReason

_SOME_TOKEN = 1


class TrivialEnvironment:
    """Implements ``envs.base.Environment``. Nothing takes time; rewards come at once.

    Args:
      prompt_width: tokens of the prompt, the marker of the first stage included.
      action_width: tokens that the agent writes per stage.
      num_stages: stages; the verdict follows the last.
      vocabulary_size: V.
      ends_early: token 1 ends a text; else none does.
    """

    def __init__(
        self,
        *,
        prompt_width: int = 8,
        action_width: int = 20,
        num_stages: int = 1,
        vocabulary_size: int = 64,
        ends_early: bool = False,
    ):
        stages = tuple(
            StageSpec(
                name=f"answer {index}",
                kind=StageKind.ESTIMATE,
                action_width=action_width,
                observation_width=0,
                max_latency=0,
                marker=0,
            )
            for index in range(num_stages)
        )
        self.spec = base.EnvironmentSpec(
            vocabulary_size=vocabulary_size,
            pad_token=0,
            # without any no text ends early, so every run writes equally much
            end_tokens=(_SOME_TOKEN,) if ends_early else (),
            layout=EpisodeLayout(
                prompt_width=prompt_width - 1,
                stages=stages,
                visibility=fully_visible(num_stages),
            ),
            levels=("only",),
            max_verdict_latency=0,
            min_stages=num_stages,
        )

    def start(self, keys: jax.Array, *, split: str, num_members: int) -> base.Start:
        """Random prompts; see ``envs.base``."""
        del split, num_members
        shape = (self.spec.layout.prompt_width,)
        size = self.spec.vocabulary_size
        draw = jax.vmap(lambda key: jax.random.randint(key, shape, 2, size))
        lanes = keys.shape[0]
        return base.Start(
            state=jnp.zeros((lanes,), jnp.int32),
            prompt_tokens=draw(keys),
            prompt_mask=jnp.ones((lanes, *shape), bool),
            level=jnp.zeros((lanes,), jnp.int32),
        )

    def step(self, state, stage, action_tokens, action_mask, acting, keys):
        """One stage; see ``envs.base``."""
        del keys
        even = jnp.sum(action_mask & (action_tokens % 2 == 0), axis=2)
        share = even / jnp.maximum(jnp.sum(action_mask, axis=2), 1)
        share = share.astype(jnp.float32)
        is_last = (stage == self.spec.layout.num_stages - 1)[:, None]
        ended = jnp.where(is_last, EndReason.OUT_OF_STAGES, EndReason.RUNNING)
        members = acting.shape
        nothing = jnp.zeros(members, jnp.int32)
        return base.StageResult(
            state=state,
            observation_tokens=jnp.zeros((*members, 0), jnp.int32),
            observation_mask=jnp.zeros((*members, 0), bool),
            reward=share,
            reward_mask=acting,
            latency=nothing,
            end_reason=jnp.broadcast_to(ended, members).astype(jnp.int32),
            verdict=share,
            verdict_latency=nothing,
            solved=share > 0.5,
            state_id=nothing,
        )
