"""Ways to read columns that must not change what is read."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from agentic_grpo.models import transformer

CONFIG = transformer.TransformerConfig(
    vocabulary_size=11,
    num_layers=3,
    hidden_size=8,
    num_heads=2,
    num_kv_heads=1,
    head_size=4,
    mlp_size=12,
)
T, COLUMNS = 6, np.array([1, 2, 5])


@pytest.fixture(scope="module")
def params():
    return transformer.Transformer(CONFIG).init(jax.random.key(0))


def read(params, config, columns=None):
    model = transformer.Transformer(config)
    tokens = np.random.default_rng(0).integers(0, 11, (2, T)).astype(np.int32)
    positions = np.tile(np.arange(T, dtype=np.int32), (2, 1))
    mask = np.tril(np.ones((1, T, T), bool))
    return model.hidden(params, tokens, positions, mask, columns=columns)


def value_and_gradient(params, config, columns, weights):
    def loss(params):
        hidden = read(params, config, columns)
        return (weights * hidden).sum(), hidden

    (_, hidden), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(params)
    return hidden, gradient


def assert_all_close(one, other):
    close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)
    jax.tree.map(close, one, other)


@pytest.mark.parametrize("columns", [None, COLUMNS], ids=["all", "some"])
def test_scanned_layers_equal_unrolled_ones(params, columns):
    # One block scanned twice, or in reverse, would differ; so would a lost gradient.
    width = T if columns is None else len(columns)
    weights = np.random.default_rng(1).normal(size=(2, width, 8)).astype(np.float32)
    scanned = dataclasses.replace(CONFIG, layers="scanned")
    assert_all_close(
        value_and_gradient(params, scanned, columns, weights),
        value_and_gradient(params, CONFIG, columns, weights),
    )


def test_chosen_columns_are_those_of_a_whole_reading(params):
    # A last block that attends from the wrong columns gives other numbers.
    some = np.random.default_rng(2).normal(size=(2, len(COLUMNS), 8))
    some = some.astype(np.float32)
    everywhere = np.zeros((2, T, 8), np.float32)
    everywhere[:, COLUMNS] = some
    hidden, gradient = value_and_gradient(params, CONFIG, COLUMNS, some)
    whole, whole_gradient = value_and_gradient(params, CONFIG, None, everywhere)
    assert_all_close(hidden, whole[:, COLUMNS])
    assert_all_close(gradient, whole_gradient)


def test_scanning_one_layer_is_reading_it():
    config = dataclasses.replace(CONFIG, num_layers=1)
    params = transformer.Transformer(config).init(jax.random.key(0))
    scanned = dataclasses.replace(config, layers="scanned")
    np.testing.assert_array_equal(read(params, scanned), read(params, config))


def test_unknown_layers_are_refused():
    with pytest.raises(ValueError, match="layers='rolled' must be one of"):
        dataclasses.replace(CONFIG, layers="rolled")
