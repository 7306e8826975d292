"""The case on which Tunix, TRL and verl agree, and the numbers they agree on."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import references

from agentic_grpo import ops

TEMPERATURE, KL_WEIGHT = 0.7, 0.04
PROMPT = np.array([[0, 3, 4], [5, 6, 7]])
COMPLETION = np.array([[1, 2, 3, 4], [8, 9, 0, 0]])
MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], bool)
ADVANTAGES = np.array([[1.5], [-0.7]], np.float32)
LOG_PROBS = [
    [-4.395604, -3.177874, -2.272273, -3.787161],
    [-2.686427, -4.243375, -4.743725, -2.768811],
]
PREVIOUS = np.concatenate([PROMPT[:, -1:], COMPLETION[:, :-1]], axis=1)

REWARDS = np.array([[1, 0, 0, 1], [0.2, 0.4, 0.6, 0.8]], np.float32)
ALL = np.ones(4, bool)


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(11, 11)).astype(np.float32)
    logs = np.asarray(log_probs_of(table))
    old = logs + 0.4 * rng.normal(size=(2, 4))
    reference = logs + 0.3 * rng.normal(size=(2, 4))
    return table, old.astype(np.float32), reference.astype(np.float32)


def log_probs_of(table):
    """Bigrams as a model: hidden = one-hot of the previous token, so z = its row."""
    hidden = jax.nn.one_hot(PREVIOUS, 11)
    return ops.token_log_probs(
        hidden, table.T, COMPLETION, temperature=TEMPERATURE, with_entropy=False
    )[0]


def evaluate(
    case,
    objective,
    aggregate=ops.token_mean,
    *,
    low=0.2,
    high=0.28,
    kl_weight=KL_WEIGHT,
    sign=1.0,
):
    """(loss, Σ|∂loss/∂table|)."""
    table, old, reference = case
    credit = ops.token_credit(sign * ADVANTAGES, MASK, clip_low=low, clip_high=high)

    def loss(table):
        logs = log_probs_of(table)
        losses = objective(logs, old, credit)
        losses += kl_weight * ops.kl_loss(logs, reference, MASK, estimator="k3")
        return aggregate(losses, MASK).over()

    value, gradient = jax.jit(jax.value_and_grad(loss))(table)
    return float(value), float(jnp.abs(gradient).sum())


def test_log_probs_use_the_previous_token_and_the_temperature(case):
    """maxtext#2103: shifted by one, or trl#4159: no temperature, no number agrees."""
    np.testing.assert_allclose(log_probs_of(case[0]), LOG_PROBS, atol=1e-5)
    rows = case[0][PREVIOUS] / TEMPERATURE
    expected = np.take_along_axis(
        references.log_softmax(rows), COMPLETION[..., None], axis=-1
    )[..., 0]
    np.testing.assert_allclose(expected, LOG_PROBS, atol=1e-5)


@pytest.mark.parametrize(
    ("objective", "aggregate", "loss", "gradient"),
    [
        (ops.ppo_clip_loss, ops.token_mean, -0.63871865, 2.892404),
        (ops.ppo_clip_loss, ops.sequence_mean_token_mean, -0.20496595, 2.915144),
        (ops.ppo_clip_loss, ops.constant_divisor(4), -0.47903899, 2.169303),
        (ops.ppo_clip_loss, ops.sequence_mean_token_sum, -1.91615596, 8.677213),
        (ops.gspo_loss, ops.sequence_mean_token_mean, -0.25574847, 3.651048),
    ],
    ids=["token-mean", "seq-mean-token-mean", "dr-grpo", "seq-mean-token-sum", "gspo"],
)
def test_losses_and_gradients_agree_with_the_peers(
    case, objective, aggregate, loss, gradient
):
    value, size = evaluate(case, objective, aggregate)
    assert value == pytest.approx(loss, abs=1e-5)
    assert size == pytest.approx(gradient, abs=1e-5)


def test_cispo_agrees_with_trl(case):
    """TRL caps the weight itself at 0.28: here 1 + high = 0.28, and no lower bound."""
    value, size = evaluate(case, ops.cispo_loss, low=1.0, high=-0.72)
    assert value == pytest.approx(0.729177, abs=1e-5)
    assert size == pytest.approx(0.928097, abs=1e-5)


def test_changing_any_option_of_the_loss_changes_it(case):
    """maxtext#4025, #5107: flags that are accepted and ignored."""
    dual_clip = functools.partial(ops.dual_clip_loss, max_ratio=1.01)
    base, _ = evaluate(case, ops.ppo_clip_loss)
    changed = [
        evaluate(case, ops.ppo_clip_loss, high=0.05),
        evaluate(case, ops.ppo_clip_loss, kl_weight=0.1),
        evaluate(case, dual_clip),
        evaluate(case, ops.reinforce_loss),
    ]
    assert all(abs(value - base) > 1e-4 for value, _ in changed)
    # Only a token pushed down below the range feels the lower bound: turn the signs.
    wide, _ = evaluate(case, ops.ppo_clip_loss, sign=-1.0)
    narrow, _ = evaluate(case, ops.ppo_clip_loss, sign=-1.0, low=0.05)
    assert abs(wide - narrow) > 1e-4


