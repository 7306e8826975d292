"""What may be chosen of the real clock."""

import dataclasses

from agentic_grpo.errors import require


@dataclasses.dataclass(frozen=True, kw_only=True)
class RealClockSettings:
    """Seconds and bounds of work that takes real time.

    Attributes:
      stage_seconds: after which members whose stage has no answer leave their group.
      verdict_seconds: after the end of a group, the same of verdicts.
      queue: works that may wait for an answer; at this many no lane writes.
      retries: how often work that *we* failed is handed in again.
    """

    stage_seconds: float = 120.0
    verdict_seconds: float = 600.0
    queue: int = 1024
    retries: int = 2

    def __post_init__(self):
        for field in ("stage_seconds", "verdict_seconds"):
            value = getattr(self, field)
            require(value > 0, field, value, "above 0")
        require(self.retries >= 0, "retries", self.retries, "at least 0")
        require(self.queue >= 1, "queue", self.queue, "at least 1")

    def check_queue(self, works_per_tick: int) -> None:
        """Raises ``Refused`` if what one tick hands in does not fit."""
        rule = f"at least {works_per_tick}, the members that can write in one tick"
        require(self.queue >= works_per_tick, "queue", self.queue, rule)
