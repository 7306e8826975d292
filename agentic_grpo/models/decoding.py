"""Sampling one stage with a KV cache, and teacher-forced scoring of the same tokens.

The two agree: for equal parameters, tokens and temperature the log-probs recorded at
sampling are those that ``score`` computes, to float tolerance, whatever the stages,
paddings and visibilities of the rows.

Axis letters: **N** rows, **T** token columns of an episode, **A** widest action, **V**
vocabulary, **H** hidden size.
"""

import jax
import jax.numpy as jnp

from agentic_grpo import records

_CDF_BLOCK = 64  # entries of a distribution that are summed before they are searched


@records.record
class Actions:
    """What the policy wrote in one stage of each row.

    Attributes:
      tokens: int32 [N, A]; the pad token outside ``mask``.
      mask: bool [N, A]; what was written: a prefix, the end token included.
      log_probs: float32 [N, A]; of the tokens, at the sampling temperature (greedy: at
        temperature 1); 0 outside ``mask``.
      entropy: float32 [N, A]; of the distribution that each token was drawn from (greedy:
        at temperature 1); 0 outside ``mask``.
    """

    tokens: jax.Array
    mask: jax.Array
    log_probs: jax.Array
    entropy: jax.Array


def token_positions(token_mask):
    """Positions count real tokens: bool [N, T] -> int32 [N, T], padding does not count."""
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
      chunk_size: columns whose logits exist at one time; all of them if None.

    Returns:
      (log_probs, entropy), float32 [N, T] each.
    """
    _check_columns(tokens, token_mask, column_visibility)
    if not temperature > 0:
        raise ValueError(f"temperature={temperature} must be positive to score tokens")
    mask = jnp.asarray(column_visibility)[None] & token_mask[:, None, :]
    hidden = model.hidden(params, tokens, token_positions(token_mask), mask)
    log_probs, entropy = token_log_probs(
        hidden[:, :-1],
        model.unembedding(params),
        tokens[:, 1:],
        temperature=temperature,
        chunk_size=chunk_size,
    )
    known = token_mask[:, 1:] & token_mask[:, :-1]
    return tuple(
        jnp.pad(jnp.where(known, values, 0.0), ((0, 0), (1, 0)))
        for values in (log_probs, entropy)
    )


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
    end_token,
    pad_token,
    temperature,
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
      action_width: int32 [N]; most tokens that a row may write, at most ``max_actions``.
      active: bool [N]; rows that write. The others stay empty.
      uniforms: float32 [N, A] in [0, 1); ``uniforms[:, j]`` decides the j-th token: the
        first one whose cumulative probability exceeds it.
      column_visibility: bool [T, T], static; ``[q, k]``: may column q attend to k?
      max_actions: A, static.
      prefix_width: static; every marker stands before this column.
      end_token: ends a row's stage; it is itself written.
      pad_token: fills what is not written.
      temperature: static float; the logits are divided by it. 0 takes the most probable
        token and records log-probs and entropy at temperature 1.

    Returns:
      ``Actions`` with the columns of the stage after its marker.
    """
    _check_columns(tokens, token_mask, column_visibility)
    if not 1 <= prefix_width <= tokens.shape[1]:
        raise ValueError(
            f"prefix_width={prefix_width} must lie in [1, T], T={tokens.shape[1]}"
        )
    if uniforms.shape != (tokens.shape[0], max_actions):
        raise ValueError(
            f"uniforms.shape={uniforms.shape} must be (N, max_actions)="
            f"{(tokens.shape[0], max_actions)}"
        )
    if not temperature >= 0:
        raise ValueError(f"temperature={temperature} must be at least 0")

    uniforms, marker = jnp.asarray(uniforms), marker_column[:, None]
    hidden, cache, positions = _read_prefix(
        model, params, tokens, token_mask, column_visibility, prefix_width, max_actions
    )
    hidden = jnp.take_along_axis(hidden, marker[..., None], axis=1)[:, 0]
    position = jnp.take_along_axis(positions, marker, axis=1)[:, 0]
    columns = jnp.arange(prefix_width, dtype=jnp.int32)
    prefix = (token_mask & visibility)[:, :prefix_width] & (columns[None] <= marker)
    steps = jnp.arange(max_actions, dtype=jnp.int32)
    unembedding = model.unembedding(params)

    def write(actions, hidden, step, writing):
        drawn = _draw(hidden, unembedding, uniforms[:, step], temperature)
        token, log_prob, entropy = drawn
        token = jnp.where(writing, token, pad_token)
        actions = Actions(
            tokens=actions.tokens.at[:, step].set(token),
            mask=actions.mask.at[:, step].set(writing),
            log_probs=actions.log_probs.at[:, step].set(
                jnp.where(writing, log_prob, 0.0)
            ),
            entropy=actions.entropy.at[:, step].set(jnp.where(writing, entropy, 0.0)),
        )
        return actions, writing & (token != end_token) & (step + 1 < action_width)

    def read_and_write(carry):
        step, cache, actions, writing = carry
        read = jnp.broadcast_to((steps < step)[None], actions.mask.shape)
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

    actions = Actions(
        tokens=jnp.full(uniforms.shape, pad_token, jnp.int32),
        mask=jnp.zeros(uniforms.shape, bool),
        log_probs=jnp.zeros(uniforms.shape, jnp.float32),
        entropy=jnp.zeros(uniforms.shape, jnp.float32),
    )
    actions, writing = write(actions, hidden, 0, active & (action_width > 0))
    carry = (jnp.int32(1), cache, actions, writing)
    return jax.lax.while_loop(some_write, read_and_write, carry)[2]


