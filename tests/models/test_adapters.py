"""Adapters: nothing at first, a low-rank change later, the same when merged."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from packed_episodes import CONFIG, END, draw_episodes, layout_of

from agentic_grpo.models import adapters, transformer
from agentic_grpo.models.policy import decoder_policy

ADAPTER = adapters.Adapter(rank=2, alpha=6.0, targets=("qkv", "down"))
MODEL = transformer.Transformer(CONFIG, ADAPTER)
PLAIN = transformer.Transformer(CONFIG)
LAYOUT = layout_of(blind=False)


@functools.cache
def policy_of(model):
    return decoder_policy(model, LAYOUT, end_tokens=(END,), pad_token=0)


@pytest.fixture(scope="module")
def trunk():
    return MODEL.init(jax.random.key(0))


@pytest.fixture(scope="module")
def adapter():
    return MODEL.init_adapter(jax.random.key(1))


def moved(adapter):
    """B away from 0, where every adapter starts."""
    return jax.tree.map(
        lambda x: x + 0.1 * jax.random.normal(jax.random.key(x.size), x.shape), adapter
    )


def score(model, params):
    tokens, mask, _ = draw_episodes(LAYOUT, np.random.default_rng(0))
    return jax.jit(functools.partial(policy_of(model).score, temperature=1.0))(
        params, tokens, mask
    )[0]


def test_an_adapter_is_what_it_targets_and_starts_as_no_change(trunk, adapter):
    block = adapter["blocks"]["0"]
    assert set(block["attention"]) == {"qkv"} and set(block["mlp"]) == {"down"}
    own = block["mlp"]["down"]
    assert own["adapter_in"].shape == (CONFIG.mlp_size, 2)
    assert own["adapter_out"].shape == (2, CONFIG.hidden_size)
    assert bool(jnp.any(own["adapter_in"] != 0)) and not bool(
        jnp.any(own["adapter_out"] != 0)
    )
    other = adapter["blocks"]["1"]["mlp"]["down"]["adapter_in"]
    assert float(jnp.abs(own["adapter_in"] - other).max()) > 0.1
    np.testing.assert_array_equal(score(MODEL, (trunk, adapter)), score(PLAIN, trunk))


def test_an_adapter_that_has_moved_is_a_change_of_the_matrices(trunk, adapter):
    params = trunk, moved(adapter)
    got = score(MODEL, params)
    assert float(jnp.abs(got - score(PLAIN, trunk)).max()) > 1e-2
    merged = MODEL.merge(params)
    assert jax.tree.structure(merged) == jax.tree.structure(trunk)
    np.testing.assert_allclose(score(PLAIN, merged), got, rtol=1e-5, atol=2e-6)
    # by hand: W + (6 / 2) A B
    at = merged["blocks"]["1"]["mlp"]["down"]["kernel"]
    own = params[1]["blocks"]["1"]["mlp"]["down"]
    change = 3.0 * np.asarray(own["adapter_in"]) @ np.asarray(own["adapter_out"])
    expected = trunk["blocks"]["1"]["mlp"]["down"]["kernel"] + change
    np.testing.assert_allclose(at, expected, rtol=1e-6, atol=1e-7)
    same = merged["blocks"]["1"]["attention"]["out"]["kernel"]
    assert same is trunk["blocks"]["1"]["attention"]["out"]["kernel"]  # no target


def test_the_trunk_alone_is_read_with_the_adapter_off(trunk):
    np.testing.assert_array_equal(score(MODEL, trunk), score(PLAIN, trunk))
    assert policy_of(PLAIN).adapt is None
    assert PLAIN.merge(trunk) is trunk


def test_a_policy_without_an_adapter_refuses_a_pair(trunk, adapter):
    with pytest.raises(ValueError, match="this policy has no adapter"):
        PLAIN.merge((trunk, adapter))


def test_scanned_blocks_have_their_adapters(trunk, adapter):
    scanned = transformer.Transformer(
        dataclasses.replace(CONFIG, layers="scanned"), ADAPTER
    )
    params = trunk, moved(adapter)
    np.testing.assert_allclose(
        score(scanned, params), score(MODEL, params), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"rank": 0}, "adapter_rank=0 must be at least 1"),
        ({"alpha": 0.0}, "adapter_alpha=0.0 must be positive"),
        ({"targets": ("qkv", "head")}, "must be some of qkv, out, gate_up, down"),
        ({"targets": ()}, "must be some of"),
        ({"targets": ("out", "out")}, "each once"),
    ],
)
def test_choices_without_meaning_are_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        adapters.Adapter(**{"rank": 1, "alpha": 1.0, **fields})
