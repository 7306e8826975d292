"""What forecasts: a small decoder of its own, or a head on the policy's hidden states.

Both read an episode at the last column of each stage, which sees what the agent could
see by then and nothing later, and give the logit of the verdict there. Neither is ever
shown a verdict, a hidden test or the state of the environment.

Axis letters: **N** episodes, **T** token columns, **S** stages, **H** hidden size.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo import records
from agentic_grpo.errors import require, require_choice
from agentic_grpo.layout import EpisodeLayout
from agentic_grpo.models.decoding import token_positions
from agentic_grpo.models.transformer import Transformer, TransformerConfig

#: What a critic may read: everything that the agent could, or less (for controls).
SEES = ("all", "actions", "feedback")


@records.record
class Prefix:
    """What a critic is shown of N episodes.

    Attributes:
      tokens: int32 [N, T].
      token_mask: bool [N, T].
      reward: float32 [N, S]; stage rewards, meaningful where ``reward_mask``.
      reward_mask: bool [N, S].
    """

    tokens: jax.Array
    token_mask: jax.Array
    reward: jax.Array
    reward_mask: jax.Array


class Critic(NamedTuple):
    """A forecaster of verdicts. All functions are pure.

    Attributes:
      init: (key) -> params.
      observe: (policy_params, ``Prefix``) -> examples, a pytree with leading axis N:
        what ``forecast`` needs, detached, and what is kept to learn from.
      forecast: (params, examples) -> float32 [N, S]; the logit of a verdict of 1, seen
        from the end of each stage.
    """

    init: Callable[[jax.Array], Any]
    observe: Callable[[Any, Prefix], Any]
    forecast: Callable[[Any, Any], jax.Array]


def decoder_critic(
    layout: EpisodeLayout,
    *,
    vocabulary_size: int,
    hidden_size: int = 64,
    num_layers: int = 1,
    num_heads: int = 4,
    sees: str = "all",
) -> Critic:
    """A small decoder of its own over the columns of an episode.

    It costs little beside a policy of any size, learns at its own rate, and does not
    hang on what the policy happens to represent.

    Args:
      layout: of the episodes.
      vocabulary_size: token ids are below it.
      hidden_size, num_layers, num_heads: of the decoder; even heads share the size.
      sees: one of ``SEES``; "actions" hides observations and stage rewards, "feedback"
        hides what the agent wrote.

    Raises:
      ValueError: names the field, its value and the rule.
    """
    require(
        hidden_size >= 1 and hidden_size % (2 * num_heads) == 0,
        "hidden_size",
        hidden_size,
        f"a multiple of 2 * num_heads, {2 * num_heads}: heads are even for RoPE",
    )
    visible, sees_rewards = _visible_columns(layout, sees)
    ends = _last_columns(layout)
    model = Transformer(
        TransformerConfig(
            vocabulary_size=vocabulary_size,
            num_layers=num_layers,
            hidden_size=hidden_size,
            num_heads=num_heads,
            num_kv_heads=num_heads,
            head_size=hidden_size // num_heads,
            mlp_size=2 * hidden_size,
        )
    )
    read_out = _read_out(layout.num_stages, hidden_size)

    def init(key):
        return {"decoder": model.init(key), "read_out": read_out.init()}

    def observe(policy_params, prefix):
        del policy_params
        _check(prefix, layout)
        reward_mask = prefix.reward_mask & sees_rewards
        shown = prefix.token_mask & jnp.asarray(visible)[None, :]
        return Prefix(
            tokens=jnp.where(shown, prefix.tokens, 0),
            token_mask=shown,
            reward=jnp.where(reward_mask, prefix.reward, 0.0),
            reward_mask=reward_mask,
        )

    def forecast(params, examples):
        mask = (
            jnp.asarray(layout.column_visibility)[None]
            & examples.token_mask[:, None, :]
        )
        hidden = model.hidden(
            params["decoder"],
            examples.tokens,
            token_positions(examples.token_mask),
            mask,
            columns=ends,
        )
        return read_out.apply(
            params["read_out"], hidden, examples.reward, examples.reward_mask
        )

    return Critic(init=init, observe=observe, forecast=forecast)


@records.record
class _Features:
    """What a head keeps of N episodes: hidden states [N, S, H] and stage rewards."""

    hidden: jax.Array
    reward: jax.Array
    reward_mask: jax.Array


def head_critic(layout: EpisodeLayout, read, *, hidden_size: int) -> Critic:
    """A linear head on hidden states of the policy, which it never changes.

    For a large policy: it reads what the policy has understood already. The states that
    it keeps are of the policy of their day.

    Args:
      layout: of the episodes.
      read: (policy_params, tokens [N, T], token_mask [N, T], columns=int [K]) -> hidden
        states [N, K, H]; ``models.base.Policy.hidden``.
      hidden_size: H.
    """
    rule = "given: this policy shows no hidden states"
    require(read is not None, "read", read, rule)
    ends = _last_columns(layout)
    read_out = _read_out(layout.num_stages, hidden_size)

    def init(key):
        del key
        return {"read_out": read_out.init()}

    def observe(policy_params, prefix):
        _check(prefix, layout)
        hidden = read(policy_params, prefix.tokens, prefix.token_mask, columns=ends)
        return _Features(
            hidden=jax.lax.stop_gradient(hidden).astype(jnp.float32),
            reward=jnp.where(prefix.reward_mask, prefix.reward, 0.0),
            reward_mask=prefix.reward_mask,
        )

    def forecast(params, examples):
        return read_out.apply(
            params["read_out"], examples.hidden, examples.reward, examples.reward_mask
        )

    return Critic(init=init, observe=observe, forecast=forecast)


class _ReadOut(NamedTuple):
    init: Callable[[], Any]
    apply: Callable[..., jax.Array]


def _read_out(num_stages: int, hidden_size: int) -> _ReadOut:
    """logit_s = w_s · h_s + u_s r_s + c_s [r_s known] + b_s; all start at 0."""

    def init():
        return {
            "hidden": jnp.zeros((num_stages, hidden_size), jnp.float32),
            "reward": jnp.zeros((num_stages,), jnp.float32),
            "rewarded": jnp.zeros((num_stages,), jnp.float32),
            "bias": jnp.zeros((num_stages,), jnp.float32),
        }

    def apply(params, hidden, reward, reward_mask):
        chex.assert_shape(hidden, (None, num_stages, hidden_size))
        logits = jnp.einsum("nsh,sh->ns", hidden.astype(jnp.float32), params["hidden"])
        logits += reward * params["reward"][None, :]
        logits += jnp.where(reward_mask, params["rewarded"][None, :], 0.0)
        return logits + params["bias"][None, :]

    return _ReadOut(init=init, apply=apply)


def _last_columns(layout) -> np.ndarray:
    """int [S]: the last column of each stage; it sees all that came by its end."""
    return np.array(
        [
            offset + stage.action_width + stage.observation_width
            for offset, stage in zip(layout.offsets, layout.stages, strict=True)
        ]
    )


def _visible_columns(layout, sees) -> tuple[np.ndarray, bool]:
    """(bool [T]: columns that may be read, whether stage rewards may be)."""
    require_choice("sees", sees, SEES)
    hidden = np.zeros(layout.num_columns, bool)
    for offset, stage in zip(layout.offsets, layout.stages, strict=True):
        actions = slice(offset + 1, offset + 1 + stage.action_width)
        observation = slice(actions.stop, actions.stop + stage.observation_width)
        if sees == "actions":
            hidden[observation] = True
        elif sees == "feedback":
            hidden[actions] = True
    return ~hidden, sees != "actions"


def _check(prefix, layout):
    chex.assert_shape([prefix.tokens, prefix.token_mask], (None, layout.num_columns))
    chex.assert_shape([prefix.reward, prefix.reward_mask], (None, layout.num_stages))
