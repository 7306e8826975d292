"""Which checkpoints of a run stay on disk: the newest, and the best if it is wanted."""

from collections.abc import Callable

from agentic_grpo.training.checkpoint_errors import CheckpointError


class Retention:
    """Orbax's protocol for what to keep.

    Attributes:
      metrics: step -> what steps are compared by; None: it has none. Filled by whoever
        saves, and read from disk for what an earlier process has saved.
    """

    def __init__(
        self, keep: int, keep_best: bool, read_metric: Callable[[int], float | None]
    ):
        """Keeps the ``keep`` newest steps and, if asked for, the best one.

        Args:
          keep, keep_best: as of ``Checkpoints``.
          read_metric: of a step on disk; raises ``CheckpointError`` where it cannot.
        """
        self._keep = keep
        self._keep_best = keep_best
        self._read_metric = read_metric
        self.metrics: dict[int, float | None] = {}

    def should_preserve(self, checkpoints, *, context) -> list[bool]:
        """Of each checkpoint, whether it stays."""
        del context
        kept = self._kept([checkpoint.step for checkpoint in checkpoints])
        return [checkpoint.step in kept for checkpoint in checkpoints]

    def best_of(self, steps: list[int]) -> int | None:
        """The step with the highest metric, the newest of equals; None without any."""
        for step in steps:
            if step not in self.metrics:  # saved by an earlier process
                try:
                    self.metrics[step] = self._read_metric(step)
                except CheckpointError:
                    self.metrics[step] = None
        scores = {s: m for s in steps if (m := self.metrics[s]) is not None}
        return max(scores, key=lambda step: (scores[step], step), default=None)

    def _kept(self, steps: list[int]) -> set[int]:
        newest = set(sorted(steps)[-self._keep :])
        best = self.best_of(steps) if self._keep_best else None
        return newest if best is None else newest | {best}
