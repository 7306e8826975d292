"""The policy loss of both phases with its anchor, importance treatment and diagnostics.

Composes ``ops.policy_losses`` and ``ops.importance_ratios`` into the one function that
the learner calls.
"""

import functools

import jax
import jax.numpy as jnp

from agentic_grpo.ops.group_advantages import check_choice
from agentic_grpo.ops.importance_ratios import (
    ANCHORS,
    importance_weights,
    log_ratios,
    token_ratios,
)
from agentic_grpo.ops.policy_losses import is_clipped, two_phase_losses
from agentic_grpo.ops.reductions import Mean, masked, masked_mean
from agentic_grpo.records import PHASES


def make_objective(
    objective,
    *,
    anchor,
    level,
    treatment,
    low,
    high,
    length_normalised,
    segment_of_column,
):
    """The ``LearnerSettings.objective`` of an anchor and an importance treatment.

    * ``behaviour``: the ratio is taken against the log-probs at sampling. It already is
      the importance ratio, so a treatment on top would weight twice and is refused.
    * ``post_immediate``: against the log-probs right after the immediate update, which
      the row carries as its anchor; the weight is pi_anchor / mu.
    * ``proximal``: against today's log-probs, detached; the weight is pi / mu. With one
      step per tick the ratio is 1 and the clip is idle.

    Args:
      objective: one of ``ops.policy_losses``.
      anchor: one of ``ANCHORS``.
      level, treatment, low, high, length_normalised: of the weights; see
        ``importance_weights``.
      segment_of_column: int [T], static.

    Returns:
      (log_probs [N, T], anchor_log_probs [N, T], behaviour_log_probs [N, T], credit
      [2, N, T]) -> (losses [2, N, T], diagnostics: dict of ``Mean``).

    Raises:
      ValueError: an option is unknown, or would be ignored.
    """
    check_choice("anchor", anchor, ANCHORS)
    if anchor == "behaviour" and treatment != "none":
        raise ValueError(
            f"importance_treatment={treatment!r} must be 'none' with "
            "anchor='behaviour': its ratio is the importance ratio already"
        )
    weigh = functools.partial(
        importance_weights,
        level=level,
        treatment=treatment,
        low=low,
        high=high,
        length_normalised=length_normalised,
        segment_of_column=segment_of_column if level == "stage" else None,
    )

    def compute(log_probs, anchor_log_probs, behaviour_log_probs, credit):
        today = jax.lax.stop_gradient(log_probs)
        reference = today if anchor == "proximal" else anchor_log_probs
        trained = jnp.any(credit.mask, axis=0)
        weights = None
        if anchor != "behaviour":
            weights = weigh(reference, behaviour_log_probs, trained)
        losses = two_phase_losses(
            log_probs, reference, credit, objective=objective, weights=weights
        )
        return losses, diagnose(today, reference, behaviour_log_probs, credit, weights)

    return compute


def diagnose(log_probs, reference, behaviour_log_probs, credit, weights=None):
    """How far the policy has moved from what sampled, and what the clip lets through.

    Args:
      log_probs: float [N, T]; today's, detached.
      reference: float [N, T]; what the ratio is taken against.
      behaviour_log_probs: float [N, T].
      credit: [2, N, T].
      weights: float [N, T]; none means 1.

    Returns:
      dict of ``Mean``, per phase: ``PHASE/kl_to_behaviour`` (k1: mean of log mu - log
      pi), ``log_ratio_size``, ``clip_fraction_up`` and ``_down`` (of tokens pushed up,
      or down, the share whose gradient the clip takes away), ``effective_sample_size``
      (of pi / mu, as a share of the tokens), ``credit_dropped_up`` and ``_down`` (share
      of the advantage that weights under 1 take away).
    """
    metrics = {}
    for index, phase in enumerate(PHASES):
        part = jax.tree.map(lambda x, index=index: x[index], credit)
        logs = log_ratios(log_probs, behaviour_log_probs, part.mask)
        ratios = token_ratios(log_probs, behaviour_log_probs, part.mask)
        clipped = is_clipped(token_ratios(log_probs, reference, part.mask), part)
        metrics |= {
            f"{phase}/kl_to_behaviour": masked_mean(-logs, part.mask),
            f"{phase}/log_ratio_size": masked_mean(jnp.abs(logs), part.mask),
            f"{phase}/effective_sample_size": _effective_share(ratios, part.mask),
        }
        for name, sign in (("up", 1.0), ("down", -1.0)):
            pushed = part.mask & (sign * part.advantage > 0.0)
            metrics[f"{phase}/clip_fraction_{name}"] = masked_mean(
                clipped.astype(jnp.float32), pushed
            )
            if weights is not None:
                size = masked(jnp.abs(part.advantage), pushed)
                lost = size * jnp.maximum(1.0 - weights, 0.0)
                metrics[f"{phase}/credit_dropped_{name}"] = Mean(
                    jnp.sum(lost), jnp.sum(size)
                )
    return metrics


def _effective_share(weights, mask):
    """(Σ w)² / (n Σ w²): 1 if all tokens weigh the same, 1 / n if one has it all."""
    weights = masked(weights, mask)
    squares = jnp.sum(weights**2)
    share = jnp.sum(weights) ** 2 / jnp.where(squares > 0.0, squares, 1.0)
    return Mean(share, jnp.sum(mask, dtype=weights.dtype))
