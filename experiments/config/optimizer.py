"""The optimizer and the learning rate of a config."""

import optax

from experiments.config.checks import choose, require


def optimizer(learner) -> optax.GradientTransformation:
    """AdamW of unit learning rate: the learner multiplies by that of the tick."""
    return optax.chain(
        optax.clip_by_global_norm(learner.max_grad_norm),
        optax.scale_by_adam(b1=learner.b1, b2=learner.b2),
        optax.add_decayed_weights(learner.weight_decay),
        optax.scale(-1.0),
    )


#: The rate of a model with hidden_size * num_layers = 1, as the laboratory tuned it:
#: 5e-4 at width 64 and 2 layers.
RATE_OF_UNIT_MODEL = 0.064


def peak_rate(learner, model) -> float:
    """``learner.learning_rate``, or where that is 0 a rate that fits the model.

    Adam moves every weight by about the rate, whatever the gradient; what the model
    says then moves by the rate times the number of weights that a unit reads (the
    width) and of blocks that add up (the layers). So the rate goes with 1 / (width *
    layers): by width as in Tensor Programs V (arXiv 2203.03466).
    """
    if learner.learning_rate:
        return learner.learning_rate
    return RATE_OF_UNIT_MODEL / (model.hidden_size * model.num_layers)


def schedule(learner, model, num_ticks):
    """tick -> learning rate: a warm-up, then what ``learner.schedule`` names.

    Raises:
      ValueError: names the field, its value and the rule.
    """
    require(
        learner.warmup_ticks < num_ticks,
        "learner.warmup_ticks",
        learner.warmup_ticks,
        f"below num_ticks={num_ticks}",
    )
    peak, rest = peak_rate(learner, model), num_ticks - learner.warmup_ticks
    after = {
        "constant": optax.constant_schedule(peak),
        "linear": optax.linear_schedule(peak, 0.0, rest),
        "cosine": optax.cosine_decay_schedule(peak, rest),
    }
    decay = choose("learner.schedule", learner.schedule, after)
    if not learner.warmup_ticks:
        return decay
    start = peak / (learner.warmup_ticks + 1)
    warmup = optax.linear_schedule(start, peak, learner.warmup_ticks)
    return optax.join_schedules([warmup, decay], [learner.warmup_ticks])
