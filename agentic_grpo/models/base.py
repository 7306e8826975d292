"""The model protocol: the two pure functions that rollout and learner need."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

Params = Any  # a pytree of arrays


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
        float32 [M, T], entropy float32 [M, T]) of each token given those before it; on
        what ``sample`` wrote, the log-probs that it recorded.
    """

    init: Callable[[jax.Array], Params]
    sample: Callable[..., tuple[jax.Array, jax.Array, jax.Array]]
    score: Callable[..., tuple[jax.Array, jax.Array]]
