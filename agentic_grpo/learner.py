"""Gradient and optimizer: one step for any mixture of episodes, stages and phases.

The learner knows no environment and no clock. It receives rows of tokens with the
credit written on them, scores the tokens once, and takes one step. Across devices it
differentiates the *local* total and then sums gradients and counts in one ``psum``: a
``psum`` inside the differentiated loss gives wrong gradients.

Letters: N rows (an episode each), T token columns; the leading 2 is the phase.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from agentic_grpo import batch_parts, records
from agentic_grpo.ops.reductions import (
    Mean,
    is_reduction,
    masked_mean,
    sum_over_devices,
)


@records.record
class Batch:
    """Rows to learn from.

    Attributes:
      tokens: int32 [N, T].
      token_mask: bool [N, T].
      anchor_log_probs: float32 [N, T]; what the ratios are taken against.
      behaviour_log_probs: float32 [N, T]; as recorded at sampling.
      credit: ``records.TokenCredit`` [2, N, T].
    """

    tokens: jax.Array
    token_mask: jax.Array
    anchor_log_probs: jax.Array
    behaviour_log_probs: jax.Array
    credit: records.TokenCredit


@records.record
class LearnerState:
    """What an optimizer step changes, and what it is measured from.

    Attributes:
      params: of the policy; where some are frozen, the trained ones.
      optimizer_state: of the optax transformation.
      step: int32 []; steps really taken: the version of the parameters.
      skipped: int32 []; steps skipped because something was not finite, in a row.
      reference_params: of the frozen reference policy; None without a KL term, and
        where ``frozen`` is that policy.
      frozen: what the policy reads besides and no step changes; None: nothing.
    """

    params: Any
    optimizer_state: Any
    step: jax.Array
    skipped: jax.Array
    reference_params: Any
    frozen: Any = None

    @property
    def policy_params(self):
        """What the policy reads: its parameters, or the pair (frozen, trained)."""
        return join(self.frozen, self.params)


def join(frozen, trained):
    """Parameters of a policy of which some may be frozen."""
    return trained if frozen is None else (frozen, trained)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearnerSettings:
    """Static choices of the loss around the policy objective.

    Attributes:
      objective: (log_probs, anchor_log_probs, behaviour_log_probs, credit) -> (losses
        [2, N, T], diagnostics dict of ``Mean``); see ``ops.policy_losses``.
      aggregate: (values [N, T], mask [N, T]) -> ``Mean``; what a loss is divided by.
        Totals add up over parts of a batch; the count is taken once, of the whole
        batch of a device, so that packing and microbatches change nothing.
      temperature: of every log-prob; that of sampling.
      entropy_weight: of the entropy bonus on trained tokens.
      kl_weight: of the KL to the reference parameters on trained tokens.
      kl_loss: (log_probs, reference_log_probs, mask, behaviour_log_probs=) -> loss
        [N, T]; ``ops.kl_estimators.kl_loss``.
      num_microbatches: the gradient is accumulated over this many parts of the batch.
    """

    objective: Callable[..., Any]
    aggregate: Callable[..., Mean]
    temperature: float = 1.0
    entropy_weight: float = 0.0
    kl_weight: float = 0.0
    kl_loss: Callable[..., jax.Array] | None = None
    num_microbatches: int = 1


def init(params, optimizer, *, with_reference=False) -> LearnerState:
    """A learner at step 0; the reference, if any, is a copy of the parameters.

    Of a pair (frozen, trained) the frozen ones, read alone, are the reference.
    """
    frozen, trained = params if isinstance(params, tuple) else (None, params)
    with_reference = with_reference and frozen is None
    return LearnerState(
        params=trained,
        optimizer_state=optimizer.init(trained),
        step=jnp.zeros((), jnp.int32),
        skipped=jnp.zeros((), jnp.int32),
        reference_params=jax.tree.map(jnp.copy, trained) if with_reference else None,
        frozen=frozen,
    )


def update(
    state: LearnerState,
    batch: Batch,
    score,
    optimizer: optax.GradientTransformation,
    settings: LearnerSettings,
    *,
    learning_rate,
    axis_name=None,
    packed=None,
):
    """One optimizer step; none if nothing is to be learnt or something is not finite.

    Args:
      state: the learner.
      batch: rows with credit; those without cost time but change nothing.
      score: ``models.base.Policy.score``.
      optimizer: turns gradients into a direction of unit learning rate, so that the
        schedule can count ticks instead of steps.
      settings: static.
      learning_rate: float [].
      axis_name: of the devices that hold other rows of the same batch.
      packed: ``models.base.Policy.packed``: score only what the trained tokens need,
        short rows side by side. Values and gradients are those without. None: all
        columns of all rows.

    Returns:
      (state, metrics: dict of ``Mean`` and scalars). An *idle* step (no credit differs
      from zero, and neither KL nor entropy is asked for) leaves parameters, moments and
      weight decay untouched.
    """
    gradients, count, metrics = _accumulate(state, batch, score, settings, packed)
    gradients, count, metrics = sum_over_devices((gradients, count, metrics), axis_name)
    gradients = jax.tree.map(lambda g: g / jnp.maximum(count, 1.0), gradients)
    norm = optax.tree.norm(gradients)
    updates, optimizer_state = optimizer.update(
        gradients, state.optimizer_state, state.params
    )
    params = jax.tree.map(lambda p, u: p + learning_rate * u, state.params, updates)

    regularised = settings.kl_weight != 0.0 or settings.entropy_weight != 0.0
    trained = metrics["trained_tokens" if regularised else "tokens_with_credit"]
    finite = jnp.isfinite(norm) & jnp.isfinite(optax.tree.norm(params))
    busy = trained.total > 0
    take = busy & finite

    def choose(new, old):
        return jax.tree.map(lambda a, b: jnp.where(take, a, b), new, old)

    in_a_row = jnp.where(busy, jnp.where(finite, 0, state.skipped + 1), state.skipped)
    state = LearnerState(
        params=choose(params, state.params),
        optimizer_state=choose(optimizer_state, state.optimizer_state),
        step=state.step + take,
        skipped=in_a_row,
        reference_params=state.reference_params,
        frozen=state.frozen,
    )
    metrics |= {
        "gradient_norm": Mean(jnp.where(take, norm, 0.0), take.astype(jnp.float32)),
        "trained_tokens": _once(metrics["trained_tokens"].total),
        "tokens_with_credit": _once(metrics["tokens_with_credit"].total),
        "gradient_tokens": jnp.where(take, metrics["trained_tokens"].total, 0.0),
        "idle": _once(~busy),
        "skipped_in_a_row": in_a_row,
        "not_finite": _once(busy & ~finite),
    }
    return state, metrics


def take_steps(passes, state: LearnerState, *arguments, **options):
    """``passes`` optimizer steps over the same rows; arguments as in ``update``.

    A step that is refused leaves the parameters as they were, so that every pass after
    it is refused too.

    Returns:
      (state, accepted, metrics). accepted bool []: the first pass was taken, or had
      nothing to do; if not, none was, and the credit is still to be applied. Sums in
      the metrics are over the passes, a scalar is of the last one; "gradient_tokens"
      float32 []: tokens of the passes taken, "passes_taken" ``Mean``.
    """
    of_pass = []
    for _ in range(passes):
        state, metrics = update(state, *arguments, **options)
        of_pass.append(metrics)
    metrics |= {
        name: jax.tree.map(lambda *parts: sum(parts), *(m[name] for m in of_pass))
        for name, value in metrics.items()
        if name == "gradient_tokens" or is_reduction(value)
    }
    metrics["passes_taken"] = _once(metrics["gradient_norm"].count)
    return state, of_pass[0]["not_finite"].total == 0, metrics


def _accumulate(state, batch, score, settings, packed):
    """Gradient of the local total, its count, and metrics, over all parts of a batch.

    Parts only ever add totals up. What they are divided by belongs to the whole batch:
    counted once per part, a constant would grow with the number of parts.
    """

    reference = state.reference_params if state.frozen is None else state.frozen

    def of_part(part, score=score):
        def local_total(trained):
            params = join(state.frozen, trained)
            return _loss(params, reference, part, score, settings)

        return jax.grad(local_total, has_aux=True)(state.params)

    if packed is not None:
        gradients, metrics = batch_parts.over_packed_rows(of_part, batch, packed)
    elif settings.num_microbatches > 1:
        gradients, metrics = batch_parts.over_microbatches(
            of_part, batch, settings.num_microbatches
        )
    else:
        gradients, metrics = of_part(batch)

    def count(mask):
        return settings.aggregate(jnp.zeros(mask.shape, jnp.float32), mask).count

    mask = batch.credit.mask
    for index, phase in enumerate(records.PHASES):
        name = f"{phase}/loss"
        metrics[name] = Mean(metrics[name], count(mask[index]))
    trained = jnp.any(mask, axis=0)
    with_credit = jnp.any(mask & (batch.credit.advantage != 0.0), axis=0)
    metrics |= {
        "trained_tokens": _once(jnp.sum(trained)),
        "tokens_with_credit": _once(jnp.sum(with_credit)),
    }
    return gradients, count(trained), metrics


def _loss(params, reference_params, batch, score, settings):
    """(total loss of these rows, metrics: sums; the loss of a phase is a total)."""
    log_probs, entropy = score(
        params, batch.tokens, batch.token_mask, temperature=settings.temperature
    )
    credit = batch.credit
    losses, metrics = settings.objective(
        log_probs, batch.anchor_log_probs, batch.behaviour_log_probs, credit
    )
    phases = {
        f"{name}/loss": settings.aggregate(losses[phase], credit.mask[phase]).total
        for phase, name in enumerate(records.PHASES)
    }
    trained = jnp.any(credit.mask, axis=0)
    total = sum(phases.values())
    if settings.entropy_weight:
        total -= settings.entropy_weight * settings.aggregate(entropy, trained).total
    if settings.kl_weight:
        reference, _ = score(
            reference_params,
            batch.tokens,
            batch.token_mask,
            temperature=settings.temperature,
        )
        per_token = settings.kl_loss(
            log_probs, reference, trained, behaviour_log_probs=batch.behaviour_log_probs
        )
        total += settings.kl_weight * settings.aggregate(per_token, trained).total
        metrics["kl_to_reference"] = masked_mean(log_probs - reference, trained)
    metrics |= {"entropy": masked_mean(entropy, trained), **phases}
    return total, jax.lax.stop_gradient(metrics)


def _once(value):
    """A number of this tick as a ``Mean`` over ticks."""
    return Mean(jnp.asarray(value, jnp.float32), jnp.ones((), jnp.float32))
