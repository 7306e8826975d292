"""Compares the simulated machine with a slow reference on random programs.

    python scripts/fuzz_machine.py                       # one million, about a minute
    python scripts/fuzz_machine.py --programs=100000 --seed=7

Programs are noise, programs that run, and mutants of those, each on a random input and
with random fuel. Ending, output and fuel used must be identical, every time. Equal
arguments give equal programs. Exit status: 0 without any difference, else 1.
"""

import argparse
import collections
import pathlib
import sys
import time

import jax
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from agentic_grpo.envs.code_execution.vm import assembler, interpreter
from agentic_grpo.envs.code_execution.vm.instructions import (
    MachineEnding,
)
from scripts.fuzzing import random_programs, reference_machine

LENGTHS = (16, 24, 8, 40, 12)
BATCH = 4096
SHOWN = 10  # differences that are printed in full


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.programs < 1:
        parser.error(f"--programs is {arguments.programs}; it must be at least 1")
    return fuzz(arguments.programs, arguments.seed)


def fuzz(num_programs, seed):
    """Runs the comparison, prints a summary; returns the exit status."""
    run = jax.jit(interpreter.run)
    endings, executed, differences = collections.Counter(), 0, 0
    began = time.monotonic()
    for start in range(0, num_programs, BATCH):
        number = start // BATCH
        length = LENGTHS[number % len(LENGTHS)]
        jobs = random_programs.jobs(
            f"{seed} {number}", min(BATCH, num_programs - start), length
        )
        expected = reference(*jobs)
        got = simulated(run, *jobs)
        wrong = np.flatnonzero((got != expected).any(axis=1))
        for job in wrong[: max(0, SHOWN - differences)]:
            report(*(part[job] for part in (*jobs, got, expected)))
        endings.update(expected[:, 0].tolist())
        executed += int(expected[:, 2].sum())
        differences += wrong.size
    print(f"programs      {num_programs}  (seed {seed}, lengths {LENGTHS})")
    for ending in (v for v in MachineEnding if v != MachineEnding.RUNNING):
        count = endings[ending]
        print(f"{ending.name.lower():<12}  {count}  ({count / num_programs:.1%})")
    print(f"instructions  {executed}  ({executed / num_programs:.1f} per program)")
    print(f"differences   {differences}")
    print(f"seconds       {time.monotonic() - began:.0f}")
    return 1 if differences else 0


def reference(programs, inputs, fuel):
    """int64 [N, 3]: ending, output and fuel used, by the slow interpreter."""
    jobs = zip(programs.tolist(), inputs.tolist(), fuel.tolist(), strict=True)
    return np.array([reference_machine.run(row, *pair, cap) for row, pair, cap in jobs])


def simulated(run, programs, inputs, fuel):
    """int64 [N, 3]: the same by the machine, in a batch of one shape per length."""
    missing = BATCH - len(fuel)
    result = run(
        np.pad(programs, ((0, missing), (0, 0))),
        np.pad(inputs, ((0, missing), (0, 0))),
        np.pad(fuel, (0, missing)),
    )
    columns = (result.ending, result.output, result.fuel_used)
    return np.stack(columns, axis=1)[: len(fuel)].astype(np.int64)


def report(row, inputs, fuel, got, expected):
    print(f"DIFFERENCE in {assembler.disassemble(row)!r}")
    print(f"  length {len(row)}, n, m = {inputs.tolist()}, fuel {fuel}")
    print(f"  ending, output, fuel used: {got.tolist()}, not {expected.tolist()}")


if __name__ == "__main__":
    sys.exit(main())
