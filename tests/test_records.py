"""The layout of an episode: which column belongs to what, and what is refused."""

import numpy as np
import pytest

from agentic_grpo.layout import EpisodeLayout, StageKind, StageSpec, fully_visible


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
    np.testing.assert_array_equal(TWO.is_estimate, [True, False])
    np.testing.assert_array_equal(TWO.is_skill, [False, True])


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
