"""What every suite needs: calls that take turns, medians with their spread, rows.

A number on a shared machine is worth what it is compared with: whatever is compared is
measured in one run, call by call in turn, so that noise hits all alike.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax


class Timing(NamedTuple):
    """Seconds of a call: the median, and the quartiles around it."""

    median: float
    low: float
    high: float

    def rate(self, amount: float) -> tuple[float, float]:
        """(amount per second at the median, relative spread: (high - low) / median)."""
        return amount / self.median, self.spread

    @property
    def spread(self) -> float:
        return (self.high - self.low) / self.median


def take_turns(calls: Sequence[Callable], *, repeats: int) -> list[Timing]:
    """Times calls in turn, after one of each that compiles and warms up.

    Args:
      calls: no arguments; what they return is waited for.
      repeats: rounds.
    """
    for call in calls:
        jax.block_until_ready(call())
    seconds = [[] for _ in calls]
    for _ in range(repeats):
        for call, of_call in zip(calls, seconds, strict=True):
            started = time.perf_counter()
            jax.block_until_ready(call())
            of_call.append(time.perf_counter() - started)
    return [summarise(of_call) for of_call in seconds]


def summarise(seconds: Sequence[float]) -> Timing:
    """Median and quartiles; a single measurement is its own quartiles."""
    if len(seconds) < 2:
        return Timing(seconds[0], seconds[0], seconds[0])
    low, median, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return Timing(median, low, high)


def result(
    suite: str,
    name: str,
    value: float,
    unit: str,
    *,
    spread: float | None = None,
    reference: str | None = None,
    reference_value: float | None = None,
    lower_is_better: bool = False,
) -> dict:
    """One row of the report.

    Args:
      suite, name, value, unit: what was measured.
      spread: of the value: (upper - lower quartile) / median.
      reference: what it is compared with, in words.
      reference_value: in the same unit.
      lower_is_better: of the value; of a time or of memory, say.

    Returns:
      A row; ``ratio`` is how many times better than the reference, or None.
    """
    ratio = None
    if reference_value is not None and value > 0 and reference_value > 0:
        ratio = reference_value / value if lower_is_better else value / reference_value
    return {
        "suite": suite,
        "name": name,
        "value": value,
        "unit": unit,
        "spread": spread,
        "reference": reference,
        "reference_value": reference_value,
        "ratio": ratio,
    }
