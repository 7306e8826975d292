"""The optimizer and the learning rate of a config."""

import optax

from agentic_grpo.errors import Refused
from agentic_grpo.training import optimizers


def optimizer(learner) -> optax.GradientTransformation:
    """AdamW of unit learning rate: the learner multiplies by that of the tick."""
    names = ("b1", "b2", "weight_decay", "max_grad_norm")
    return optimizers.adamw(**{name: learner[name] for name in names})


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
    try:
        return optimizers.schedule(
            peak_rate(learner, model),
            num_ticks=num_ticks,
            name=learner.schedule,
            warmup_ticks=learner.warmup_ticks,
        )
    except Refused as error:
        raise error.under("learner") from error
