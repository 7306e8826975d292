"""What a tick reports: sums and counts on the device, rates on the host."""

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo import records
from agentic_grpo.ops.reductions import Mean, count, is_reduction, masked_mean


def of_credit(layout, events, rows, credit, step) -> dict:
    """Spread, silence and staleness of the credit that was served in this tick.

    Args:
      layout: of the episodes.
      events: ``StageEvents`` of the rows [U] that were served.
      rows: ``SnapshotTable`` [U, ...].
      credit: ``StageCredit`` [2, U, ...].
      step: int32 []; the learner step.

    Returns:
      dict of ``Mean`` and counts.
    """
    metrics: dict[str, Mean | jax.Array] = {}
    for index, phase in enumerate(records.PHASES):
        mask, advantage = credit.mask[index], credit.advantage[index]
        metrics[f"{phase}/advantage_size"] = masked_mean(jnp.abs(advantage), mask)
        served = jnp.any(mask, axis=1)
        for stage, spec in enumerate(layout.stages):
            here = served[:, stage]
            metrics[f"{phase}/zero_variance_share/{spec.name}"] = masked_mean(
                credit.zero_variance[index, :, stage].astype(jnp.float32), here
            )
        age = (step - rows.version).astype(jnp.float32)
        metrics[f"{phase}/staleness"] = masked_mean(age, served)
        for bound in (1, 4, 16, 64):
            metrics[f"{phase}/staleness_over_{bound}"] = masked_mean(
                (age > bound).astype(jnp.float32), served
            )
    too_old = events.ready[:, -1:, None] & events.acted & ~events.fresh[:, None, :]
    metrics["events/expired_corrections"] = count(too_old)
    return metrics


def summarise(metrics) -> dict[str, float]:
    """Host view of metrics that were stacked over ticks: {name: number}.

    A ``Mean`` becomes the sum of its totals over the sum of its counts, and
    ``WeightMoments`` the share of all samples together (NaN where the count is 0:
    nothing of the kind happened); a count becomes its average per tick.
    """
    summary = {}
    for name, value in metrics.items():
        if is_reduction(value):
            value = jax.tree.map(lambda part: np.sum(part, axis=0), value)
            value = value.over() if value.count > 0 else np.nan
        else:
            value = np.mean(value)
        summary[name] = float(value)
    return summary
