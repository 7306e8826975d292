"""Credit of stages, written on token columns."""

import jax.numpy as jnp
import numpy as np

from agentic_grpo.ops import credit

KINDS = ("estimate", "skill", "none", "estimate")
VERDICT = 4
AGENTIC = credit.agentic(KINDS)

SEGMENTS = np.array([0, 0, 1, 1, 2, 2, 3, 4, 4], np.int32)


def test_credit_is_written_on_the_tokens_of_its_stage_only(make_events, serve):
    """trl#4974: observation tokens trained too; here only what the member wrote."""
    _, credits, _ = serve(AGENTIC, make_events(1), [[0, VERDICT]])
    action_mask = np.random.default_rng(0).random((3, 4, 9)) < 0.6
    tokens = credit.write_on_tokens(credits[0], SEGMENTS, jnp.asarray(action_mask))
    for t, segment in enumerate(SEGMENTS):
        mask = np.asarray(credits[0].mask)[..., segment - 1] & action_mask[..., t]
        mask &= segment > 0
        np.testing.assert_array_equal(tokens.mask[..., t], mask)
        for field in ("advantage", "clip_low", "clip_high"):
            stage = getattr(credits[0], field)[..., segment - 1]
            np.testing.assert_array_equal(
                getattr(tokens, field)[..., t], np.where(mask, stage, 0.0)
            )


def test_silent_groups_can_leave_the_denominator_and_the_kl(make_events, serve):
    """trl#6365: two groups of 2x5 tokens, one of them silent: 20 tokens, or 10.

    trl#5588: whether a zero-variance group still feels the KL pull is a named switch.
    """
    verdict = np.array([[1, 0, 0, 1], [0.5] * 4, [0.5] * 4])
    _, credits, _ = serve(
        credit.outcome(KINDS), make_events(verdict=verdict), [[VERDICT]]
    )
    actions = jnp.ones((3, 4, 9), bool)
    included = credit.write_on_tokens(credits[0], SEGMENTS, actions)
    excluded = credit.write_on_tokens(
        credits[0], SEGMENTS, actions, exclude_zero_variance=True
    )
    assert included.mask[1].sum() == 3 * 4 * 7
    assert excluded.mask[1].sum() == 1 * 4 * 7
    np.testing.assert_array_equal(included.advantage, excluded.advantage)


def test_a_silent_group_that_owes_something_is_not_excluded(make_events, serve):
    events = make_events(2, verdict=np.full((3, 4), 0.5))
    _, credits, _ = serve(AGENTIC, events, [[0], [VERDICT]])
    tokens = credit.write_on_tokens(
        credits[1], SEGMENTS, jnp.ones((3, 4, 9), bool), exclude_zero_variance=True
    )
    assert np.all(tokens.mask[1][..., SEGMENTS == 1])
    assert not np.any(tokens.mask[1][..., SEGMENTS == 3])
