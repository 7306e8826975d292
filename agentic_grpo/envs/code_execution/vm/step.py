"""One instruction of every job: the inner half of the simulated machine."""

import dataclasses
import functools
import operator
from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentic_grpo.envs.code_execution.vm.instructions import (
    GROWTH,
    LOOP_DEPTH,
    OPENINGS,
    OPERANDS,
    STACK_DEPTH,
    VALUE_LIMIT,
    MachineEnding,
    Op,
)
from agentic_grpo.envs.code_execution.vm.state import (
    BAD_OPCODE,
    Loaded,
    Loop,
    Registers,
    close_address,
    fetch,
    is_running,
    opcode,
)


class _LoopMoves(NamedTuple):
    """What the instruction does to the loops; bool [N]."""

    opens: jax.Array
    skips: jax.Array  # opens a loop with nothing to do
    enters: jax.Array
    closes: jax.Array
    repeats: jax.Array
    leaves: jax.Array
    sums: jax.Array  # the loop in question is a SUM
    ends_sum: jax.Array


class Faults(NamedTuple):
    """What went wrong, bool [N] each. Of several, the first is the cause."""

    unknown_opcode: jax.Array
    stack_underflow: jax.Array
    stack_overflow: jax.Array
    value_overflow: jax.Array
    division_by_zero: jax.Array
    index_outside_its_loop: jax.Array
    loop_without_a_close: jax.Array
    loops_nested_too_deeply: jax.Array
    close_without_a_loop: jax.Array
    loop_body_ends_at_the_wrong_height: jax.Array
    halt_inside_a_loop: jax.Array
    halt_with_an_empty_stack: jax.Array


def step(jobs: Loaded, old: Registers) -> tuple[Registers, Faults]:
    """Executes the next instruction of every job that still runs."""
    op = opcode(old.word)
    moves = _loop_moves(op, old)
    result, overflows = _result(op, jobs, old, moves)
    growth = _lookup(op, GROWTH) - (moves.closes & moves.sums) + moves.ends_sum
    height = old.height + growth
    depth = old.depth + moves.enters - moves.leaves
    address = 1 + jnp.where(
        moves.skips,
        close_address(old.word),
        jnp.where(moves.repeats, old.loops[0].start - 1, old.address),
    )
    fetched = fetch(jobs.words, address)
    ends = opcode(fetched) == Op.HALT
    running = is_running(old)
    fuel_used = old.fuel_used + running

    nested = old.depth >= jnp.where(op == Op.OUTER_INDEX, 2, 1)
    ends_right = old.height == old.loops[0].height
    faults = Faults(
        unknown_opcode=op == BAD_OPCODE,
        stack_underflow=old.height < _lookup(op, OPERANDS),
        stack_overflow=height > STACK_DEPTH,
        value_overflow=overflows,
        division_by_zero=_among(op, (Op.FLOORDIV, Op.MOD)) & (old.stack[0] == 0),
        index_outside_its_loop=_among(op, (Op.INDEX, Op.OUTER_INDEX)) & ~nested,
        loop_without_a_close=moves.opens & (close_address(old.word) == 0),
        loops_nested_too_deeply=moves.opens & (old.depth == LOOP_DEPTH),
        close_without_a_loop=moves.closes & ~nested,
        loop_body_ends_at_the_wrong_height=moves.closes & nested & ~ends_right,
        halt_inside_a_loop=ends & (depth > 0),
        halt_with_an_empty_stack=ends & (height == 0),
    )
    faulted = functools.reduce(operator.or_, faults)
    ending = jnp.where(
        faulted,
        MachineEnding.FAULT,
        jnp.where(
            ends,
            MachineEnding.HALTED,
            jnp.where(
                fuel_used >= jobs.fuel,
                MachineEnding.OUT_OF_FUEL,
                MachineEnding.RUNNING,
            ),
        ),
    )
    ending = jnp.where(running, ending, old.ending)
    new = Registers(
        word=jnp.where(ending == MachineEnding.RUNNING, fetched, Op.HALT),
        address=address,
        stack=_shift_stack(op, old.stack, growth, result, moves),
        height=height,
        loops=_shift_loops(old, moves, address, height, result),
        depth=depth,
        ending=ending,
        fuel_used=fuel_used,
    )
    return new, faults


def _loop_moves(op, old):
    count, loop = old.stack[0], old.loops[0]
    opens, closes = _among(op, OPENINGS), op == Op.CLOSE
    skips = opens & (count <= 0)
    repeats = closes & (loop.index < loop.count)
    leaves = closes & ~repeats
    sums = jnp.where(closes, loop.sums == 1, op == Op.SUM)
    return _LoopMoves(
        opens=opens,
        skips=skips,
        enters=opens & ~skips,
        closes=closes,
        repeats=repeats,
        leaves=leaves,
        sums=sums,
        ends_sum=sums & (skips | leaves),
    )


