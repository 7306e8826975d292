"""What one program does, instruction by instruction, for a person to read.

The steps come from the machine itself, not from a second interpreter: what a trace
shows is what runs.
"""

import dataclasses
from collections.abc import Iterator

import jax
import numpy as np

from agentic_grpo.envs.code_execution.vm import (
    assembler,
    interpreter,
    state,
)
from agentic_grpo.envs.code_execution.vm import (
    step as machine_step,
)
from agentic_grpo.envs.code_execution.vm.instructions import (
    MachineEnding,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpenLoop:
    """A loop that is open after an instruction."""

    mnemonic: str  # sum or iterate
    index: int
    count: int
    total: int  # so far; 0 for iterate

    def __str__(self):
        total = f" total {self.total}" if self.mnemonic == "sum" else ""
        return f"{self.mnemonic} {self.index}/{self.count}{total}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TraceStep:
    """One executed instruction and what it left behind."""

    address: int
    mnemonic: str
    nesting: int  # loops that were open before it
    stack: tuple[int, ...]  # the top is the last; empty after a fault
    loops: tuple[OpenLoop, ...]  # the innermost is the last; empty after a fault
    fuel_used: int
    ending: MachineEnding
    fault: str | None  # why, if the ending is FAULT


def trace(program, inputs, fuel: int) -> Iterator[TraceStep]:
    """Runs one program and yields every instruction that it executes.

    Args:
      program: integers [L]; opcodes.
      inputs: integers [2]; n and m.
      fuel: instructions that it may execute.

    Raises:
      ValueError: as ``interpreter.run``.
    """
    program = np.asarray(program, np.int32)
    jobs, registers = _start(
        program[None],
        np.asarray(inputs, np.int32)[None],
        np.asarray([fuel], np.int32),
    )
    step = jax.jit(machine_step.step)
    while registers.ending[0] == MachineEnding.RUNNING:
        before = jax.device_get(registers)
        registers, faults = step(jobs, registers)
        yield _trace_step(program, before, *jax.device_get((registers, faults)))


@jax.jit
def _start(programs, inputs, fuel):
    jobs = interpreter.load(programs, inputs, fuel)
    return jobs, state.power_on(jobs)


def _trace_step(program, before, after, faults):
    address, ending = int(before.address[0]), MachineEnding(int(after.ending[0]))
    height, depth = int(after.height[0]), int(after.depth[0])
    causes = [name for name in faults._fields if getattr(faults, name)[0]]
    faulted = ending == MachineEnding.FAULT
    if faulted:  # the registers mean nothing
        height = depth = 0
    return TraceStep(
        address=address,
        mnemonic=assembler.mnemonic(int(program[address])),
        nesting=int(before.depth[0]),
        stack=tuple(int(row[0]) for row in reversed(after.stack[:height])),
        loops=tuple(_open_loop(loop) for loop in reversed(after.loops[:depth])),
        fuel_used=int(after.fuel_used[0]),
        ending=ending,
        fault=causes[0].replace("_", " ") if faulted else None,
    )


def _open_loop(loop):
    return OpenLoop(
        mnemonic="sum" if loop.sums[0] else "iterate",
        index=int(loop.index[0]),
        count=int(loop.count[0]),
        total=int(loop.total[0]),
    )


HEADER = "fuel  address  instruction     stack, the top last           open loops"


def format_step(step: TraceStep) -> str:
    """One line of a trace, under ``HEADER``."""
    instruction = "  " * step.nesting + step.mnemonic
    place = f"{step.fuel_used:>4}  {step.address:>7}  {instruction:<14}"
    if step.ending == MachineEnding.FAULT:
        return f"{place}  fault: {step.fault}"
    stack = " ".join(map(str, step.stack)) or "-"
    loops = ", ".join(map(str, step.loops))
    return f"{place}  {stack:<28}  {loops}".rstrip()
