"""Arrays in, arrays out: no config, no keys, no I/O, no Flax. See README.md here."""

from agentic_grpo.ops import credit
from agentic_grpo.ops.aggregation import (
    constant_divisor,
    sequence_mean_token_mean,
    sequence_mean_token_sum,
    token_mean,
)
from agentic_grpo.ops.calibration import CreditState
from agentic_grpo.ops.credit import (
    Clip,
    Clips,
    Comparison,
    CreditRule,
    Fill,
    Prior,
    write_on_tokens,
)
from agentic_grpo.ops.fills import fill_stopped
from agentic_grpo.ops.group_advantages import (
    advantages_by_id,
    centred_ranks,
    group_advantages,
    group_baseline,
    group_deviation,
    has_zero_variance,
    scale_by_batch,
)
from agentic_grpo.ops.importance_ratios import (
    anchored,
    geometric_mean_ratios,
    importance_weights,
    log_ratios,
    product_ratios,
    sequence_rejection,
    token_ratios,
)
from agentic_grpo.ops.kl_estimators import kl_estimates, kl_loss, kl_reward
from agentic_grpo.ops.policy_losses import (
    cispo_loss,
    dual_clip_loss,
    gspo_loss,
    is_clipped,
    ppo_clip_loss,
    reinforce_loss,
    token_credit,
    two_phase_losses,
)
from agentic_grpo.ops.ratio_statistics import (
    chi_square,
    dropped_credit,
    effective_sample_share,
)
from agentic_grpo.ops.reductions import Mean, masked, masked_mean, masked_sum
from agentic_grpo.ops.stage_returns import (
    on_token_columns,
    stage_increments,
    stage_returns,
)
from agentic_grpo.ops.token_log_probs import read_out, token_log_probs

__all__ = [
    "Clip",
    "Clips",
    "Comparison",
    "CreditRule",
    "CreditState",
    "Fill",
    "Mean",
    "Prior",
    "advantages_by_id",
    "anchored",
    "centred_ranks",
    "chi_square",
    "cispo_loss",
    "constant_divisor",
    "credit",
    "dropped_credit",
    "dual_clip_loss",
    "effective_sample_share",
    "fill_stopped",
    "geometric_mean_ratios",
    "group_advantages",
    "group_baseline",
    "group_deviation",
    "gspo_loss",
    "has_zero_variance",
    "importance_weights",
    "is_clipped",
    "kl_estimates",
    "kl_loss",
    "kl_reward",
    "log_ratios",
    "masked",
    "masked_mean",
    "masked_sum",
    "on_token_columns",
    "ppo_clip_loss",
    "product_ratios",
    "read_out",
    "reinforce_loss",
    "scale_by_batch",
    "sequence_mean_token_mean",
    "sequence_mean_token_sum",
    "sequence_rejection",
    "stage_increments",
    "stage_returns",
    "token_credit",
    "token_log_probs",
    "token_mean",
    "token_ratios",
    "two_phase_losses",
    "write_on_tokens",
]