def _among(op, ops):
    """bool [N]: is the opcode one of ``ops``? One shift of a constant set of bits."""
    bits = jnp.uint32(sum(1 << member for member in ops))
    return ((bits >> op.astype(jnp.uint32)) & 1) == 1


def _lookup(op, table):
    """int32 [N]: the entry of a table {opcode: small number}, 0 where not listed."""
    found = jnp.zeros_like(op)
    for value in sorted(set(table.values())):
        ops = [member for member, entry in table.items() if entry == value]
        found += value * _among(op, ops)
    return found


def _result(op, jobs, old, moves):
    """The value that the instruction writes, int32 [N]; is it out of bounds, bool [N].

    Of a CLOSE that is the running total, whether or not it is written to the stack.
    """
    a, b, c = old.stack[0], old.stack[1], old.stack[2]
    inner, outer, *_ = old.loops
    quotient, remainder = _floor_division(b, a)
    cases = {
        Op.INPUT_N: jobs.n,
        Op.INPUT_M: jobs.m,
        Op.INDEX: inner.index,
        Op.OUTER_INDEX: outer.index,
        Op.ADD: b + a,
        Op.SUB: b - a,
        Op.MUL: b * a,
        Op.FLOORDIV: quotient,
        Op.MOD: remainder,
        Op.MIN: jnp.minimum(b, a),
        Op.MAX: jnp.maximum(b, a),
        Op.LESS: (b < a).astype(jnp.int32),
        Op.EQUAL: (b == a).astype(jnp.int32),
        Op.SELECT: jnp.where(c != 0, b, a),
        Op.DUP: a,
        Op.OVER: b,
        Op.CLOSE: jnp.where(moves.sums, inner.total + a, 0),
    }
    result = jnp.where(op <= Op.PUSH_9, op - Op.PUSH_0, 0)  # 0: a SUM that is skipped
    for case, value in cases.items():
        result = jnp.where(op == case, value, result)
    # Rounding moves a product by less than a part in a million: one that passes here
    # does not wrap in int32, and the exact comparison decides.
    product = jnp.abs(b.astype(jnp.float32) * a.astype(jnp.float32))
    wraps = (op == Op.MUL) & (product > 1.5 * VALUE_LIMIT)
    return result, wraps | (result > VALUE_LIMIT) | (result < -VALUE_LIMIT)


def _floor_division(b, a):
    """floor(b / a) and b - a floor(b / a); by 1 where a is 0."""
    a = jnp.where(a == 0, 1, a)
    quotient = jax.lax.div(b, a)  # towards zero
    remainder = b - quotient * a
    rounds_up = (remainder != 0) & ((remainder < 0) != (a < 0))
    return quotient - rounds_up, remainder + jnp.where(rounds_up, a, 0)


def _shift_stack(op, stack, growth, result, moves):
    keeps_top = _among(op, (Op.HALT, Op.SWAP, Op.DROP, *OPENINGS, Op.CLOSE))
    writes = ~keeps_top | moves.ends_sum
    swaps = op == Op.SWAP

    def old(row):
        return stack[min(max(row, 0), STACK_DEPTH - 1)]

    rows = []
    for row in range(STACK_DEPTH):
        moved = old(row)
        for shift in sorted(set(GROWTH.values())):
            moved = jnp.where(growth == shift, old(row - shift), moved)
        rows.append(moved)
    rows[0] = jnp.where(swaps, stack[1], jnp.where(writes, result, rows[0]))
    rows[1] = jnp.where(swaps, stack[0], rows[1])
    return tuple(rows)


def _shift_loops(old, moves, address, height, total):
    opened = Loop(
        start=address,
        sums=moves.sums.astype(jnp.int32),
        height=height + moves.sums,
        index=jnp.ones_like(address),
        count=old.stack[0],
        total=jnp.zeros_like(address),
    )
    inner = old.loops[0]
    continued = dataclasses.replace(
        inner,
        index=inner.index + moves.repeats,
        total=jnp.where(moves.repeats, total, inner.total),
    )
    pushed = (opened, *old.loops[:-1])
    popped = (*old.loops[1:], old.loops[-1])
    kept = (continued, *old.loops[1:])

    def shift(pushed, popped, kept):
        return jnp.where(moves.enters, pushed, jnp.where(moves.leaves, popped, kept))

    return jax.tree.map(shift, pushed, popped, kept)
