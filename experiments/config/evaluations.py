"""The evaluations of a config."""

import jax

from agentic_grpo.training.evaluation import EvaluationSettings
from experiments.config.checks import instantiate


def settings(config, environment) -> tuple[EvaluationSettings, EvaluationSettings]:
    """(of the learning curve, of the test split before and after).

    Raises:
      ValueError: names the field, its value and the rule; or an empty split.
    """
    e = config.evaluation
    as_trained = e.temperature is None
    for split in ("train", "test", e.split):
        _require_split(environment, split)
    shared = dict(
        samples_per_problem=e.samples_per_problem,
        pass_at=tuple(e.pass_at),
        batch_size=e.batch_size,
        temperature=config.rollout.temperature if as_trained else e.temperature,
    )
    curve = dict(split=e.split, num_problems=e.num_problems, **shared)
    test = dict(split="test", num_problems=e.test_problems, with_greedy=True, **shared)
    return (
        instantiate("evaluation", EvaluationSettings, curve),
        instantiate("evaluation", EvaluationSettings, test),
    )


def _require_split(environment, split):
    def start():
        keys = jax.random.split(jax.random.key(0), 1)
        return environment.start(keys, split=split, num_members=1)

    try:
        jax.eval_shape(start)
    except ValueError as error:
        raise ValueError(f"evaluation.split={split!r} is refused: {error}") from error
