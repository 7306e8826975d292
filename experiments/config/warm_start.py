"""The warm start of a config."""

from agentic_grpo.training.warm_start import WarmStartSettings
from experiments.config.checks import instantiate

#: Of a model that is trained from nothing; a published one needs none.
USUAL_STEPS = 500


def settings(config) -> WarmStartSettings:
    """How long, and how; raises a ValueError that names the field."""
    fields = dict(config.warm_start)
    if fields["num_steps"] is None:
        fields["num_steps"] = 0 if config.model.pretrained else USUAL_STEPS
    return instantiate("warm_start", WarmStartSettings, fields)
