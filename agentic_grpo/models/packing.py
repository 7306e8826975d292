"""Packing: several short episodes side by side in one row, scored as if alone.

An episode owns fixed columns, most of which stay empty or come after the last token
that is trained. Only its wanted tokens go into packed rows, in order, next to those of
other episodes; who may attend to whom is as before, so values and gradients are too.
How many packed rows there are depends on the texts: they are taken some at a time, and
as many times as it needs.

The members of a group have the same prompt. It can go into a row once, with what each
of them wrote behind it, side by side: a member sees the prompt and itself.

Axis letters: **N** episodes, **T** their token columns, **G** episodes of a group that
is placed as one, **P** columns that these share, **M** = N / G groups, **F** = P + G (T
- P) folded columns of a group, **C** packed rows taken at a time, **W** columns of a
packed row. Where nothing is shared, G = 1 and F = T.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo import records
from agentic_grpo.errors import require
from agentic_grpo.ops.token_log_probs import token_log_probs


@dataclasses.dataclass(frozen=True, kw_only=True)
class Packing:
    """Static sizes.

    Attributes:
      rows: C, packed rows whose scores are computed at a time.
      width: W, at least F.
      group_size: G; 1: nothing is shared. Groups are adjacent episodes.
      shared_width: P; the first columns, which are the same in all episodes of a group.
    """

    rows: int
    width: int
    group_size: int = 1
    shared_width: int = 0

    def __post_init__(self):
        for name, low in (
            ("rows", 1),
            ("width", 1),
            ("group_size", 1),
            ("shared_width", 0),
        ):
            value = getattr(self, name)
            require(value >= low, name, value, f"at least {low}")

    def folded_columns(self, num_columns: int) -> int:
        """F of episodes of T columns."""
        own = num_columns - self.shared_width
        return self.shared_width + self.group_size * own


@records.record
class Plan:
    """Where M groups go. Cell c is column ``c % W`` of packed row ``c // W``.

    Attributes:
      columns: int32 [M, F]; the wanted folded columns, in order, then the rest.
      positions: int32 [M, F]; of each of these, tokens before it that it may see.
      length: int32 [M]; how many are wanted.
      start: int32 [M]; cell of the first, ascending.
      num_parts: int32 []; how many times C rows hold them all.
    """

    columns: jax.Array
    positions: jax.Array
    length: jax.Array
    start: jax.Array
    num_parts: jax.Array


@records.record
class _Cells:
    """What stands in C packed rows; [C, W] each.

    Attributes:
      group: int32; M's.
      order: int32; cells of the group before it.
      column: int32; of the episode.
      member: int32; of the group; -1 on columns that all share.
      position: int32; wanted tokens before it that it may see.
      filled: bool.
    """

    group: jax.Array
    order: jax.Array
    column: jax.Array
    member: jax.Array
    position: jax.Array
    filled: jax.Array


def plan(wanted, packing: Packing) -> Plan:
    """Fills the rows in order; a group that does not fit begins the next row.

    Args:
      wanted: bool [N, T]; the tokens to place. To be scored as if alone, a token needs
        all that it may attend to.
      packing: static.

    Raises:
      ValueError: a packed row is narrower than a group.
    """
    num_columns = packing.folded_columns(wanted.shape[1])
    what = "an episode" if packing.group_size == 1 else "a group"
    require(
        packing.width >= num_columns,
        "width",
        packing.width,
        f"at least the {num_columns} columns of {what}",
    )
    wanted, position = _fold(wanted, packing)
    length = jnp.sum(wanted, axis=1, dtype=jnp.int32)

    def place(free, length):
        left = packing.width - free % packing.width
        start = jnp.where(length > left, free + left, free)
        return start + length, start

    end, start = jax.lax.scan(place, jnp.zeros((), jnp.int32), length)
    columns = jnp.argsort(~wanted, axis=1, stable=True).astype(jnp.int32)
    num_parts = -(-end // (packing.rows * packing.width))
    return Plan(
        columns=columns,
        positions=jnp.take_along_axis(position, columns, axis=1),
        length=length,
        start=start,
        num_parts=num_parts,
    )


def is_here(plan: Plan, part, packing: Packing):
    """bool [N]: the episode stands in the C rows of this part."""
    part_of_group = plan.start // (packing.rows * packing.width)
    here = (part_of_group == part) & (plan.length > 0)
    return jnp.repeat(here, packing.group_size)


def _fold(wanted, packing):
    """(wanted bool [M, F], position int32 [M, F]: wanted tokens before it, of its own).

    What is shared is wanted if any member wants it.
    """
    size, shared = packing.group_size, packing.shared_width
    members = wanted.reshape(-1, size, wanted.shape[1])
    prompt, own = jnp.any(members[:, :, :shared], axis=1), members[:, :, shared:]

    def before(wanted):
        return jnp.cumsum(wanted, axis=-1, dtype=jnp.int32) - 1

    behind = jnp.sum(prompt, axis=1, dtype=jnp.int32)[:, None, None]
    groups = len(members)
    return (
        jnp.concatenate([prompt, own.reshape(groups, -1)], axis=1),
        jnp.concatenate(
            [before(prompt), (behind + before(own)).reshape(groups, -1)], axis=1
        ),
    )


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
    cells = _cells(plan, part, packing, tokens.shape[1])
    episode = cells.group * packing.group_size + jnp.maximum(cells.member, 0)
    source = episode * tokens.shape[1] + cells.column
    packed = jnp.take(tokens.reshape(-1), source, mode="clip")
    hidden = model.hidden(
        params, packed, cells.position, _attention_mask(cells, column_visibility)
    )
    known = _follows(cells) & cells.filled[:, 1:]
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


def _cells(plan, part, packing, num_columns) -> _Cells:
    rows, width = packing.rows, packing.width
    cell = (part * rows + jnp.arange(rows, dtype=jnp.int32))[:, None] * width
    cell = cell + jnp.arange(width, dtype=jnp.int32)[None]
    # The last group that starts at or before the cell; empty ones start nowhere else.
    group = jnp.searchsorted(plan.start, cell.reshape(-1), side="right") - 1
    group = jnp.maximum(group, 0).astype(jnp.int32).reshape(cell.shape)
    order = cell - plan.start[group]
    filled = (order >= 0) & (order < plan.length[group])
    order = jnp.where(filled, order, 0)
    shared, folded = packing.shared_width, plan.columns[group, order]
    own = num_columns - shared
    is_shared = folded < shared
    return _Cells(
        group=group,
        order=order,
        column=jnp.where(is_shared, folded, shared + (folded - shared) % own),
        member=jnp.where(is_shared, -1, (folded - shared) // own),
        position=plan.positions[group, order],
        filled=filled,
    )


def _follows(cells):
    """bool [C, W - 1]: a cell is the next token of the episode of the cell before."""
    after, before = (
        {name: value[:, part] for name, value in vars(cells).items()}
        for part in (slice(1, None), slice(None, -1))
    )
    same = after["group"] == before["group"]
    same &= (after["member"] == before["member"]) | (before["member"] < 0)
    next_column = after["column"] == before["column"] + 1
    return same & next_column & (after["order"] == before["order"] + 1)


def _attention_mask(cells, column_visibility):
    """bool [C, W, W]: of the same episode, and visible there."""

    def of_query(values):
        return values[:, :, None]

    def of_key(values):
        return values[:, None, :]

    same = of_query(cells.group) == of_key(cells.group)
    seen = of_query(cells.member) == of_key(cells.member)
    same &= seen | (of_key(cells.member) < 0)
    real = same & of_key(cells.filled)
    causal = np.tril(np.ones_like(np.asarray(column_visibility)))
    if np.array_equal(column_visibility, causal):
        return real & (of_query(cells.order) >= of_key(cells.order))
    table = jnp.asarray(column_visibility)
    return real & table[of_query(cells.column), of_key(cells.column)]
