"""What the simulated machine holds: the jobs, and their registers.

Both stacks are shift registers, tuples of rows with the top in front: operands are
rows, never gathers, and every array is one flat row of jobs, which vectorizes. A job
that has stopped carries HALT as its next instruction, which changes nothing, so its
registers keep still unmasked.
"""

import jax
import jax.numpy as jnp

from agentic_grpo import records
from agentic_grpo.envs.code_execution.vm.instructions import (
    LOOP_DEPTH,
    NUM_OPS,
    STACK_DEPTH,
    MachineEnding,
    Op,
)

# A word of a program is an opcode in the low bits, above them the address of the CLOSE
# that matches it, or 0 where there is none (no loop can end at address 0).
OPCODE_BITS = 6
BAD_OPCODE = NUM_OPS


@records.record
class Loaded:
    """What N jobs are to do; constant while they run."""

    words: jax.Array  # int32 [L, N]; the programs, with their loops matched
    n: jax.Array  # int32 [N]
    m: jax.Array  # int32 [N]
    fuel: jax.Array  # int32 [N]


@records.record
class Loop:
    """An open loop of N jobs, int32 [N] each."""

    start: jax.Array  # address of the body
    sums: jax.Array  # 1 for SUM, 0 for ITERATE
    height: jax.Array  # of the stack, at which the body must end
    index: jax.Array
    count: jax.Array
    total: jax.Array


@records.record
class Registers:
    """The state of N jobs between two instructions; int32 [N] where not said."""

    word: jax.Array  # the next instruction; HALT once the job has stopped
    address: jax.Array  # where it stands
    stack: tuple[jax.Array, ...]  # STACK_DEPTH rows; row 0 is the top
    height: jax.Array  # values on the stack; rows from there on are arbitrary
    loops: tuple[Loop, ...]  # LOOP_DEPTH of them; row 0 is the innermost
    depth: jax.Array  # open loops; rows from there on are arbitrary
    ending: jax.Array
    fuel_used: jax.Array


def word(opcodes: jax.Array, close: jax.Array) -> jax.Array:
    """Packs opcodes and the addresses of their CLOSEs; any shape."""
    return opcodes | (close << OPCODE_BITS)


def opcode(word: jax.Array) -> jax.Array:
    """The opcode in a word."""
    return word & (2**OPCODE_BITS - 1)


def close_address(word: jax.Array) -> jax.Array:
    """The address of the CLOSE in a word, 0 if it has none."""
    return word >> OPCODE_BITS


def is_running(registers: Registers) -> jax.Array:
    """bool [N]: the job has an instruction to execute."""
    return opcode(registers.word) != Op.HALT


def fetch(words: jax.Array, address: jax.Array) -> jax.Array:
    """The word at each job's address, and HALT at every address beyond the row."""
    found = jnp.full_like(address, Op.HALT)
    for row, there in enumerate(words):
        found = jnp.where(address == row, there, found)
    return found


def power_on(jobs: Loaded) -> Registers:
    """The registers before the first instruction."""
    zeros = jnp.zeros_like(jobs.fuel)
    loop = Loop(
        start=zeros, sums=zeros, height=zeros, index=zeros, count=zeros, total=zeros
    )
    first = fetch(jobs.words, zeros)
    # A program that begins with HALT ends with an empty stack.
    empty = opcode(first) == Op.HALT
    ending = jnp.where(
        jobs.fuel <= 0,
        MachineEnding.OUT_OF_FUEL,
        jnp.where(empty, MachineEnding.FAULT, MachineEnding.RUNNING),
    ).astype(jnp.int32)
    return Registers(
        word=jnp.where(ending == MachineEnding.RUNNING, first, Op.HALT),
        address=zeros,
        stack=(zeros,) * STACK_DEPTH,
        height=zeros,
        loops=(loop,) * LOOP_DEPTH,
        depth=zeros,
        ending=ending,
        fuel_used=zeros,
    )
