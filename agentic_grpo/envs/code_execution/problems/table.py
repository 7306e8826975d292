"""The table of problems: every instance of the chosen families, and their splits.

Built in NumPy, once.
"""

import dataclasses
import functools

import numpy as np

from agentic_grpo.envs.code_execution.problems import (
    plans,
    splits,
    vocabulary,
)
from agentic_grpo.envs.code_execution.problems.families import FAMILIES
from agentic_grpo.envs.code_execution.problems.family import (
    HIDEABLE,
    NUM_M,
    Family,
)
from agentic_grpo.envs.code_execution.problems.splits import SPLITS
from agentic_grpo.envs.code_execution.vm import assembler
from agentic_grpo.errors import require_choice

NUM_DIGITS = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProblemTable:
    """All problems of some families, one per row; I rows. NumPy arrays.

    Attributes:
      families: the families, in the order of ``family``.
      family: int32 [I].
      level: int32 [I], from 0.
      digit: int32 [I]; the parameter that the statement may hide.
      statement: int32 [I, 2, W]; as it is, and with that parameter hidden.
      brute_force, efficient: int32 [I, L].
      plan: int32 [I, 2]; the narrowest plans of the two programs.
      reference: int32 [I, len(PLANS), L]; the best program of each plan, HALT if none.
      siblings: int32 [I, 10]; problems of the same split that differ in nothing but the
        hideable parameter, itself included, repeated to fill the row.
      split: int32 [I]; index into splits.SPLITS, or splits.NONE.
      small_n, large_n, small_m: int32 [I, 2]; both ends included.
      reads_m: bool [I].
      truth: int32 [D]; the truth tables of all rows, one behind the other.
      truth_start, truth_stride: int32 [I], [I, 2]; f(n, m) of row i stands at
        ``truth[start[i] + stride[i, 0] * n + stride[i, 1] * m]``.
    """

    families: tuple[Family, ...]
    family: np.ndarray
    level: np.ndarray
    digit: np.ndarray
    statement: np.ndarray
    brute_force: np.ndarray
    efficient: np.ndarray
    plan: np.ndarray
    reference: np.ndarray
    siblings: np.ndarray
    split: np.ndarray
    small_n: np.ndarray
    large_n: np.ndarray
    small_m: np.ndarray
    reads_m: np.ndarray
    truth: np.ndarray
    truth_start: np.ndarray
    truth_stride: np.ndarray

    @property
    def num_problems(self) -> int:
        return len(self.family)

    @property
    def program_width(self) -> int:
        return self.brute_force.shape[1]

    @property
    def prompt_width(self) -> int:
        return self.statement.shape[2]

    def rows_of_split(self, split: str) -> list[np.ndarray]:
        """The rows of a split, one array per family that has any.

        Raises:
          ValueError: there is no such split, or it is empty.
        """
        require_choice("split", split, SPLITS)
        chosen = self.split == SPLITS.index(split)
        rows = [
            np.flatnonzero(chosen & (self.family == index))
            for index in range(len(self.families))
        ]
        if not chosen.any():
            names = [family.name for family in self.families]
            raise ValueError(f"split is {split!r}, which is empty for families {names}")
        return [members for members in rows if len(members)]


@functools.cache
def build(names: tuple[str, ...]) -> ProblemTable:
    """The table of the named families.

    Raises:
      ValueError: a family is unknown.
    """
    for name in names:
        require_choice("families", name, FAMILIES)
    families = tuple(FAMILIES[name] for name in names)
    instances = [
        (index, parameters)
        for index, family in enumerate(families)
        for parameters in family.instances()
    ]
    family_of = [families[index] for index, _ in instances]
    tables = [
        splits.truth_table(family, parameters)
        for family, (_, parameters) in zip(family_of, instances, strict=True)
    ]
    split = np.array(
        [
            splits.assign(family, table)
            for family, table in zip(family_of, tables, strict=True)
        ]
    )
    sizes = np.array([len(table) for table in tables])
    reads_m = np.array([family.reads_m for family in family_of])
    return ProblemTable(
        families=families,
        family=_int32([index for index, _ in instances]),
        level=_int32([family.level - 1 for family in family_of]),
        digit=_int32([parameters[HIDEABLE] for _, parameters in instances]),
        statement=_statements(families, instances),
        **_programs(families, instances),
        siblings=_siblings(instances, split),
        split=_int32(split),
        small_n=_int32([family.small_n for family in family_of]),
        large_n=_int32([family.large_n for family in family_of]),
        small_m=_int32([family.small_m for family in family_of]),
        reads_m=reads_m,
        truth=np.concatenate(tables),
        truth_start=_int32(np.cumsum([0, *sizes[:-1]])),
        truth_stride=_int32(
            np.stack([np.where(reads_m, NUM_M, 1), reads_m.astype(int)], axis=1)
        ),
    )


def _int32(values) -> np.ndarray:
    return np.asarray(values, np.int32)


def _statements(families, instances) -> np.ndarray:
    width = max(len(family.statement.split()) for family in families)
    rows = []
    for index, parameters in instances:
        statement = families[index].statement
        texts = [
            statement.format(**{**parameters, HIDEABLE: b}) for b in _told(parameters)
        ]
        rows.append(
            [vocabulary.pad(vocabulary.tokenize(text), width) for text in texts]
        )
    return _int32(rows)


def _told(parameters) -> tuple:
    return parameters[HIDEABLE], vocabulary.NAMES[vocabulary.HIDDEN]


def _programs(families, instances) -> dict[str, np.ndarray]:
    width = max(
        len(text.split())
        for family in families
        for text in (family.brute_force, family.efficient)
    )
    pairs = np.array(
        [
            [
                assembler.assemble(text.format(**parameters), width)
                for text in (families[index].brute_force, families[index].efficient)
            ]
            for index, parameters in instances
        ],
        np.int32,
    )
    plan = np.array([[plans.class_of(program) for program in pair] for pair in pairs])
    reference = np.zeros((len(pairs), len(plans.PLANS), width), np.int32)
    rows = np.arange(len(pairs))
    for kind in range(2):  # the efficient program last: it is the better of one plan
        reference[rows, plan[:, kind]] = pairs[:, kind]
    return {
        "brute_force": pairs[:, 0],
        "efficient": pairs[:, 1],
        "plan": _int32(plan),
        "reference": reference,
    }


def _siblings(instances, split) -> np.ndarray:
    groups: dict[tuple, list[int]] = {}
    for row, (index, parameters) in enumerate(instances):
        told = tuple(v for name, v in parameters.items() if name != HIDEABLE)
        groups.setdefault((index, told, split[row]), []).append(row)
    siblings = np.zeros((len(instances), NUM_DIGITS), np.int32)
    for members in groups.values():
        siblings[members] = np.resize(members, NUM_DIGITS)
    return siblings
