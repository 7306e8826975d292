"""The table of problems: every instance of the chosen families, and their splits.

Splits are by function. The truth table on the whole domain is hashed, and the hash alone
decides, so that no function of the test split is trained on under another name, whatever
families are chosen. All of it is built in NumPy, once.
"""

import dataclasses
import functools
import hashlib

import numpy as np

from agentic_grpo.envs.code_execution import assembler, plans, vocabulary
from agentic_grpo.envs.code_execution.families import FAMILIES
from agentic_grpo.envs.code_execution.family import HIDEABLE, NUM_M, NUM_N, Family

SPLITS = ("train", "validation", "test", "compositions")
NO_SPLIT = len(SPLITS)  # a held-out composition that equals an ordinary function

_TEST_SHARE, _VALIDATION_SHARE = 0.2, 0.1
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
      split: int32 [I]; index into SPLITS, or NO_SPLIT.
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
        if split not in SPLITS:
            raise ValueError(f"split is {split!r}; it must be one of {SPLITS}")
        chosen = self.split == SPLITS.index(split)
        rows = [
            np.flatnonzero(chosen & (self.family == index))
            for index in range(len(self.families))
        ]
        if not chosen.any():
            names = [family.name for family in self.families]
            raise ValueError(f"split is {split!r}, which is empty for families {names}")
        return [members for members in rows if len(members)]


def domain(*, reads_m: bool) -> np.ndarray:
    """int32 [D, 2]: the inputs (n, m), m the fastest; m = 1 alone where it is not read."""
    n, m = np.meshgrid(
        np.arange(NUM_N), np.arange(NUM_M) if reads_m else [1], indexing="ij"
    )
    return np.stack([n.ravel(), m.ravel()], axis=1).astype(np.int32)


def truth_table(family: Family, parameters: dict[str, int]) -> np.ndarray:
    """int32 [D]: one function on the inputs of ``domain``."""
    n, m = domain(reads_m=family.reads_m).astype(np.int64).T
    return np.asarray(family.truth(n, m, **parameters)).astype(np.int32)


def function_key(table: np.ndarray) -> bytes:
    """A name for the function itself: equal for equal functions of any two families."""
    everywhere = np.broadcast_to(table.reshape(NUM_N, -1), (NUM_N, NUM_M))
    return hashlib.blake2b(everywhere.astype("<i4").tobytes(), digest_size=8).digest()


def split_of(key: bytes) -> int:
    """train, validation or test, from the key of a function."""
    uniform = int.from_bytes(key, "big") / 2.0 ** (8 * len(key))
    if uniform < _TEST_SHARE:
        return SPLITS.index("test")
    if uniform < _TEST_SHARE + _VALIDATION_SHARE:
        return SPLITS.index("validation")
    return SPLITS.index("train")


@functools.cache
def ordinary_functions() -> frozenset[bytes]:
    """The keys of all functions of the families that are not held out."""
    return frozenset(
        function_key(truth_table(family, parameters))
        for family in FAMILIES.values()
        if not family.held_out
        for parameters in family.instances()
    )


@functools.cache
def build(names: tuple[str, ...]) -> ProblemTable:
    """The table of the named families.

    Raises:
      ValueError: a family is unknown.
    """
    unknown = [name for name in names if name not in FAMILIES]
    if unknown:
        raise ValueError(
            f"families has {unknown[0]!r}; each must be one of {tuple(FAMILIES)}"
        )
    families = tuple(FAMILIES[name] for name in names)
    instances = [
        (index, parameters)
        for index, family in enumerate(families)
        for parameters in family.instances()
    ]
    family_of = [families[index] for index, _ in instances]
    tables = [
        truth_table(family, parameters)
        for family, (_, parameters) in zip(family_of, instances, strict=True)
    ]
    split = np.array(
        [_split(family, table) for family, table in zip(family_of, tables, strict=True)]
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


def _split(family: Family, table: np.ndarray) -> int:
    key = function_key(table)
    if not family.held_out:
        return split_of(key)
    return NO_SPLIT if key in ordinary_functions() else SPLITS.index("compositions")


def _statements(families, instances) -> np.ndarray:
    width = max(len(family.statement.split()) for family in families)
    rows = []
    for index, parameters in instances:
        statement = families[index].statement
        texts = [statement.format(**{**parameters, HIDEABLE: b}) for b in _told(parameters)]
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
