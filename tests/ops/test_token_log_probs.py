"""Log-probs from hidden states in chunks: same numbers, no logits."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import references
from jax.test_util import check_grads

from agentic_grpo import ops

T, H, V = 7, 5, 13
RNG = np.random.default_rng(0)
HIDDEN = RNG.normal(size=(T, H)).astype(np.float32)
UNEMBEDDING = RNG.normal(size=(V, H)).astype(np.float32)
TARGETS = RNG.integers(0, V, size=T)
WEIGHTS = RNG.normal(size=(2, T)).astype(np.float32)


def materialised(hidden, unembedding, temperature=1.0):
    logs = jax.nn.log_softmax(hidden @ unembedding.T / temperature)
    picked = jnp.take_along_axis(logs, TARGETS[:, None], axis=-1)[:, 0]
    return picked, -jnp.sum(jnp.exp(logs) * logs, axis=-1)


def weighted(compute, hidden, unembedding):
    """A scalar that gives every output its own cotangent."""
    log_probs, entropy = compute(hidden, unembedding)
    return jnp.sum(WEIGHTS[0] * log_probs) + jnp.sum(WEIGHTS[1] * entropy)


@pytest.fixture(scope="module")
def plain_gradients():
    plain = functools.partial(materialised, temperature=0.7)
    return jax.jit(jax.grad(functools.partial(weighted, plain), argnums=(0, 1)))(
        HIDDEN, UNEMBEDDING
    )


@pytest.mark.parametrize("chunk_size", [1, 4, 13, None])
def test_values_and_gradients_do_not_depend_on_the_chunks(chunk_size, plain_gradients):
    """Both outputs, both inputs, uneven last chunk, temperature inside."""

    def chunked(hidden, unembedding):
        return ops.token_log_probs(
            hidden, unembedding, TARGETS, temperature=0.7, chunk_size=chunk_size
        )

    expected = references.token_log_probs(HIDDEN, UNEMBEDDING, TARGETS, 0.7)
    np.testing.assert_allclose(chunked(HIDDEN, UNEMBEDDING), expected, atol=1e-5)
    gradients = jax.jit(jax.grad(functools.partial(weighted, chunked), argnums=(0, 1)))(
        HIDDEN, UNEMBEDDING
    )
    for ours, theirs in zip(gradients, plain_gradients, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_gradients_agree_with_finite_differences():
    compute = functools.partial(ops.token_log_probs, targets=TARGETS, chunk_size=4)
    check_grads(
        jax.jit(functools.partial(weighted, compute)),
        (HIDDEN, UNEMBEDDING),
        order=1,
        modes=["rev"],
        atol=2e-2,
        rtol=2e-2,
        eps=1e-2,
    )


def test_temperature_is_inside():
    """trl#4159, slime#557: logits [0, ln 3] give -.28768 at 1 and -.10536 at 1/2."""
    hidden, unembedding = jnp.array([[1.0]]), jnp.array([[0.0], [np.log(3.0)]])
    for temperature, expected in ((1.0, -0.28768), (0.5, -0.10536)):
        for chunk_size in (1, None):
            log_probs, _ = ops.token_log_probs(
                *(hidden, unembedding, jnp.array([1])),
                temperature=temperature,
                chunk_size=chunk_size,
            )
            assert float(log_probs[0]) == pytest.approx(expected, abs=1e-5)


def test_a_tied_embedding_gets_both_gradients():
    """hidden = embedding rows: the gradient arrives by way of both uses."""
    tokens = np.array([3, 1, 4, 1, 5, 9, 2])

    def tied(compute, embedding):
        return weighted(compute, embedding[tokens], embedding)

    ours = functools.partial(ops.token_log_probs, targets=TARGETS, chunk_size=4)
    np.testing.assert_allclose(
        jax.jit(jax.grad(functools.partial(tied, ours)))(UNEMBEDDING),
        jax.jit(jax.grad(functools.partial(tied, materialised)))(UNEMBEDDING),
        atol=1e-5,
    )


@pytest.mark.parametrize("chunk_size", [4, None])
@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_padding_reaches_neither_values_nor_gradients(poison, chunk_size):
    """0 * NaN is NaN in the product that makes the unembedding's gradient."""
    mask = np.array([1, 1, 0, 1, 0, 1, 1], bool)

    def total(hidden, unembedding):
        log_probs, entropy = ops.token_log_probs(
            hidden, unembedding, TARGETS, mask=mask, chunk_size=chunk_size
        )
        return ops.masked_sum(log_probs + entropy, mask)

    both = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))
    clean = both(HIDDEN, UNEMBEDDING)
    dirty = both(np.where(mask[:, None], HIDDEN, poison), UNEMBEDDING)
    jax.tree.map(np.testing.assert_array_equal, clean, dirty)


