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


def schedule(learner, num_ticks):
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
    peak, rest = learner.learning_rate, num_ticks - learner.warmup_ticks
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