def inverse_cdf(probabilities, uniforms):
    """The first token whose cumulative probability exceeds the uniform.

    Float rounding neither selects a token of probability zero nor falls off the end.

    Args:
      probabilities: float32 [N, V], not negative, of any positive sum per row.
      uniforms: float32 [N], in [0, 1).

    Returns:
      int32 [N].
    """
    rows, size = probabilities.shape
    blocks = -(-size // _CDF_BLOCK)
    padding = ((0, 0), (0, blocks * _CDF_BLOCK - size))
    table = jnp.pad(probabilities, padding).reshape(rows, blocks, _CDF_BLOCK)
    weights = jnp.sum(table, axis=2)
    block, rest = _search(weights, uniforms * jnp.sum(weights, axis=1))
    within = jnp.take_along_axis(table, block[:, None, None], axis=1)[:, 0]
    return block * _CDF_BLOCK + _search(within, rest)[0]


def _search(weights, target):
    """First entry with ``cumsum > target`` and a weight; and the target less its start.

    A target that rounding pushed to the end or beyond yields the last entry with weight.
    """
    cumulative = jnp.cumsum(weights, axis=1)
    real = weights > 0
    last = jnp.max(jnp.where(real, cumulative, 0.0), axis=1)
    target = jnp.minimum(target, jnp.nextafter(last, jnp.zeros_like(last)))
    index = jnp.argmax(real & (cumulative > target[:, None]), axis=1).astype(jnp.int32)
    found = index[:, None]
    start = jnp.take_along_axis(cumulative - weights, found, axis=1)[:, 0]
    return index, target - start


def _draw(hidden, unembedding, uniforms, temperature):
    """Hidden [N, H] -> token int32, log-prob and entropy float32, [N] each."""
    logits = jnp.einsum(
        "nh,vh->nv",
        hidden,
        unembedding.astype(hidden.dtype),
        preferred_element_type=jnp.float32,
    )
    logits = logits / (temperature or 1.0)
    logits = logits - jnp.max(logits, axis=1, keepdims=True)
    probabilities = jnp.exp(logits)
    total = jnp.sum(probabilities, axis=1)
    if temperature:
        token = inverse_cdf(probabilities, uniforms)
    else:
        token = jnp.argmax(logits, axis=1).astype(jnp.int32)
    log_prob = jnp.take_along_axis(logits, token[:, None], axis=1)[:, 0] - jnp.log(
        total
    )
    entropy = jnp.log(total) - jnp.sum(probabilities * logits, axis=1) / total
    return token, log_prob, entropy


def _read_prefix(
    model, params, tokens, token_mask, column_visibility, prefix_width, max_actions
):
    """Hidden states [N, W, H], a cache with room for the actions, positions [N, W]."""
    tokens, token_mask = tokens[:, :prefix_width], token_mask[:, :prefix_width]
    visible = jnp.asarray(column_visibility[:prefix_width, :prefix_width])
    positions = token_positions(token_mask)
    hidden, cache = model.prefill(
        params, tokens, positions, visible[None] & token_mask[:, None, :]
    )
    room = ((0, 0), (0, max_actions), (0, 0), (0, 0))
    cache = jax.tree.map(lambda entries: jnp.pad(entries, room), cache)
    return hidden, cache, positions


def _check_columns(tokens, token_mask, column_visibility):
    if tokens.ndim != 2 or token_mask.shape != tokens.shape:
        raise ValueError(
            f"token_mask.shape={token_mask.shape} must equal tokens.shape={tokens.shape}, "
            "both [N, T]"
        )
    if column_visibility.shape != (tokens.shape[1],) * 2:
        raise ValueError(
            f"column_visibility.shape={column_visibility.shape} must be [T, T], "
            f"T={tokens.shape[1]}"
        )


def token_log_probs(hidden, unembedding, targets, *, temperature, chunk_size=None):
    logits = jnp.einsum(
        "nth,vh->ntv",
        hidden,
        unembedding.astype(hidden.dtype),
        preferred_element_type=jnp.float32,
    )
    log_probs = jax.nn.log_softmax(logits / temperature)
    entropy = -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)
    return jnp.take_along_axis(log_probs, targets[..., None], axis=-1)[..., 0], entropy
