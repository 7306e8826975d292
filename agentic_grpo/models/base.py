"""The model protocol: the two pure functions that rollout and learner need."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

Params = Any  # a pytree of arrays; or the pair (frozen, trained), of two


class PackedScore(NamedTuple):
    """``Policy.score`` over packed rows, part by part; see ``models.packing``.

    Attributes:
      plan: (wanted bool [M, T]) -> plan; its ``num_parts`` int32 [] says how many.
      is_here: (plan, part int32 []) -> bool [M]; the rows that a part scores.
      score: (params, tokens [M, T], plan, part, temperature=) -> as ``Policy.score``;
        0 on rows that are not here.
    """

    plan: Callable[[jax.Array], Any]
    is_here: Callable[..., jax.Array]
    score: Callable[..., tuple[jax.Array, jax.Array]]


class Policy(NamedTuple):
    """A policy over token columns. M rows, T token columns, A the widest action.

    Attributes:
      init: (key) -> params.
      sample: (params, tokens int32 [M, T], token_mask bool [M, T], stage int32 [M],
        active bool [M], uniforms float32 [M, A], temperature=) -> (tokens int32 [M, A],
        mask bool [M, A], log_probs float32 [M, A]): writes the stage whose marker is
        already in its column. The mask is a prefix, the end token included; rows that
        are not active have an empty one. Temperature 0 is greedy.
      score: (params, tokens [M, T], token_mask [M, T], temperature=) -> (log_probs
        float32 [M, T], entropy float32 [M, T]) of each action token given the tokens
        before it, as ``sample`` recorded them; 0 on columns that never hold actions.
      packed: the same for a learner whose rows are short; None: it has no such form.
      prompt_once: ``sample`` takes ``group_size=`` as well: so many adjacent rows have
        the same prompt.
      adapt: (key) -> what is trained beside params that are frozen; None: the params
        themselves are.
      hidden: (params, tokens [M, T], token_mask [M, T], columns=int [K], static) ->
        float [M, K, H]: what a head may read at those columns; None: nothing.
    """

    init: Callable[[jax.Array], Params]
    sample: Callable[..., tuple[jax.Array, jax.Array, jax.Array]]
    score: Callable[..., tuple[jax.Array, jax.Array]]
    packed: PackedScore | None = None
    hidden: Callable[..., jax.Array] | None = None
    prompt_once: bool = False
    adapt: Callable[[jax.Array], Params] | None = None
