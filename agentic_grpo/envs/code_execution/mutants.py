"""Mutants."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True)
class MutantTable:
    """Hard mutants of every problem; I rows. NumPy arrays.

    Attributes:
      program: int32 [I, M, L].
      exists: bool [I, M].
    """

    program: np.ndarray
    exists: np.ndarray
