"""Sampling one stage with a KV cache, and teacher-forced scoring of the same tokens.

The two agree: for equal parameters, tokens and temperature the log-probs recorded at
sampling are those that ``score`` computes, to float tolerance, whatever the stages,
paddings and visibilities of the rows.

Axis letters: **N** rows, **T** token columns of an episode, **A** widest action, **V**
vocabulary, **H** hidden size.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo import records
from agentic_grpo.errors import require
from agentic_grpo.models import categorical
from agentic_grpo.ops.token_log_probs import token_log_probs


@records.record
class Actions:
    """What the policy wrote in one stage of each row.

    Attributes:
      tokens: int32 [N, A]; the pad token outside ``mask``.
      mask: bool [N, A]; what was written: a prefix, the end token included.
      log_probs: float32 [N, A]; of the tokens, at the sampling temperature (greedy: at
        temperature 1); 0 outside ``mask``.
      entropy: float32 [N, A]; of the distribution that each token was drawn from
        (greedy: at temperature 1); 0 outside ``mask``.
    """

    tokens: jax.Array
    mask: jax.Array
    log_probs: jax.Array
    entropy: jax.Array


def token_positions(token_mask):
    """Positions count real tokens only: bool [N, T] -> int32 [N, T]."""
    return jnp.maximum(jnp.cumsum(token_mask, axis=-1, dtype=jnp.int32) - 1, 0)


def score(
    model,
    params,
    tokens,
    token_mask,
    column_visibility,
    *,
    temperature=1.0,
    chunk_size=None,
    columns=None,
):
    """Log-probs of tokens that are already there, each given the columns before it.

    Entry t belongs to ``tokens[t]`` and comes from the hidden state of column t - 1. It
    is 0 where there is nothing to say: on column 0, and where column t or t - 1 is
    padding. (Before every action stands a real token, so actions always have theirs.)

    Args:
      model: a ``Transformer``, or anything with its ``hidden`` and ``unembedding``.
      params: its parameters.
      tokens: int32 [N, T].
      token_mask: bool [N, T]; real tokens.
      column_visibility: bool [T, T], ``[q, k]``: may column q attend to column k?
      temperature: float, positive; the logits are divided by it.
      chunk_size: vocabulary entries whose logits exist at one time; None: chosen so
        that memory stays bounded.
      columns: int [K], static, each at least 1; the columns that are wanted. The
        others are 0, and spared the read-out and most of the last block. None: all.

    Returns:
      (log_probs, entropy), float32 [N, T] each.
    """
    _check_columns(tokens, token_mask, column_visibility)
    mask = jnp.asarray(column_visibility)[None] & token_mask[:, None, :]
    read = functools.partial(
        model.hidden, params, tokens, token_positions(token_mask), mask
    )
    if columns is None:
        columns, hidden = np.arange(1, tokens.shape[1]), read()[:, :-1]
    else:
        columns = np.asarray(columns)
        hidden = read(columns=columns - 1)
    known = token_mask[:, columns] & token_mask[:, columns - 1]
    values = token_log_probs(
        hidden,
        model.unembedding(params),
        tokens[:, columns],
        temperature=temperature,
        mask=known,
        chunk_size=chunk_size,
    )

    def place(value):
        nothing = jnp.zeros(tokens.shape, value.dtype)
        return nothing.at[:, columns].set(jnp.where(known, value, 0.0))

    return tuple(map(place, values))


def sample_actions(
    model,
    params,
    tokens,
    token_mask,
    visibility,
    marker_column,
    action_width,
    active,
    uniforms,
    *,
    column_visibility,
    max_actions,
    prefix_width,
    end_tokens,
    pad_token,
    temperature,
    group_size=1,
    shared_width=0,
):
    """Writes one stage of each row; the rows may stand at different stages.

    One pass over the prefix fills a cache; then every step reads one token per row and
    writes one column of the cache, the same for all rows. The steps end as soon as all
    rows have ended.

    Args:
      model: a ``Transformer``, or anything with its ``prefill``, ``extend`` and
        ``unembedding``.
      params: its parameters.
      tokens: int32 [N, T]; the episodes so far.
      token_mask: bool [N, T]; real tokens.
      visibility: bool [N, T]; columns that the stage being written may attend to.
      marker_column: int32 [N]; the stage's marker, the last real token before it.
      action_width: int32 [N]; most tokens a row may write, at most ``max_actions``.
      active: bool [N]; rows that write. The others stay empty.
      uniforms: float32 [N, A] in [0, 1); ``uniforms[:, j]`` decides the j-th token:
        the first one whose cumulative probability exceeds it.
      column_visibility: bool [T, T], static; ``[q, k]``: may column q attend to k?
      max_actions: A, static.
      prefix_width: static; every marker stands before this column.
      end_tokens: ints, static; each ends a row's stage, and is itself written. Without
        any, only the width ends a stage.
      pad_token: fills what is not written.
      temperature: static float; the logits are divided by it. 0 takes the most probable
        token and records log-probs and entropy at temperature 1.
      group_size: static; so many adjacent rows have equal first columns ...
      shared_width: ... so many, static: they are read once for all of them. 0: none.

    Returns:
      ``Actions`` with the columns of the stage after its marker.
    """
    _check_columns(tokens, token_mask, column_visibility)
    _check_sampling(tokens, uniforms, max_actions, prefix_width, temperature)
    hidden, cache, prefix, position = _read_prefix(
        model,
        params,
        *(columns[:, :prefix_width] for columns in (tokens, token_mask, visibility)),
        marker_column,
        column_visibility[:prefix_width, :prefix_width],
        room=max_actions,
        group_size=group_size,
        shared_width=shared_width,
    )
    unembedding, uniforms = model.unembedding(params), jnp.asarray(uniforms)
    end_tokens = jnp.asarray(end_tokens, jnp.int32)[None]
    steps = jnp.arange(max_actions, dtype=jnp.int32)[None]

    def write(actions, hidden, step, writing):
        token, log_prob, entropy = categorical.draw_tokens(
            hidden, unembedding, uniforms[:, step], temperature
        )
        token = jnp.where(writing, token, pad_token)
        column = Actions(
            tokens=token,
            mask=writing,
            log_probs=jnp.where(writing, log_prob, 0.0),
            entropy=jnp.where(writing, entropy, 0.0),
        )
        actions = jax.tree.map(
            lambda all, one: all.at[:, step].set(one), actions, column
        )
        is_end = jnp.any(token[:, None] == end_tokens, axis=1)
        return actions, writing & ~is_end & (step + 1 < action_width)

    def read_and_write(carry):
        step, cache, actions, writing = carry
        read = jnp.broadcast_to(steps < step, actions.mask.shape)
        hidden, cache = model.extend(
            params,
            cache,
            actions.tokens[:, step - 1],
            position + step,
            prefix_width + step - 1,
            jnp.concatenate([prefix, read], axis=1),
        )
        actions, writing = write(actions, hidden, step, writing)
        return step + 1, cache, actions, writing

    def some_write(carry):
        step, _, _, writing = carry
        return (step < max_actions) & jnp.any(writing)

    actions = _nothing_written(uniforms.shape, pad_token)
    actions, writing = write(actions, hidden, 0, active & (action_width > 0))
    carry = (jnp.int32(1), cache, actions, writing)
    return jax.lax.while_loop(some_write, read_and_write, carry)[2]


def _read_prefix(
    model,
    params,
    tokens,
    token_mask,
    visibility,
    marker_column,
    seen,
    *,
    room,
    group_size,
    shared_width,
):
    """One pass over the prefix, W columns; over what a group shares once for all.

    Returns:
      (hidden [N, H] of the marker, the cache with ``room``, bool [N, W] which prefix
      columns the actions see, int32 [N] the marker's position).
    """
    positions, marker = token_positions(token_mask), marker_column[:, None]
    mask = jnp.asarray(seen)[None] & token_mask[:, None, :]
    before, first = {}, 0
    if group_size > 1 and shared_width:
        first = shared_width
        shared = _read_shared(
            model, params, tokens, positions, mask, group_size, shared_width
        )
        before = {"before": shared}
    hidden, cache = model.prefill(
        params,
        tokens[:, first:],
        positions[:, first:],
        mask[:, first:],
        read_column=marker_column - first,
        room=room,
        **before,
    )
    columns = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
    prefix = token_mask & visibility & (columns <= marker)
    return hidden, cache, prefix, jnp.take_along_axis(positions, marker, axis=1)[:, 0]


def _read_shared(model, params, tokens, positions, mask, group_size, width):
    """The cache of the first columns of N rows, read in one row of each group."""
    one = slice(None, None, group_size)
    tokens, positions = tokens[one, :width], positions[one, :width]
    _, cache = model.prefill(
        params,
        tokens,
        positions,
        mask[one, :width, :width],
        read_column=jnp.zeros(tokens.shape[:1], jnp.int32),
    )
    return jax.tree.map(lambda x: jnp.repeat(x, group_size, axis=0), cache)


def _nothing_written(shape, pad_token):
    return Actions(
        tokens=jnp.full(shape, pad_token, jnp.int32),
        mask=jnp.zeros(shape, bool),
        log_probs=jnp.zeros(shape, jnp.float32),
        entropy=jnp.zeros(shape, jnp.float32),
    )


def _check_columns(tokens, token_mask, column_visibility):
    require(
        tokens.ndim == 2 and token_mask.shape == tokens.shape,
        "token_mask.shape",
        token_mask.shape,
        f"that of tokens, {tokens.shape}, both [N, T]",
    )
    require(
        column_visibility.shape == (tokens.shape[1],) * 2,
        "column_visibility.shape",
        column_visibility.shape,
        f"[T, T], T={tokens.shape[1]}",
    )


def _check_sampling(tokens, uniforms, max_actions, prefix_width, temperature):
    rows, columns = tokens.shape
    within = 1 <= prefix_width <= columns
    require(within, "prefix_width", prefix_width, f"in [1, T], T={columns}")
    require(
        uniforms.shape == (rows, max_actions),
        "uniforms.shape",
        uniforms.shape,
        f"(N, max_actions), {(rows, max_actions)}",
    )
    finite = 0 <= temperature < float("inf")
    require(finite, "temperature", temperature, "at least 0 and finite")
