"""The warm start of a config."""

from agentic_grpo.training.warm_start import WarmStartSettings
from experiments.config import elsewhere
from experiments.config.checks import instantiate, require

#: Of a model that is trained from nothing; a published one needs none.
USUAL_STEPS = 500


def settings(config, agent=None) -> WarmStartSettings:
    """How long, and how; raises a ValueError that names the field.

    Args:
      config: of the run.
      agent: the scripted agent; of an environment from elsewhere there may be none.
    """
    fields = dict(config.warm_start)
    imitates = agent is not None or not elsewhere.is_elsewhere(config.env.name)
    if fields["num_steps"] is None:
        starts_ready = config.model.pretrained or config.init_from or not imitates
        fields["num_steps"] = 0 if starts_ready else USUAL_STEPS
    require(
        imitates or fields["num_steps"] == 0,
        "warm_start.num_steps",
        fields["num_steps"],
        f"0, or none: {config.env.name} makes no scripted agent to imitate",
    )
    require(
        not config.init_from or fields["num_steps"] == 0,
        "warm_start.num_steps",
        fields["num_steps"],
        f"0, or none, with init_from={config.init_from!r}: that is where it starts",
    )
    return instantiate("warm_start", WarmStartSettings, fields)
