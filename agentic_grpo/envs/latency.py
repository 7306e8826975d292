"""Simulated latencies: how many ticks pass until an answer comes."""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from agentic_grpo.errors import require


@dataclasses.dataclass(frozen=True, kw_only=True)
class Latency:
    """Ticks between writing and reward, drawn per member and stage.

    Attributes:
      minimum: ticks, in most cases.
      maximum: most ticks; None: as ``minimum``.
      tail_probability: that it is instead uniformly one of minimum + 1 .. maximum, so
        that a group has stragglers.
    """

    minimum: int
    maximum: int = None  # type: ignore[assignment]  # __post_init__ fills it
    tail_probability: float = 0.0

    def __post_init__(self):
        if self.maximum is None:
            object.__setattr__(self, "maximum", self.minimum)
        for holds, field, rule in (
            (self.minimum >= 0, "minimum", "at least 0"),
            (self.maximum >= self.minimum, "maximum", f"at least {self.minimum}"),
            (0.0 <= self.tail_probability <= 1.0, "tail_probability", "in [0, 1]"),
            (
                self.tail_probability == 0 or self.maximum > self.minimum,
                "tail_probability",
                "0 unless maximum is greater than minimum",
            ),
        ):
            require(holds, field, getattr(self, field), rule)


def draw(
    uniform: jax.Array, latencies: Sequence[Latency], index: jax.Array
) -> jax.Array:
    """int32 [N, G]: ticks drawn from ``latencies[index]``.

    Args:
      uniform: float [N, 2, G] in [0, 1); for the tail, and for the place in it.
      latencies: the distributions.
      index: int32 [N].
    """

    def column(values, dtype):
        return jnp.asarray(values, dtype)[index][:, None]

    minimum = column([latency.minimum for latency in latencies], jnp.int32)
    span = column(
        [latency.maximum - latency.minimum for latency in latencies], jnp.int32
    )
    share = column([latency.tail_probability for latency in latencies], jnp.float32)
    late = jnp.floor(uniform[:, 1] * span).astype(jnp.int32)
    extra = jnp.minimum(1 + late, span)
    return minimum + jnp.where(uniform[:, 0] < share, extra, 0)
