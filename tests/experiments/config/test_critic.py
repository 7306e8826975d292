"""A critic in a config: built where it is asked, refused where nobody asks it."""

import pytest

from experiments.config import build, optimizer
from experiments.configs import smoke

ASKED = {"algorithm.signal": "critic", "critic.kind": "decoder"}


def changed(**changes):
    config = smoke.get_config()
    config.update_from_flattened_dict(changes)
    return config


@pytest.mark.parametrize("kind", ["decoder", "head"])
@pytest.mark.parametrize("credit", ["calibrated", "agentic", "immediate"])
def test_a_critic_that_is_asked_is_built(kind, credit):
    program = build.build(
        changed(**{**ASKED, "critic.kind": kind, "algorithm.credit": credit})
    ).program
    assert program.critic.capacity == 512
    assert program.credit_rule.event_mask.all()


def test_a_critic_traces_with_the_tick_and_a_pilot():
    config = changed(**ASKED, **{"algorithm.pilot_groups": 4})
    experiment = build.build(config)
    build.trace(experiment)
    shapes = build.state_shapes(experiment)
    assert shapes.memory.verdict.shape == (1, 512)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm.signal": "critic"}, r"critic\.kind='none' must be decoder or"),
        ({"critic.kind": "decoder"}, r"critic\.kind='decoder' must be 'none'"),
        ({"critic.kind": "oracle"}, r"critic\.kind='oracle'"),
        (
            {**ASKED, "algorithm.credit": "outcome"},
            r"algorithm\.signal='critic' must be 'reward' with credit 'outcome'",
        ),
        ({"algorithm.credit": "value_baseline"}, r"critic\.kind='none' must be"),
        ({**ASKED, "critic.kind": "head", "critic.sees": "actions"}, r"critic\.sees="),
        ({**ASKED, "critic.sees": "all of it"}, r"critic\.sees='all of it'"),
        ({**ASKED, "critic.capacity": 2}, r"critic\.capacity=2 must be at least"),
        ({**ASKED, "critic.hidden_size": 6}, r"critic\.hidden_size=6 must be"),
        ({"algorithm.pilot_groups": 1}, r"algorithm\.pilot_groups=1 must be 0, or"),
        (
            {"algorithm.pilot_groups": 8, "rollout.verdict_deadline": 2},
            r"algorithm\.pilot_groups=8 must be 0: no verdict comes within "
            r"rollout\.verdict_deadline=2, the earliest takes 3",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_field_value_and_rule(changes, message):
    with pytest.raises(ValueError, match=message):
        build.build(changed(**changes))


def test_the_rate_that_fits_the_model_goes_with_its_width_and_depth():
    config = changed(
        **{
            "learner.learning_rate": 0.0,
            "model.hidden_size": 64,
            "model.num_layers": 2,
        }
    )
    assert optimizer.peak_rate(config.learner, config.model) == 5e-4
    config.model.hidden_size, config.model.num_layers = 96, 3
    rate = optimizer.peak_rate(config.learner, config.model)
    assert abs(rate - 5e-4 * (64 * 2) / (96 * 3)) < 1e-12
    config.learner.learning_rate = 1e-3  # what is asked for is what is taken
    assert optimizer.peak_rate(config.learner, config.model) == 1e-3
