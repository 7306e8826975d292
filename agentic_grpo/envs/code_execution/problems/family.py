"""What a problem family is, and the domain of all its functions."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

#: Inputs are n = 0 .. 63 and m = 0 .. 7; a family that does not read m ignores it.
NUM_N, NUM_M = 64, 8
NUM_LEVELS = 5

#: The parameter that a statement may hide; it is always f(0).
HIDEABLE = "b"

Range = tuple[int, int]  # both ends included


def _keep_all(**_parameters: int) -> bool:
    return True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
    """One family of functions of n (and m), in the machine's mnemonics.

    Braces name the parameters: single digits, which statements and programs copy. The
    parameter ``b`` is the one that a statement may hide; it is always f(0), so that
    executing the brute force on the smallest case reveals it.

    Attributes:
      name: unique among the families.
      level: difficulty, 1 .. NUM_LEVELS.
      statement: what the agent is told; its last word is ``{b}``.
      parameters: the values of each parameter.
      truth: (n, m, **parameters) -> f on NumPy arrays; a third, independent text.
      brute_force: obviously right and slow.
      efficient: meets the strict fuel on large inputs.
      keep: which combinations of the parameters make a problem.
      small_n, large_n: n of small and of large tests.
      small_m: m of small tests; that of large ones is 1 .. NUM_M - 1.
      reads_m: whether f depends on m.
      held_out: kept for the split ``compositions`` alone.
    """

    name: str
    level: int
    statement: str
    parameters: dict[str, range | tuple[int, ...]]
    truth: Callable[..., Any]
    brute_force: str
    efficient: str
    keep: Callable[..., bool] = _keep_all
    small_n: Range = (4, 9)
    large_n: Range = (32, NUM_N - 1)
    small_m: Range = (1, NUM_M - 1)
    reads_m: bool = False
    held_out: bool = False

    def instances(self) -> Iterator[dict[str, int]]:
        """The parameters of every problem of the family, ``b`` the fastest."""
        names = [*(name for name in self.parameters if name != HIDEABLE), HIDEABLE]
        for values in itertools.product(*(self.parameters[name] for name in names)):
            parameters = dict(zip(names, values, strict=True))
            if self.keep(**parameters):
                yield parameters
