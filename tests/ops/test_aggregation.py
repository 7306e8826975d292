"""What a loss is divided by: padding, microbatches, empty rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import references

from agentic_grpo import ops

B, T = 4, 6
RNG = np.random.default_rng(0)
LOGS = RNG.normal(-1.5, 0.5, size=(B, T)).astype(np.float32)
ANCHOR = LOGS + RNG.normal(0.0, 0.4, size=(B, T)).astype(np.float32)
ADVANTAGE = RNG.normal(size=(B, T)).astype(np.float32)
MASK = RNG.random((B, T)) < 0.7
MASK[2] = False
CREDIT = ops.token_credit(ADVANTAGE, MASK, clip_low=0.2, clip_high=0.28)
AGGREGATIONS = {
    "constant": ops.constant_divisor(5.0),
    "token_mean": ops.token_mean,
    "sequence_mean_token_mean": ops.sequence_mean_token_mean,
    "sequence_mean_token_sum": ops.sequence_mean_token_sum,
}


@pytest.mark.parametrize("name", AGGREGATIONS)
@pytest.mark.parametrize("objective", [ops.ppo_clip_loss, ops.gspo_loss])
def test_the_padded_width_is_irrelevant(name, objective):
    def loss(logs, anchor, credit):
        losses = objective(logs, anchor, credit)
        return AGGREGATIONS[name](losses, credit.mask).over()

    wider = [
        np.concatenate([x, np.full((B, 3), fill, x.dtype)], axis=1)
        for x, fill in [(LOGS, np.nan), (ANCHOR, 7.0), (ADVANTAGE, 7.0), (MASK, False)]
    ]
    logs, anchor, advantage, mask = wider
    narrow = ops.token_credit(ADVANTAGE, MASK, clip_low=0.2, clip_high=0.2)
    wide = ops.token_credit(advantage, mask, clip_low=0.2, clip_high=0.2)
    value, slope = jax.value_and_grad(loss)(LOGS, ANCHOR, narrow)
    wide_value, wide_slope = jax.value_and_grad(loss)(logs, anchor, wide)
    np.testing.assert_allclose(value, wide_value, rtol=1e-6)
    np.testing.assert_allclose(slope, wide_slope[:, :T], rtol=1e-6)
    np.testing.assert_array_equal(wide_slope[:, T:], 0.0)


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_aggregations_match_a_slow_loop(name):
    losses = np.where(MASK, LOGS, np.nan)
    got = AGGREGATIONS[name](losses, MASK).over()
    expected = references.aggregate(LOGS, MASK, name, constant=5.0)
    assert float(got) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", AGGREGATIONS)
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_microbatches_give_one_update(name, parts):
    """trl#3021, #3231: means of parts averaged; ms-swift#10116: divided twice.

    Add totals, counts and gradients of the totals; divide once.
    """

    def total(logs, anchor, credit):
        mean = AGGREGATIONS[name](ops.ppo_clip_loss(logs, anchor, credit), credit.mask)
        return mean.total, mean.count

    grad = jax.grad(total, has_aux=True)
    whole, count = grad(LOGS, ANCHOR, CREDIT)
    split = jax.tree.map(
        lambda x: jnp.asarray(x).reshape(parts, B // parts, T), (LOGS, ANCHOR, CREDIT)
    )
    gradients, counts = zip(
        *(grad(*jax.tree.map(lambda x, i=i: x[i], split)) for i in range(parts)),
        strict=True,
    )
    np.testing.assert_allclose(sum(counts), count, rtol=1e-7)
    np.testing.assert_allclose(
        np.concatenate(gradients) / sum(counts), whole / count, atol=1e-7
    )


def test_averaging_the_means_of_parts_would_be_wrong():
    """The bug itself: parts of 5 and 1 tokens, averaged as equals."""
    losses = np.array([[1.0] * 5, [7.0, 0, 0, 0, 0]])
    mask = np.array([[True] * 5, [True] + [False] * 4])
    parts = [ops.token_mean(losses[i], mask[i]) for i in range(2)]
    assert float(ops.token_mean(losses, mask).over()) == pytest.approx(2.0)
    assert float(parts[0].plus(parts[1]).over()) == pytest.approx(2.0)
    assert float(np.mean([part.over() for part in parts])) == pytest.approx(4.0)


def test_a_bad_option_is_refused_by_name():
    with pytest.raises(ValueError, match="tokens_per_sequence=0"):
        ops.constant_divisor(0)
