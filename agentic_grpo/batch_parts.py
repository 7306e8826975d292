"""Totals over a batch, taken part by part: equal parts of its rows, or packed rows.

Parts only ever add up; what a total is divided by belongs to the whole batch.
"""

import dataclasses

import jax
import jax.numpy as jnp

from agentic_grpo.errors import require


def over_microbatches(of_part, batch, parts):
    """As ``of_part`` of the whole batch, over equal parts of its rows.

    Args:
      of_part: (batch) -> pytree of totals.
      batch: a ``learner.Batch``.
      parts: as many; a divisor of its rows.
    """
    rows = batch.tokens.shape[0]
    rule = f"a divisor of the batch of {rows} rows"
    require(rows % parts == 0, "num_microbatches", parts, rule)

    def split(x, axis):
        shape = (*x.shape[:axis], parts, rows // parts, *x.shape[axis + 1 :])
        return jnp.moveaxis(x.reshape(shape), axis, 0)

    credit = jax.tree.map(lambda x: split(x, 1), batch.credit)
    others = {
        field.name: split(getattr(batch, field.name), 0)
        for field in dataclasses.fields(batch)
        if field.name != "credit"
    }
    stacked = dataclasses.replace(batch, credit=credit, **others)
    zeros = _zeros_like(of_part, jax.tree.map(lambda x: x[0], stacked))

    def add(total, part):
        return jax.tree.map(jnp.add, total, of_part(part)), None

    return jax.lax.scan(add, zeros, stacked)[0]


def over_packed_rows(of_part, batch, packed):
    """As ``of_part`` of the whole batch, in as many parts as the packed rows make.

    Args:
      of_part: (batch, score) -> pytree of totals.
      batch: a ``learner.Batch``.
      packed: ``models.base.Policy.packed``.
    """
    trained = jnp.any(batch.credit.mask, axis=0)
    # Nothing after the last trained token is needed: no token sees what follows it.
    still_to_come = jnp.cumsum(trained[:, ::-1], axis=1)[:, ::-1] > 0
    plan = packed.plan(batch.token_mask & still_to_come)

    def of_rows(part):
        def score(params, tokens, token_mask, *, temperature):
            del token_mask  # the plan holds it
            return packed.score(params, tokens, plan, part, temperature=temperature)

        here = packed.is_here(plan, part)[None, :, None]
        credit = dataclasses.replace(batch.credit, mask=batch.credit.mask & here)
        return of_part(dataclasses.replace(batch, credit=credit), score)

    def add(carry):
        part, total = carry
        return part + 1, jax.tree.map(jnp.add, total, of_rows(part))

    first = jnp.zeros((), jnp.int32)
    carry = first, _zeros_like(of_rows, first)
    return jax.lax.while_loop(lambda c: c[0] < plan.num_parts, add, carry)[1]


def _zeros_like(function, *arguments):
    shapes = jax.eval_shape(function, *arguments)
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
