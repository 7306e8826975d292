"""Ratios at three levels, their treatments, anchors and statistics."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import references

from agentic_grpo import ops
from agentic_grpo.ops.importance_ratios import bounded_exp

SEGMENTS = np.array([0, 1, 1, 2, 2, 2])
MASK = np.array([[0, 1, 1, 1, 0, 1], [0, 1, 0, 0, 0, 0]], bool)
ROWS = np.random.default_rng(0)
LOGS = ROWS.normal(-1.0, 0.5, size=MASK.shape).astype(np.float32)
ANCHOR = ROWS.normal(-1.0, 0.5, size=MASK.shape).astype(np.float32)
PER_STAGE = {"segment_of_column": SEGMENTS}


def test_a_product_and_a_geometric_mean_are_two_things():
    """trl#5814: 100 tokens of -0.01 are 0.368 or 0.990, by name and not by accident."""
    logs, zeros, mask = np.full(100, -0.01), np.zeros(100), np.ones(100, bool)
    np.testing.assert_allclose(
        ops.product_ratios(logs, zeros, mask), 0.36788, atol=1e-5
    )
    np.testing.assert_allclose(
        ops.geometric_mean_ratios(logs, zeros, mask), 0.99005, atol=1e-5
    )


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("options", [{}, PER_STAGE], ids=["episode", "stage"])
def test_ratios_of_segments_match_a_slow_loop(options, normalised):
    compute = ops.geometric_mean_ratios if normalised else ops.product_ratios
    got = compute(LOGS, ANCHOR, MASK, **options)
    segments = options.get("segment_of_column", np.zeros(6, int))
    for row in range(2):
        for column in range(6):
            expected = 1.0
            if MASK[row, column]:
                expected = references.segment_ratio(
                    *(LOGS[row], ANCHOR[row], MASK[row], segments, column),
                    normalised=normalised,
                )
            assert float(got[row, column]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf, 1e30])
def test_padding_reaches_neither_values_nor_gradients(poison):
    """where(mask, exp(x), 0) is NaN in the gradient: the exponent is masked first."""

    def total(logs, anchor):
        return sum(
            jnp.sum(jnp.where(MASK, ratios(logs, anchor, MASK), 0.0))
            for ratios in (
                ops.token_ratios,
                ops.product_ratios,
                functools.partial(ops.geometric_mean_ratios, **PER_STAGE),
            )
        )

    both = jax.value_and_grad(total, argnums=(0, 1))
    clean = both(LOGS, ANCHOR)
    dirty = both(np.where(MASK, LOGS, poison), np.where(MASK, ANCHOR, -poison))
    jax.tree.map(np.testing.assert_array_equal, clean, dirty)
    assert np.all(np.isfinite(jax.tree.leaves(dirty)[1]))


def test_the_exponential_is_bounded_but_never_flat():
    """Overflow times a zero cotangent is NaN; a flat clip lets the worst token go."""
    x = jnp.array([-1e4, -30.0, 0.5, 30.0, 1e4])
    value, slope = jax.vmap(jax.value_and_grad(bounded_exp))(x)
    expected = np.exp([-20.0, -20.0, 0.5, 20.0, 20.0])
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    np.testing.assert_allclose(slope, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"treatment": "none"}, [0.25, 1.0, 4.0]),
        ({"treatment": "truncate", "high": 2.0}, [0.25, 1.0, 2.0]),
        ({"treatment": "mask", "low": 0.5, "high": 4.0}, [0.0, 1.0, 4.0]),
        ({"treatment": "keep", "low": 0.5, "high": 2.0}, [0.0, 1.0, 0.0]),
        ({"granularity": "episode", "treatment": "none"}, [1.0, 1.0, 1.0]),
    ],
)
def test_weights_are_treated_and_detached(options, expected):
    logs = jnp.log(jnp.array([0.25, 1.0, 4.0, 7.0]))
    mask = np.array([True, True, True, False])

    def weights(logs):
        return ops.importance_weights(logs, jnp.zeros(4), mask, **options)

    np.testing.assert_allclose(weights(logs), [*expected, 0.0], rtol=1e-5)
    np.testing.assert_array_equal(jax.grad(lambda x: weights(x).sum())(logs), 0.0)


def test_weights_per_stage_and_length_normalised():
    logs = np.array([9.0, 0.4, 0.2, -0.3, 0.0, -0.6], np.float32)
    mask, zeros = SEGMENTS > 0, np.zeros(6)
    weigh = functools.partial(
        ops.importance_weights,
        *(logs, zeros, mask),
        granularity="stage",
        treatment="none",
        segment_of_column=SEGMENTS,
    )
    product, mean = np.exp([0.6, -0.9]), np.exp([0.3, -0.3])
    np.testing.assert_allclose(weigh()[1:], product[SEGMENTS[1:] - 1], rtol=1e-5)
    np.testing.assert_allclose(
        weigh(length_normalised=True)[1:], mean[SEGMENTS[1:] - 1], rtol=1e-5
    )


