"""The layout of an episode: which column belongs to what, and what is refused."""

import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.layout import EpisodeLayout, StageKind, StageSpec, fully_visible
from agentic_grpo.ops import credit, doors
from agentic_grpo.records import StageEvents


def stage(name, **changes):
    fields = dict(
        name=name,
        kind=StageKind.ESTIMATE,
        action_width=2,
        observation_width=1,
        max_latency=0,
        marker=1,
    )
    return StageSpec(**{**fields, **changes})


def layout(*stages, visibility=None):
    return EpisodeLayout(
        prompt_width=3,
        stages=stages,
        visibility=visibility or fully_visible(len(stages)),
    )


TWO = layout(stage("a"), stage("b", kind=StageKind.SKILL, action_width=3))


def test_columns_are_prompt_then_marker_actions_observation_of_each_stage():
    # 3 | 1 + 2 + 1 | 1 + 3 + 1
    np.testing.assert_array_equal(TWO.offsets, [3, 7])
    assert TWO.num_columns == 12 and TWO.max_action_width == 3
    np.testing.assert_array_equal(
        TWO.segment_of_column, [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2]
    )
    assert TWO.kinds == (StageKind.ESTIMATE, StageKind.SKILL)


def test_a_stage_that_is_hidden_cannot_be_attended_to():
    # Stage b sees the prompt and itself, not stage a.
    hidden = layout(
        stage("a"),
        stage("b"),
        visibility=((True,) * 3, (True, True, True), (True, False, True)),
    )
    visible = hidden.column_visibility
    assert not visible[7:, 3:7].any()
    assert visible[10, [0, 1, 2, 7, 8, 9, 10]].all()
    assert not np.triu(visible, 1).any()


def test_without_hiding_visibility_is_causal():
    np.testing.assert_array_equal(TWO.column_visibility, np.tri(12, dtype=bool))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: layout(), "stages=.* must be at least one stage"),
        (
            lambda: layout(stage("a"), stage("a")),
            "stages=.* must be of different names",
        ),
        (lambda: stage("a", action_width=0), "action_width=0 must be at least 1"),
        (lambda: stage("a", observation_width=-1), "observation_width=-1 must be"),
        (lambda: stage("a", max_latency=-1), "max_latency=-1 must be at least 0"),
        (lambda: layout(stage("a"), visibility=((True,),)), "visibility=.* 2 x 2"),
        (
            lambda: layout(stage("a"), visibility=((True, True), (True, False))),
            "true on its diagonal",
        ),
    ],
)
def test_an_impossible_layout_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_events_are_made_of_what_there_is_to_say():
    """Rewards, verdicts and what is ready; NaN is not in; states are nobody else's."""
    reward = np.full((2, 3, 2), np.nan, np.float32)
    reward[:, :2, 0] = 0.5
    events = StageEvents.create(
        reward=reward,
        verdict=np.full((2, 3), np.nan, np.float32),
        ready=np.array([[True, False, False]] * 2),
        level=np.array([1, 2]),
    )
    np.testing.assert_array_equal(events.reward_mask, np.isfinite(reward))
    assert not np.any(events.verdict_mask) and np.all(events.acted)
    assert len(np.unique(events.state_id[0])) == 6
    np.testing.assert_array_equal(events.level, [1, 2])
    doors.check({"events": "StageEvents [U]"}, {"events": events})
    one = StageEvents.create(
        reward=reward[0], verdict=np.zeros(3, np.float32), ready=np.ones(3, bool)
    )
    doors.check({"events": "StageEvents"}, {"events": one})
    with pytest.raises(TypeError, match="lvel"):
        StageEvents.create(reward=reward[0], verdict=reward[0, :, 0], ready=0, lvel=1)


def test_the_next_events_have_the_books_of_the_last_call():
    rule = credit.agentic(["estimate"])
    events = StageEvents.create(
        reward=jnp.array([[[0.2], [0.6]]]),
        verdict=jnp.full((1, 2), jnp.nan),
        ready=jnp.array([[True, False]]),
    )
    served = rule.apply(rule.init(), events)
    later = events.after(served)
    np.testing.assert_allclose(later.applied_advantage[0, :, 0], [-0.4, 0.4], rtol=1e-6)
    assert np.all(later.paid) and not np.any(later.ready) and not later.settled[0]
    judged = events.after(served, ready=jnp.array([[False, True]]))
    assert judged.after(rule.apply(rule.init(), judged)).settled[0]
