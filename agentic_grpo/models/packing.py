"""Packing: several short episodes side by side in one row, scored as if alone.

An episode owns fixed columns, most of which stay empty or come after the last token
that is trained. Only its wanted tokens go into packed rows, in order, next to those of
other episodes; who may attend to whom is as before, so values and gradients are too.
How many packed rows there are depends on the texts: they are taken some at a time, and
as many times as it needs.

Axis letters: **N** episodes, **T** their token columns, **C** packed rows taken at a
time, **W** columns of a packed row.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo import records
from agentic_grpo.ops.token_log_probs import token_log_probs


@dataclasses.dataclass(frozen=True, kw_only=True)
class Packing:
    """Static sizes.

    Attributes:
      rows: C, packed rows whose scores are computed at a time.
      width: W, at least T.
    """

    rows: int
    width: int

    def __post_init__(self):
        for name in ("rows", "width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")


@records.record
class Plan:
    """Where N episodes go. Cell c is column ``c % W`` of packed row ``c // W``.

    Attributes:
      columns: int32 [N, T]; the wanted columns of an episode, in order, then the rest.
      length: int32 [N]; how many are wanted.
      start: int32 [N]; cell of the first, ascending.
      num_parts: int32 []; how many times C rows hold them all.
    """

    columns: jax.Array
    length: jax.Array
    start: jax.Array
    num_parts: jax.Array


@records.record
class _Cells:
    """What stands in C packed rows; [C, W] each.

    Attributes:
      episode, column: int32; where the token comes from.
      position: int32; wanted tokens of the episode before it.
      filled: bool.
    """

    episode: jax.Array
    column: jax.Array
    position: jax.Array
    filled: jax.Array


def plan(wanted, packing: Packing) -> Plan:
    """Fills the rows in order; an episode that does not fit begins the next row.

    Args:
      wanted: bool [N, T]; the tokens to place. To be scored as if alone, a token needs
        all that it may attend to.
      packing: static.

    Raises:
      ValueError: a packed row is narrower than an episode.
    """
    num_columns = wanted.shape[1]
    if packing.width < num_columns:
        raise ValueError(
            f"width={packing.width} must be at least the {num_columns} columns of an "
            "episode"
        )
    length = jnp.sum(wanted, axis=1, dtype=jnp.int32)

    def place(free, length):
        left = packing.width - free % packing.width
        start = jnp.where(length > left, free + left, free)
        return start + length, start

    end, start = jax.lax.scan(place, jnp.zeros((), jnp.int32), length)
    columns = jnp.argsort(~wanted, axis=1, stable=True).astype(jnp.int32)
    num_parts = -(-end // (packing.rows * packing.width))
    return Plan(columns=columns, length=length, start=start, num_parts=num_parts)


def is_here(plan: Plan, part, packing: Packing):
    """bool [N]: the episode stands in the C rows of this part."""
    part_of_episode = plan.start // (packing.rows * packing.width)
    return (part_of_episode == part) & (plan.length > 0)


def score(
    model,
    params,
    tokens,
    plan: Plan,
    part,
    column_visibility,
    packing: Packing,
    *,
    temperature=1.0,
    chunk_size=None,
):
    """As ``decoding.score`` for the episodes of one part; 0 for all others.

    Args:
      model, params, tokens, column_visibility, temperature, chunk_size: as there.
      plan: of all episodes.
      part: int32 [], below ``plan.num_parts``.
      packing: as for the plan.

    Returns:
      (log_probs, entropy), float32 [N, T] each; 0 on tokens that were not wanted, too.
    """
    cells = _cells(plan, part, packing)
    source = cells.episode * tokens.shape[1] + cells.column
    packed = jnp.take(tokens.reshape(-1), source, mode="clip")
    hidden = model.hidden(
        params, packed, cells.position, _attention_mask(cells, column_visibility)
    )
    follows = cells.position[:, 1:] == cells.position[:, :-1] + 1
    adjacent = cells.column[:, 1:] == cells.column[:, :-1] + 1
    same = cells.episode[:, 1:] == cells.episode[:, :-1]
    known = follows & adjacent & same & cells.filled[:, 1:]
    values = token_log_probs(
        hidden[:, :-1],
        model.unembedding(params),
        packed[:, 1:],
        temperature=temperature,
        mask=known,
        chunk_size=chunk_size,
    )
    target = jnp.where(known, source[:, 1:], tokens.size).reshape(-1)

    def unpack(packed_values):
        flat = jnp.zeros((tokens.size,), packed_values.dtype)
        flat = flat.at[target].set(packed_values.reshape(-1), mode="drop")
        return flat.reshape(tokens.shape)

    return tuple(map(unpack, values))


def _cells(plan, part, packing) -> _Cells:
    rows, width = packing.rows, packing.width
    cell = (part * rows + jnp.arange(rows, dtype=jnp.int32))[:, None] * width
    cell = cell + jnp.arange(width, dtype=jnp.int32)[None]
    # The last episode that starts at or before the cell; empty ones start nowhere else.
    episode = jnp.searchsorted(plan.start, cell.reshape(-1), side="right") - 1
    episode = jnp.maximum(episode, 0).astype(jnp.int32).reshape(cell.shape)
    position = cell - plan.start[episode]
    filled = (position >= 0) & (position < plan.length[episode])
    position = jnp.where(filled, position, 0)
    return _Cells(
        episode=episode,
        column=plan.columns[episode, position],
        position=position,
        filled=filled,
    )


def _attention_mask(cells, column_visibility):
    """bool [C, W, W]: of the same episode, and visible there."""
    same = cells.episode[:, :, None] == cells.episode[:, None, :]
    real = same & cells.filled[:, None, :]
    causal = np.tril(np.ones_like(np.asarray(column_visibility)))
    if np.array_equal(column_visibility, causal):
        return real & (cells.position[:, :, None] >= cells.position[:, None, :])
    table = jnp.asarray(column_visibility)
    return real & table[cells.column[:, :, None], cells.column[:, None, :]]