def test_rejection_can_be_per_stage():
    logs = np.array([0.0, 0.9, 0.9, 0.1, 0.0, 0.0], np.float32)
    kept = ops.sequence_rejection(
        logs, np.zeros(6), SEGMENTS > 0, low=0.5, high=2.0, **PER_STAGE
    )
    np.testing.assert_array_equal(kept, [0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize("anchor", ["behaviour", "post_immediate", "proximal"])
def test_weight_times_ratio_is_importance_for_every_anchor(anchor):
    """Forgetting the weight of a moved anchor corrects for the wrong policy."""
    post = LOGS + 0.1 if anchor == "post_immediate" else None
    exact = functools.partial(ops.importance_weights, treatment="none")
    reference = ops.anchored(
        *(LOGS, ANCHOR, MASK),
        anchor=anchor,
        post_immediate=post,
        weigh=None if anchor == "behaviour" else exact,
    )
    ratio = ops.token_ratios(LOGS, reference.log_probs, MASK)
    np.testing.assert_allclose(
        np.where(MASK, ratio * reference.weights, 1.0),
        ops.token_ratios(LOGS, ANCHOR, MASK),
        rtol=1e-5,
    )


def test_no_gradient_flows_through_the_anchor():
    def total(logs):
        reference = ops.anchored(logs, ANCHOR, MASK, anchor="proximal")
        return jnp.sum(jnp.where(MASK, reference.log_probs, 0.0) + reference.weights)

    np.testing.assert_array_equal(jax.grad(total)(LOGS), 0.0)


def test_effective_samples_and_chi_square():
    """Weights 1, 1, 4: (6)^2 / (3 * 18) = 2/3 and E[w^2] - 1 = 5."""
    weights, mask = np.array([1.0, 1.0, 4.0, np.inf]), np.array([1, 1, 1, 0], bool)
    assert float(ops.effective_sample_share(weights, mask)) == pytest.approx(2 / 3)
    assert float(ops.chi_square(weights, mask)) == pytest.approx(5.0)
    none = np.zeros(4, bool)
    assert float(ops.effective_sample_share(weights, none)) == 0.0
    assert float(ops.chi_square(weights, none)) == 0.0


@pytest.mark.parametrize("statistic", [ops.effective_sample_share, ops.chi_square])
@pytest.mark.parametrize("value", [0.0, 1.0, np.nan, np.inf])
def test_statistics_of_nothing_have_no_gradient_and_no_nan(statistic, value):
    """w² behind a mask: its slope is 2 w, and NaN times a cotangent of 0 is NaN."""
    weights = jnp.array([1.0, 2.0, value])
    for mask in (np.zeros(3, bool), np.array([True, True, False])):
        slope = jax.grad(lambda w, m=mask: statistic(w, m))(weights)
        assert np.all(np.isfinite(slope)) and slope[2] == 0.0
        assert np.any(slope) == mask.any()


def test_dropped_credit_is_told_by_sign():
    """Truncation is not symmetric: it may drop praise and keep blame."""
    advantage = np.array([3.0, 1.0, -2.0, -2.0, 9.0], np.float32)
    mask = np.array([1, 1, 1, 1, 0], bool)
    credit = ops.token_credit(advantage, mask, clip_low=0.2, clip_high=0.2)
    dropped = np.array([1, 0, 1, 0, 1], bool)
    report = {
        k: float(v.over()) for k, v in ops.dropped_credit(dropped, credit).items()
    }
    assert report == {
        "dropped_tokens_positive": 0.5,
        "dropped_credit_positive": 0.75,
        "dropped_tokens_negative": 0.5,
        "dropped_credit_negative": 0.5,
    }


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ops.importance_weights(LOGS, ANCHOR, MASK, granularity="turn"),
            "granularity='turn'",
        ),
        (
            lambda: ops.importance_weights(LOGS, ANCHOR, MASK, treatment="clip"),
            "treatment='clip'",
        ),
        (lambda: ops.importance_weights(LOGS, ANCHOR, MASK, low=3.0), "low=3.0"),
        (
            lambda: ops.importance_weights(LOGS, ANCHOR, MASK, granularity="stage"),
            "segment_of_column",
        ),
        (lambda: ops.anchored(LOGS, ANCHOR, MASK, anchor="old"), "anchor='old'"),
        (
            lambda: ops.anchored(LOGS, ANCHOR, MASK, anchor="post_immediate"),
            "post_immediate",
        ),
    ],
)
def test_a_bad_option_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