def test_a_silent_group_feels_the_kl_unless_it_is_excluded(case):
    """trl#5588, open-instruct#530: A = 0 and beta > 0 is the pure KL gradient, or 0."""
    table, old, reference = case

    def gradient(mask):
        def loss(table):
            logs = log_probs_of(table)
            credit = ops.token_credit(0.0, mask, clip_low=0.2, clip_high=0.2)
            losses = ops.ppo_clip_loss(logs, old, credit)
            losses += KL_WEIGHT * ops.kl_loss(logs, reference, mask, estimator="k3")
            return ops.constant_divisor(4)(losses, mask).over()

        return jax.grad(loss)(table)

    def pure_kl(table):
        values = ops.kl_estimates(log_probs_of(table), reference, MASK, estimator="k3")
        return KL_WEIGHT * values.sum() / 8

    np.testing.assert_allclose(gradient(MASK), jax.grad(pure_kl)(table), atol=1e-7)
    assert np.abs(gradient(MASK)).max() > 1e-4
    np.testing.assert_array_equal(gradient(MASK & False), 0.0)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"ddof": 1},
            [
                [0.866024, -0.866024, -0.866024, 0.866024],
                [-1.161891, -0.387297, 0.387297, 1.161891],
            ],
        ),
        (
            {"divisor": "none", "baseline": "leave_one_out"},
            [[0.6667, -0.6667, -0.6667, 0.6667], [-0.4, -0.1333, 0.1333, 0.4]],
        ),
        ({"divisor": "none"}, [[0.5, -0.5, -0.5, 0.5], [-0.3, -0.1, 0.1, 0.3]]),
    ],
    ids=["grpo", "rloo", "mean-only"],
)
def test_advantages_agree_with_the_peers(options, expected):
    got = np.stack([ops.group_advantages(row, ALL, **options)[0] for row in REWARDS])
    tolerance = 5e-5 if "leave" in str(options) else 5e-6
    np.testing.assert_allclose(got, expected, atol=tolerance)


IS_LOGS = np.array([[0, 1, -1, 3], [0.5, 0.5, 9, 9]], np.float32)


def is_weights(**options):
    return ops.importance_weights(IS_LOGS, np.zeros_like(IS_LOGS), MASK, **options)


def test_truncated_importance_weights_agree_with_verl():
    expected = [[1, 2, 0.36788, 2], [1.64872, 1.64872, 0, 0]]
    weights = is_weights(treatment="truncate", high=2.0)
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    share = ops.effective_sample_share(weights, MASK)
    assert float(share) == pytest.approx(0.8588, abs=5e-5)
    sequence = is_weights(granularity="episode", treatment="truncate", high=2.0)
    np.testing.assert_allclose(sequence, 2.0 * MASK)
    band = is_weights(treatment="mask", low=0.5, high=2.0)
    np.testing.assert_allclose(
        band, [[1, 0, 0, 0], [1.64872, 1.64872, 0, 0]], atol=1e-5
    )


def test_sequence_rejection_agrees_with_verl():
    """Row 1 has the geometric mean e^(3/4) = 2.12 > 2, row 2 e^(1/2)."""
    kept = ops.sequence_rejection(
        IS_LOGS, np.zeros_like(IS_LOGS), MASK, low=0.5, high=2
    )
    np.testing.assert_array_equal(kept, [[0, 0, 0, 0], [1, 1, 0, 0]])


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [(ops.sequence_mean_token_mean, -1.507191), (ops.constant_divisor(4), None)],
    ids=["sequence-mean", "constant"],
)
def test_a_row_without_tokens_is_not_counted_by_sequence_means(
    case, aggregate, expected
):
    """Tunix and verl divide by 1, TRL by 2 (-0.753596): we side with the former.

    With the constant divisor an empty row does count: the constant is the point of it.
    """
    table, old, _ = case
    mask = MASK & np.array([[True], [False]])
    credit = ops.token_credit(ADVANTAGES, mask, clip_low=0.2, clip_high=0.28)
    losses = ops.ppo_clip_loss(log_probs_of(table), old, credit)
    alone = aggregate(losses[:1], mask[:1])
    both = aggregate(losses, mask)
    if expected is None:
        np.testing.assert_allclose(both.over(), alone.over() / 2, rtol=1e-6)
    else:
        assert float(both.over()) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    "aggregate",
    [
        ops.token_mean,
        ops.sequence_mean_token_mean,
        ops.sequence_mean_token_sum,
        ops.constant_divisor(4),
    ],
)
def test_a_batch_without_tokens_costs_nothing(case, aggregate):
    """verl's agg_loss: an all-masked batch is NaN in every mode."""
    credit = ops.token_credit(
        np.broadcast_to(ADVANTAGES, MASK.shape),
        MASK & False,
        clip_low=0.2,
        clip_high=0.2,
    )

    def loss(table):
        losses = ops.ppo_clip_loss(log_probs_of(table), case[1], credit)
        return aggregate(losses, MASK & False).over()

    value, gradient = jax.value_and_grad(loss)(case[0])
    assert value == 0.0 and not np.any(gradient)