def test_extreme_logits_stay_finite_and_exact():
    """Chunk after chunk the peak moves by hundreds; the sum must move with it."""
    unembedding = jnp.linspace(-300.0, 300.0, V)[:, None]
    hidden = jnp.array([[1.0], [-1.0]])
    targets = np.array([V - 1, V - 1])
    log_probs, entropy = ops.token_log_probs(hidden, unembedding, targets, chunk_size=2)
    np.testing.assert_allclose(log_probs, [0.0, -600.0], atol=1e-4)
    np.testing.assert_allclose(entropy, 0.0, atol=1e-4)


@pytest.mark.parametrize("chunk_size", [1, 2, None])
def test_gradients_are_exact_at_logits_of_any_size(chunk_size):
    """Logits of 10,000 and more, next to which a log-prob is less than their rounding.

    With log-probs as differences of such numbers, gradients were off by hundreds.
    """
    rng = np.random.default_rng(1)
    hidden = 1e4 * rng.normal(size=(64, 32)).astype(np.float32)
    unembedding = rng.normal(size=(40, 32)).astype(np.float32)
    unembedding[1] = unembedding[0]  # some are close to the top: neither 0 nor 1
    targets = rng.integers(0, 40, size=64)
    weights = rng.normal(size=(2, 64)).astype(np.float32)

    def total(hidden, unembedding):
        both = ops.token_log_probs(hidden, unembedding, targets, chunk_size=chunk_size)
        return jnp.sum(weights[0] * both[0]) + jnp.sum(weights[1] * both[1])

    got = jax.jit(jax.grad(total, (0, 1)))(hidden, unembedding)
    logs = references.log_softmax(hidden.astype(float) @ unembedding.astype(float).T)
    p = np.exp(logs)
    mean = (p * logs).sum(1, keepdims=True)
    slope = weights[0][:, None] * (np.eye(40)[targets] - p)
    slope -= weights[1][:, None] * p * (logs - mean)
    for ours, exact in zip(got, (slope @ unembedding, slope.T @ hidden), strict=True):
        np.testing.assert_allclose(ours, exact, atol=1e-6 * np.abs(exact).max())


def test_bfloat16_inputs_are_accumulated_in_float32():
    hidden, unembedding = (jnp.asarray(x, jnp.bfloat16) for x in (HIDDEN, UNEMBEDDING))
    for chunk_size in (4, None):
        log_probs, entropy = ops.token_log_probs(
            hidden, unembedding, TARGETS, chunk_size=chunk_size
        )
        exact = references.token_log_probs(
            *(np.asarray(x, np.float64) for x in (hidden, unembedding)), TARGETS, 1.0
        )
        assert log_probs.dtype == entropy.dtype == jnp.float32
        np.testing.assert_allclose((log_probs, entropy), exact, atol=1e-4)
        grads = jax.grad(
            lambda *x, c=chunk_size: ops.token_log_probs(*x, TARGETS, chunk_size=c)[
                0
            ].sum(),
            argnums=(0, 1),
        )(hidden, unembedding)
        assert all(x.dtype == jnp.bfloat16 for x in grads)


def test_leading_axes_are_kept_and_the_entropy_is_optional():
    hidden, targets = HIDDEN[None, :, None], TARGETS[None, :, None]
    log_probs, entropy = ops.token_log_probs(
        hidden, UNEMBEDDING, targets, with_entropy=False
    )
    assert log_probs.shape == (1, T, 1) and entropy is None


def test_memory_does_not_grow_with_the_vocabulary():
    """NeMo-RL#3124, trl#5349: "chunked" paths that keep or re-join every chunk.

    Temporary memory of value and gradient, four times the vocabulary; and far below
    that of the logits.
    """

    def temporary(vocabulary, compute):
        arguments = (
            jax.ShapeDtypeStruct((64, 8), jnp.float32),
            jax.ShapeDtypeStruct((vocabulary, 8), jnp.float32),
        )

        def loss(hidden, unembedding):
            log_probs, entropy = compute(hidden, unembedding)
            return jnp.sum(log_probs) + jnp.sum(entropy)

        compiled = jax.jit(jax.value_and_grad(loss, (0, 1))).lower(*arguments).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    targets = np.arange(64)

    def chunked(hidden, unembedding):
        return ops.token_log_probs(hidden, unembedding, targets, chunk_size=256)

    def plain(hidden, unembedding):
        logs = jax.nn.log_softmax(hidden @ unembedding.T)
        picked = jnp.take_along_axis(logs, targets[:, None], axis=-1)
        return picked, jnp.exp(logs) * logs

    small, large = temporary(2048, chunked), temporary(8192, chunked)
    assert large <= 1.1 * small
    assert large <= 0.35 * temporary(8192, plain)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"temperature": 0.0}, "temperature=0.0"), ({"chunk_size": 0}, "chunk_size=0")],
)
def test_a_bad_option_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        ops.token_log_probs(HIDDEN, UNEMBEDDING, TARGETS, **options)
