"""The policy loss of both phases with its anchor, importance treatment and diagnostics.

Composes ``ops.policy_losses`` and ``ops.importance_ratios`` into the one function that
the learner calls.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.errors import require, require_choice
from agentic_grpo.ops.doors import Array, expects
from agentic_grpo.ops.importance_ratios import (
    ANCHORS,
    Anchored,
    anchored,
    importance_weights,
    log_ratios,
    token_ratios,
)
from agentic_grpo.ops.kl_estimators import kl_reward
from agentic_grpo.ops.policy_losses import (
    Objective,
    is_clipped,
    reinforce_loss,
    token_credit,
    two_phase_losses,
)
from agentic_grpo.ops.ratio_statistics import dropped_credit, weight_moments
from agentic_grpo.ops.reductions import Reduction, masked_mean
from agentic_grpo.records import PHASES, TokenCredit


def make_objective(
    objective: Objective,
    *,
    anchor: str = "behaviour",
    granularity: str = "token",
    treatment: str = "none",
    low: float = 0.5,
    high: float = 2.0,
    length_normalised: bool = False,
    segment_of_column: np.ndarray | None = None,
) -> Callable[..., tuple[jax.Array, dict[str, Reduction]]]:
    """The ``LearnerSettings.objective`` of an anchor and an importance treatment.

    The anchors are those of ``ops.importance_ratios.anchored``. With ``behaviour`` the
    ratio of the loss is the importance ratio already, so a treatment on top would
    weight twice and is refused; with the other two the weight is pi_anchor / mu.

    A treatment drops tokens of the loss, it does not judge rewards: a member whose
    weight is 0 still counts in the baseline of its group. Its reward was measured, and
    the credit was noted before anybody knew today's ratio; a baseline over those who
    are left would change from step to step and could not be taken back. What is dropped
    is reported (``dropped_credit``).

    Args:
      objective: one of ``ops.policy_losses``.
      anchor: one of ``ANCHORS``.
      granularity, treatment, low, high, length_normalised: of the weights; see
        ``importance_weights``.
      segment_of_column: int [T], static; needed with granularity ``stage``.

    Returns:
      (log_probs [N, T], anchor_log_probs [N, T], behaviour_log_probs [N, T], credit
      [2, N, T]) -> (losses [2, N, T], diagnostics: dict of ``Mean``).

    Raises:
      ValueError: an option is unknown, or would weight twice.
    """
    require_choice("anchor", anchor, ANCHORS)
    require(
        anchor != "behaviour" or treatment == "none",
        "importance_treatment",
        treatment,
        "'none' with anchor='behaviour': its ratio is the importance ratio already",
    )
    require(
        granularity != "stage" or segment_of_column is not None,
        "segment_of_column",
        None,
        "given with granularity='stage'",
    )
    weigh = functools.partial(
        importance_weights,
        granularity=granularity,
        treatment=treatment,
        low=low,
        high=high,
        length_normalised=length_normalised,
        segment_of_column=segment_of_column if granularity == "stage" else None,
    )

    @expects(
        log_probs="float [N, T]",
        anchor_log_probs="float [N, T]",
        behaviour_log_probs="float [N, T]",
        credit="TokenCredit [2]",
    )
    def compute(
        log_probs: Array,
        anchor_log_probs: Array | None,
        behaviour_log_probs: Array,
        credit: TokenCredit,
    ) -> tuple[jax.Array, dict[str, Reduction]]:
        reference = anchored(
            log_probs,
            behaviour_log_probs,
            jnp.any(credit.mask, axis=0),
            anchor=anchor,
            post_immediate=anchor_log_probs if anchor == "post_immediate" else None,
            weigh=None if anchor == "behaviour" else weigh,
        )
        losses = two_phase_losses(
            log_probs,
            reference.log_probs,
            credit,
            objective=objective,
            weights=reference.weights,
        )
        today = jax.lax.stop_gradient(log_probs)
        return losses, diagnose(today, reference, behaviour_log_probs, credit)

    return compute


@expects(
    log_probs="float [..., T]",
    reference_log_probs="float [..., T]",
    mask="bool [..., T]",
    behaviour_log_probs="float [..., T]",
)
def kl_as_reward(
    log_probs: Array,
    reference_log_probs: Array,
    mask: Array,
    *,
    estimator: str,
    behaviour_log_probs: Array,
) -> jax.Array:
    """The KL as a penalty on the reward of each token, in place of a term of the loss.

    -sg(rho) sg(-k) log pi: a policy gradient whose advantage is minus the estimate.
    Arguments as of ``ops.kl_estimators.kl_loss``; only k1 is unbiased here.

    Returns:
      float [..., T]; losses per token.
    """
    reward = kl_reward(log_probs, reference_log_probs, mask, estimator=estimator)
    credit = token_credit(reward, mask, clip_low=0.0, clip_high=0.0)
    return reinforce_loss(log_probs, behaviour_log_probs, credit)


@expects(
    log_probs="float [N, T]",
    behaviour_log_probs="float [N, T]",
    credit="TokenCredit [2]",
)
def diagnose(
    log_probs: Array,
    reference: Anchored,
    behaviour_log_probs: Array,
    credit: TokenCredit,
) -> dict[str, Reduction]:
    """How far the policy has moved from what sampled, and what credit that costs.

    Args:
      log_probs: float [N, T]; today's, detached.
      reference: ``Anchored``, [N, T]; what the ratio of the loss is taken against.
      behaviour_log_probs: float [N, T].
      credit: [2, N, T].

    Returns:
      dict of sums, for each phase: ``kl_to_behaviour`` (k1: mean of log mu - log
      pi), ``log_ratio_size``, ``effective_sample_share`` (of pi / mu), and by sign of
      the advantage ``dropped_tokens_*`` and ``dropped_credit_*``: what the clip, or a
      weight of 0, takes the gradient away from.
    """
    metrics: dict[str, Reduction] = {}
    for index, phase in enumerate(PHASES):
        part = jax.tree.map(lambda x, index=index: x[index], credit)
        mask = part.mask
        logs = log_ratios(log_probs, behaviour_log_probs, mask)
        ratios = token_ratios(log_probs, behaviour_log_probs, mask)
        moved = token_ratios(log_probs, reference.log_probs, mask)
        dropped = is_clipped(moved, part) | (reference.weights == 0.0)
        report: dict[str, Reduction] = {
            "kl_to_behaviour": masked_mean(-logs, mask),
            "log_ratio_size": masked_mean(jnp.abs(logs), mask),
            "effective_sample_share": weight_moments(ratios, mask),
            **dropped_credit(dropped, part),
        }
        metrics |= {f"{phase}/{name}": value for name, value in report.items()}
    return metrics
