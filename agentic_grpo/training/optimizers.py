"""The optimizer and the learning rate of a run, as one thing and the other.

The learner multiplies a direction of unit learning rate by the rate of the tick, so
that schedules count ticks and not steps.
"""

from collections.abc import Callable

import optax

from agentic_grpo.errors import require, require_choice

SCHEDULES = ("constant", "linear", "cosine")


def adamw(
    *,
    b1: float = 0.9,
    b2: float = 0.98,
    weight_decay: float = 0.0,
    max_grad_norm: float = 1.0,
) -> optax.GradientTransformation:
    """AdamW of unit learning rate, its gradient cut at a global norm."""
    return optax.chain(
        optax.clip_by_global_norm(max_grad_norm),
        optax.scale_by_adam(b1=b1, b2=b2),
        optax.add_decayed_weights(weight_decay),
        optax.scale(-1.0),
    )


def schedule(
    peak: float, *, num_ticks: int, name: str = "constant", warmup_ticks: int = 0
) -> Callable:
    """tick -> learning rate: a warm-up, then what the name says, to 0 at the end.

    Args:
      peak: the rate after the warm-up.
      num_ticks: of the run.
      name: one of ``SCHEDULES``.
      warmup_ticks: over which the rate rises in equal steps; no tick has rate 0.

    Raises:
      Refused: an unknown name, or a warm-up that never ends.
    """
    require_choice("schedule", name, SCHEDULES)
    require(
        warmup_ticks < num_ticks,
        "warmup_ticks",
        warmup_ticks,
        f"below num_ticks={num_ticks}",
    )
    rest = num_ticks - warmup_ticks
    decay = {
        "constant": lambda: optax.constant_schedule(peak),
        "linear": lambda: optax.linear_schedule(peak, 0.0, rest),
        "cosine": lambda: optax.cosine_decay_schedule(peak, rest),
    }[name]()
    if not warmup_ticks:
        return decay
    start = peak / (warmup_ticks + 1)
    warmup = optax.linear_schedule(start, peak, warmup_ticks)
    return optax.join_schedules([warmup, decay], [warmup_ticks])
