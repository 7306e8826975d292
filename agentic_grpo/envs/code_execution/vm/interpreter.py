"""The simulated machine: runs a flat batch of programs to their end.

One iteration of a loop executes one instruction of every job that still runs, until
none does. What an instruction means is in ``instructions``, what it does in
``step``.
"""

import jax
import jax.numpy as jnp

from agentic_grpo import records
from agentic_grpo.envs.code_execution.vm import step as machine_step
from agentic_grpo.envs.code_execution.vm.instructions import (
    NUM_OPS,
    OPENINGS,
    MachineEnding,
    Op,
)
from agentic_grpo.envs.code_execution.vm.state import (
    BAD_OPCODE,
    OPCODE_BITS,
    Loaded,
    is_running,
    power_on,
    word,
)

# From here on a batch is compacted once; below, that is not worth the compilation.
_COMPACT_FROM = 1024
# Larger batches run in turns of so many jobs, whose registers then stay in the cache.
_TURN = 4096
_MAX_LENGTH = 2 ** (31 - OPCODE_BITS) - 1


@records.record
class MachineResult:
    """What became of N jobs.

    Attributes:
      ending: int32 [N] of ``MachineEnding``; never RUNNING.
      output: int32 [N]; the top of the stack of those that HALTED, else 0.
      fuel_used: int32 [N]; instructions executed, one that faulted included.
    """

    ending: jax.Array
    output: jax.Array
    fuel_used: jax.Array


def run(programs: jax.Array, inputs: jax.Array, fuel: jax.Array) -> MachineResult:
    """Runs N jobs to their end, in at most max(fuel) iterations.

    Pure; under ``jit`` a single program without any host call, under ``vmap`` correct
    but slower than one flat batch.

    Args:
      programs: int32 [N, L]; rows of opcodes, any integers whatever.
      inputs: int32 [N, 2]; n and m of each job.
      fuel: int32 [N]; instructions that each job may execute. A job that is given none
        (<= 0) is out of fuel at once and costs nothing.

    Returns:
      MachineResult, [N].

    Raises:
      ValueError: a shape or a dtype is wrong, or a program is too long to be addressed.
    """
    _check(programs, inputs, fuel)
    num_jobs = fuel.size
    if num_jobs <= _TURN:
        return _run_together(programs, inputs, fuel)
    num_turns = -(-num_jobs // _TURN)
    size = -(-num_jobs // num_turns)

    def in_turns(rows):
        idle = [(0, num_turns * size - num_jobs), *[(0, 0)] * (rows.ndim - 1)]
        return jnp.pad(rows, idle).reshape(num_turns, size, *rows.shape[1:])

    turns = jax.tree.map(in_turns, (programs, inputs, fuel))
    results = jax.lax.map(lambda turn: _run_together(*turn), turns)
    return jax.tree.map(lambda rows: rows.reshape(-1)[:num_jobs], results)


def _run_together(programs, inputs, fuel):
    jobs = load(programs, inputs, fuel)
    registers = power_on(jobs)
    num_jobs = jobs.fuel.size
    if num_jobs < _COMPACT_FROM:
        return _results(_run_while_more_than(0, jobs, registers))
    # Most jobs are short. When few are left, they go on alone in a smaller batch.
    few = num_jobs // 4
    registers = _run_while_more_than(few, jobs, registers)
    is_done = ~is_running(registers)
    left = jnp.argsort(is_done, stable=True)[:few]
    rest = jax.tree.map(lambda rows: rows[..., left], (jobs, registers))
    rest = _run_while_more_than(0, *rest)
    return jax.tree.map(
        lambda whole, part: whole.at[left].set(part),
        _results(registers),
        _results(rest),
    )


def _run_while_more_than(few, jobs, registers):
    def too_many_run(registers):
        return jnp.sum(is_running(registers), dtype=jnp.int32) > few

    def step(registers):
        return machine_step.step(jobs, registers)[0]

    return jax.lax.while_loop(too_many_run, step, registers)


def _results(registers):
    halted = registers.ending == MachineEnding.HALTED
    return MachineResult(
        ending=registers.ending,
        output=jnp.where(halted, registers.stack[0], 0),
        fuel_used=registers.fuel_used,
    )


def load(programs: jax.Array, inputs: jax.Array, fuel: jax.Array) -> Loaded:
    """Checks the arguments of ``run`` and matches the loops of every program."""
    _check(programs, inputs, fuel)
    programs, inputs, fuel = (jnp.asarray(x) for x in (programs, inputs, fuel))
    return Loaded(words=_words(programs.T), n=inputs[:, 0], m=inputs[:, 1], fuel=fuel)


def _check(programs, inputs, fuel):
    num_jobs = fuel.size
    for name, array, rule, has_shape in (
        ("fuel", fuel, "[N]", fuel.ndim == 1),
        ("inputs", inputs, "[N, 2]", inputs.shape == (num_jobs, 2)),
        ("programs", programs, "[N, L]", programs.shape[:-1] == (num_jobs,)),
    ):
        if not has_shape:
            raise ValueError(
                f"{name} has shape {list(array.shape)}; it must be {rule},"
                f" with N = {num_jobs} as in fuel"
            )
        if array.dtype != jnp.int32:
            raise ValueError(f"{name} has dtype {array.dtype}; it must be int32")
    if programs.shape[1] > _MAX_LENGTH:
        raise ValueError(
            f"programs has length {programs.shape[1]}; it must be at most {_MAX_LENGTH}"
        )


def _words(opcodes):
    """Opcodes [L, N], each opening with the address of its CLOSE."""
    length = opcodes.shape[0]
    opens = (opcodes == OPENINGS[0]) | (opcodes == OPENINGS[1])
    change = opens.astype(jnp.int32) - (opcodes == Op.CLOSE)
    nesting = jnp.cumsum(change, axis=0, dtype=jnp.int32)
    # A body ends where the nesting first falls below that of its opening.
    address = jnp.arange(length, dtype=jnp.int32)
    later = address[:, None] > address[None, :]
    falls = later[:, :, None] & (nesting[:, None] < nesting[None, :])
    close = jnp.min(
        jnp.where(falls, address[:, None, None], length), axis=0, initial=length
    )
    known = (opcodes >= 0) & (opcodes < NUM_OPS)
    return word(
        jnp.where(known, opcodes, BAD_OPCODE),
        jnp.where(opens & (close < length), close, 0),
    )
