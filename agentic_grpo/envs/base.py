"""The environment protocol: groups of agents on one problem, stage by stage.

An environment is batched by hand over **N** lanes, each a group of **G** members on one
problem; lanes may stand at different stages. It is pure: all randomness comes from the
keys, all shapes are static, and whatever tokens arrive the outcome is defined.
"""

import dataclasses
from typing import Any, Protocol

import jax

from agentic_grpo import records
from agentic_grpo.errors import require
from agentic_grpo.layout import EpisodeLayout

State = Any  # a pytree whose leaves have the leading axis N


@dataclasses.dataclass(frozen=True, kw_only=True)
class EnvironmentSpec:
    """What the rest of the house must know of an environment. Static.

    Attributes:
      vocabulary_size: token ids are 0 .. vocabulary_size - 1.
      pad_token: fills columns outside every mask; never a real token.
      end_tokens: each ends what the agent writes in a stage, and is itself written by
        the agent. Without any, only the width of a stage ends it.
      layout: columns of an episode, with the stages.
      levels: names of the difficulty levels, easiest first.
      max_verdict_latency: most ticks between a member's end and its verdict.
      min_verdict_latency: fewest ticks between a member's end and its verdict.
      min_stages: fewest stages after which a member can end by itself; bounds how many
        groups can end per tick, and so how many snapshot rows are needed.
    """

    vocabulary_size: int
    pad_token: int
    end_tokens: tuple[int, ...]
    layout: EpisodeLayout
    levels: tuple[str, ...]
    max_verdict_latency: int
    min_verdict_latency: int = 0
    min_stages: int = 1

    def __post_init__(self):
        num_stages = self.layout.num_stages
        least, most = self.min_verdict_latency, self.max_verdict_latency
        for field, value, holds, rule in (
            ("vocabulary_size", self.vocabulary_size, lambda x: x >= 1, "at least 1"),
            ("levels", self.levels, len, "the name of one level at least"),
            ("min_verdict_latency", least, lambda x: x >= 0, "at least 0"),
            ("max_verdict_latency", most, lambda x: x >= least, f"at least {least}"),
            (
                "min_stages",
                self.min_stages,
                lambda x: 1 <= x <= num_stages,
                f"in 1 .. {num_stages}, the number of stages",
            ),
        ):
            require(holds(value), field, value, rule)


@records.record
class Start:
    """New problems, one per lane.

    Attributes:
      state: the environment's own, leading axis N.
      prompt_tokens: int32 [N, prompt_width]; the statement, common to the group.
      prompt_mask: bool [N, prompt_width]; real tokens, a prefix of the columns.
      level: int32 [N].
    """

    state: State
    prompt_tokens: jax.Array
    prompt_mask: jax.Array
    level: jax.Array


@records.record
class StageResult:
    """What came of one stage. Entries of members that did not act are ignored.

    Attributes:
      state: the environment's own, after the stage.
      observation_tokens: int32 [N, G, O], O the widest observation; feedback that the
        member reads once its reward is in.
      observation_mask: bool [N, G, O]; real tokens, a prefix of the stage's columns.
      reward: float32 [N, G], in [0, 1].
      reward_mask: bool [N, G]; false where the stage has no reward.
      latency: int32 [N, G]; ticks from writing to the reward, at least 0.
      end_reason: int32 [N, G] of ``records.EndReason``; RUNNING while it goes on.
      verdict: float32 [N, G], in [0, 1]; meaningful where the member ended.
      verdict_latency: int32 [N, G]; ticks from the end to the verdict.
      solved: bool [N, G]; the hidden judge is fully satisfied; where the member ended.
      state_id: int32 [N, G]; equal ids within a group mean equal states.
    """

    state: State
    observation_tokens: jax.Array
    observation_mask: jax.Array
    reward: jax.Array
    reward_mask: jax.Array
    latency: jax.Array
    end_reason: jax.Array
    verdict: jax.Array
    verdict_latency: jax.Array
    solved: jax.Array
    state_id: jax.Array


def is_legal_reward(values) -> jax.Array:
    """bool, elementwise: a reward or verdict lies in [0, 1], up to rounding.

    What does not (NaN and infinity too) is no reward: it would stay in the moments of
    a credit rule for good.
    """
    return (values >= -1e-6) & (values <= 1.0 + 1e-6)


class Environment(Protocol):
    """Problems, stages and a hidden judge."""

    spec: EnvironmentSpec

    def start(self, keys: jax.Array, *, split: str, num_members: int) -> Start:
        """Draws one problem per key [N] from the split (train, test ...)."""
        ...

    def step(
        self,
        state: State,
        stage: jax.Array,
        action_tokens: jax.Array,
        action_mask: jax.Array,
        acting: jax.Array,
        keys: jax.Array,
    ) -> StageResult:
        """Executes one stage of each lane.

        Args:
          state: leading axis N.
          stage: int32 [N]; the stage that the members of each lane have written.
          action_tokens: int32 [N, G, A], A the widest action; any ids whatever.
          action_mask: bool [N, G, A]; what was written, a prefix, end token included.
          acting: bool [N, G]; members that wrote this stage.
          keys: [N]; for this lane and this tick alone.
        """
        ...


class ScriptedAgent(Protocol):
    """A reference policy that reads the environment's state; used for warm starts."""

    def __call__(
        self, state: State, stage: jax.Array, keys: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Writes a stage: (tokens int32 [N, G, A], mask bool [N, G, A])."""
        ...


class Readable(Protocol):
    """What an environment may add for people who look at episodes; on the host.

    Training never asks for it. A viewer spells token ids as numbers and describes
    nothing where the methods are missing.
    """

    def spell(self, tokens) -> str:
        """Token ids as a person would read them; any ids, padding left out."""
        ...

    def describe_problem(self, state: State, lane: int) -> list[str]:
        """What the agents of a lane are not told (the solution, say); one line each."""
        ...

    def describe_member(self, state: State, lane: int, member: int) -> list[str]:
        """What was executed for a member in the stage that led to this state."""
        ...
