"""The loss that the learner calls: anchors, weights, and what the diagnostics count."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.ops.group_advantages import group_advantages
from agentic_grpo.ops.objective import kl_as_reward, make_objective
from agentic_grpo.ops.policy_losses import ppo_clip_loss
from agentic_grpo.records import TokenCredit

OPTIONS = dict(
    granularity="token",
    treatment="none",
    low=0.5,
    high=2.0,
    length_normalised=False,
    segment_of_column=np.array([0, 1, 1]),
)

# Ratios pi / mu: 1.5 and 0.5 on the two action columns.
BEHAVIOUR = jnp.log(jnp.array([[1.0, 0.2, 0.4]]))
TODAY = jnp.log(jnp.array([[1.0, 0.3, 0.2]]))
POST_IMMEDIATE = jnp.log(jnp.array([[1.0, 0.26, 0.4]]))


def credit(first, second):
    """Advantages of the two action columns in the correction phase."""
    mask = jnp.array([[[False] * 3], [[False, True, True]]])
    advantage = jnp.array([[[0.0] * 3], [[0.0, first, second]]])
    clip = jnp.full(mask.shape, 0.2)
    return TokenCredit(advantage=advantage, clip_low=clip, clip_high=clip, mask=mask)


def gradient(anchor, credit, **changes):
    objective = make_objective(ppo_clip_loss, anchor=anchor, **{**OPTIONS, **changes})

    def total(log_probs):
        losses, metrics = objective(log_probs, POST_IMMEDIATE, BEHAVIOUR, credit)
        return jnp.sum(losses), metrics

    return jax.grad(total, has_aux=True)(TODAY)


def test_the_behaviour_anchor_refuses_moves_outward_and_admits_moves_back():
    outward, _ = gradient("behaviour", credit(1.0, -1.0))
    np.testing.assert_allclose(outward, [[0.0, 0.0, 0.0]])
    back, _ = gradient("behaviour", credit(-1.0, 1.0))
    # -d(rho A): at full size, 1.5 and 0.5.
    np.testing.assert_allclose(back, [[0.0, 1.5, -0.5]], rtol=1e-6)


def test_the_proximal_anchor_is_never_clipped_and_weighs_by_the_ratio():
    got, _ = gradient("proximal", credit(1.0, -1.0))
    np.testing.assert_allclose(got, [[0.0, -1.5, 0.5]], rtol=1e-6)
    truncated, _ = gradient(
        "proximal", credit(1.0, -1.0), treatment="truncate", high=1.2
    )
    np.testing.assert_allclose(truncated, [[0.0, -1.2, 0.5]], rtol=1e-6)


def test_the_post_immediate_anchor_measures_from_where_the_first_phase_left_it():
    # pi / pi_post = 1.15 and 0.5; pi_post / mu = 1.3 and 1. The first is in its clip
    # range, the second beyond it, and pushed further out.
    got, _ = gradient("post_immediate", credit(1.0, -1.0))
    np.testing.assert_allclose(got, [[0.0, -1.5, 0.0]], rtol=1e-5)


def test_a_masked_weight_drops_its_token():
    got, metrics = gradient(
        "proximal", credit(1.0, -1.0), treatment="mask", low=0.9, high=1.6
    )
    np.testing.assert_allclose(got, [[0.0, -1.5, 0.0]], rtol=1e-6)
    assert metrics["correction/dropped_credit_negative"].over() == 1.0
    assert metrics["correction/dropped_credit_positive"].over() == 0.0


def test_diagnostics_count_tokens_of_their_own_phase_and_sign():
    _, metrics = gradient("behaviour", credit(1.0, 3.0))
    # Of the credit pushed up, 1 of 4 is on the token that has left its range.
    np.testing.assert_allclose(
        metrics["correction/dropped_credit_positive"].over(), 0.25
    )
    np.testing.assert_allclose(
        metrics["correction/dropped_tokens_positive"].over(), 0.5
    )
    assert metrics["correction/dropped_tokens_negative"].count == 0
    assert metrics["immediate/kl_to_behaviour"].count == 0
    # (1.5 + 0.5)^2 / (2 (1.5^2 + 0.5^2)) = 4 / 5
    np.testing.assert_allclose(
        metrics["correction/effective_sample_share"].over(), 0.8, rtol=1e-6
    )
    expected = -(np.log(1.5) + np.log(0.5)) / 2
    np.testing.assert_allclose(
        metrics["correction/kl_to_behaviour"].over(), expected, rtol=1e-6
    )


def test_the_kl_as_a_reward_pays_each_token_minus_its_log_ratio():
    reference, mask = POST_IMMEDIATE, jnp.array([[False, True, True]])
    got = jax.grad(
        lambda log_probs: jnp.sum(
            kl_as_reward(
                log_probs,
                reference,
                mask,
                estimator="k1",
                behaviour_log_probs=BEHAVIOUR,
            )
        )
    )(TODAY)
    # rho k1 = 1.5 log(0.3 / 0.26) and 0.5 log(0.2 / 0.4): pushed down, pushed up.
    expected = [[0.0, 1.5 * np.log(0.3 / 0.26), 0.5 * np.log(0.5)]]
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_weights_on_top_of_the_importance_ratio_are_refused():
    with pytest.raises(ValueError, match="importance_treatment='truncate' must be"):
        make_objective(
            ppo_clip_loss, anchor="behaviour", **{**OPTIONS, "treatment": "truncate"}
        )


def test_a_masked_member_still_counts_in_the_baseline_of_its_group():
    """Decided: a treatment drops tokens of the loss, it does not judge rewards.

    Verdicts 1, 1, 0, 0; the ratio of member 1 is 9, so its episode is masked. Credit is
    what it was when it was noted, 0.5 and -0.5: over the other three it would be 2/3
    and -1/3, would change from step to step, and could not be taken back exactly.
    """
    verdict = np.array([1.0, 1.0, 0.0, 0.0], np.float32)
    advantage = group_advantages(verdict, np.ones(4, bool), divisor="none").advantage
    mask = np.stack([np.zeros((4, 3), bool), np.tile([False, True, True], (4, 1))])
    credit = TokenCredit(
        advantage=jnp.where(mask, advantage[:, None], 0.0),
        clip_low=jnp.full(mask.shape, 0.2),
        clip_high=jnp.full(mask.shape, 0.2),
        mask=jnp.asarray(mask),
    )
    behaviour = jnp.zeros((4, 3)).at[1, 1].set(-np.log(9.0))
    objective = make_objective(
        ppo_clip_loss,
        anchor="proximal",
        **OPTIONS | {"granularity": "episode", "treatment": "mask"},
    )
    losses, metrics = objective(jnp.zeros((4, 3)), None, behaviour, credit)
    np.testing.assert_allclose(
        losses[1, :, 1:], [[-0.5, -0.5], [0, 0], [0.5, 0.5], [0.5, 0.5]], atol=1e-7
    )
    assert float(metrics["correction/dropped_credit_positive"].over()) == 0.5
