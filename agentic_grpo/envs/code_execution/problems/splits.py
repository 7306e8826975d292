"""Functions and splits: which problems training may see.

Splits are by function. The truth table on the whole domain is hashed, and the hash
alone decides, so that no function of the test split is trained on under another name,
whatever families are chosen.
"""

import functools
import hashlib

import numpy as np

from agentic_grpo.envs.code_execution.problems.families import FAMILIES
from agentic_grpo.envs.code_execution.problems.family import (
    NUM_M,
    NUM_N,
    Family,
)

SPLITS = ("train", "validation", "test", "compositions")
NONE = len(SPLITS)  # a held-out composition that equals an ordinary function

_TEST_SHARE, _VALIDATION_SHARE = 0.2, 0.1


def domain(*, reads_m: bool) -> np.ndarray:
    """int32 [D, 2]: the inputs (n, m), m the fastest; m = 1 alone where not read."""
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


def assign(family: Family, table: np.ndarray) -> int:
    """The split of one function of a family; NONE for a held-out one that is known."""
    key = function_key(table)
    if not family.held_out:
        return split_of(key)
    return NONE if key in ordinary_functions() else SPLITS.index("compositions")
