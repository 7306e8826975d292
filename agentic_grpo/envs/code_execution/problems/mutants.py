"""Hard mutants: programs that are almost right, for the tests stage to break.

A mutant is the efficient program after an edit of one instruction. All candidates are
executed on probes: those that agree with the truth on all of them are taken for
equivalent and removed, and of the others those that agree most often are kept. The last
mutant of a problem is of another kind: the brute force, correct but slow.
"""

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np

from agentic_grpo.envs.code_execution import judging
from agentic_grpo.envs.code_execution.problems import (
    measurements,
)
from agentic_grpo.envs.code_execution.problems import (
    table as problem_table,
)
from agentic_grpo.envs.code_execution.problems.family import NUM_N
from agentic_grpo.envs.code_execution.problems.table import ProblemTable
from agentic_grpo.envs.code_execution.vm.instructions import Op

#: Edits tried for each problem, spread evenly over its program.
_NUM_CANDIDATES = 24

#: Inputs on which they are executed: all small n, then every third.
_PROBE_N = (*range(10), *range(12, NUM_N, 3))
_PROBE_M = (1, 3)

_DIGITS = range(Op.PUSH_0, Op.PUSH_9 + 1)
_BINARY = (Op.ADD, Op.SUB, Op.MUL, Op.FLOORDIV, Op.MOD, Op.MIN, Op.MAX)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MutantTable:
    """The mutants of every problem; I rows. NumPy arrays.

    Attributes:
      program: int32 [I, M + 1, L]; one-instruction mutants, hardest first, then the
        brute force.
      exists: bool [I, M + 1]; false where too few were found, and for the brute force
        of level 1, which is quick enough to be right.
    """

    program: np.ndarray
    exists: np.ndarray


@functools.cache
def build(families: tuple[str, ...], num_mutants: int, strict_fuel: int) -> MutantTable:
    """Makes ``num_mutants`` mutants, M, of every problem of some families."""
    table = problem_table.build(families)
    candidates = np.stack([_candidates(program) for program in table.efficient])
    agrees = _agreement(table, candidates, strict_fuel)  # [I, C, probes]
    is_new = np.ones(candidates.shape[:2], bool)
    is_new[:, 1:] = (candidates[:, 1:] != candidates[:, :-1]).any(axis=-1)
    differs = is_new & ~agrees.all(axis=-1)
    hardness = np.where(differs, agrees.mean(axis=-1), -1.0)
    order = np.argsort(-hardness, axis=1, kind="stable")[:, :num_mutants]
    rows = np.arange(table.num_problems)[:, None]
    is_slow = table.level > 0
    return MutantTable(
        program=np.concatenate(
            [candidates[rows, order], table.brute_force[:, None]], axis=1
        ),
        exists=np.concatenate([differs[rows, order], is_slow[:, None]], axis=1),
    )


def _edits(program: np.ndarray) -> list[tuple[int, int]]:
    """(place, new opcode) of every edit of one instruction for one of its kind."""
    edits = []
    for place, opcode in enumerate(program):
        if opcode in _DIGITS:
            others = [each for each in (opcode - 1, opcode + 1) if each in _DIGITS]
        elif opcode in _BINARY:
            others = [each for each in _BINARY if each != opcode]
        elif opcode == Op.INPUT_N:
            others = [Op.INPUT_M]
        elif opcode == Op.INPUT_M:
            others = [Op.INPUT_N]
        else:
            others = []
        edits += [(place, int(each)) for each in others]
    return edits


def _candidates(program: np.ndarray) -> np.ndarray:
    """int32 [C, L]; where there are fewer edits, some repeated, side by side."""
    edits = _edits(program)
    chosen = np.linspace(0, len(edits) - 1, _NUM_CANDIDATES).astype(int)
    candidates = np.repeat(program[None], _NUM_CANDIDATES, axis=0)
    places, opcodes = np.array([edits[index] for index in chosen]).T
    candidates[np.arange(_NUM_CANDIDATES), places] = opcodes
    return candidates


def _agreement(table: ProblemTable, candidates: np.ndarray, fuel: int) -> np.ndarray:
    """bool [I, C, probes]: does a candidate pass the test with this input?

    Inputs that are no valid tests of a problem tell nothing: there every one passes.
    """
    n, m = (axis.ravel() for axis in np.meshgrid(_PROBE_N, _PROBE_M, indexing="ij"))
    probes = np.stack([n, m], axis=1).astype(np.int32)
    stride = table.truth_stride
    place = table.truth_start[:, None] + stride[:, :1] * n + stride[:, 1:] * m
    expected = table.truth[place]

    shape = (*candidates.shape[:2], len(probes))
    result = measurements.run_in_batches(
        np.repeat(candidates.reshape(-1, candidates.shape[-1]), len(probes), axis=0),
        np.tile(probes, (shape[0] * shape[1], 1)),
        fuel,
    )
    right = np.asarray(
        judging.judge(
            result.ending.reshape(shape),
            result.output.reshape(shape),
            jnp.asarray(np.broadcast_to(expected[:, None], shape)),
        )
    )
    never_asked = n > table.large_n[:, 1:]
    return (right == judging.TestStatus.PASSED) | never_asked[:, None]
