"""Sampler and scorer read the same logits, in any type and over long episodes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo import ops
from agentic_grpo.layout import EpisodeLayout, StageKind, StageSpec, fully_visible
from agentic_grpo.models import categorical, decoding, transformer

WIDTH, PROMPT, V = 616, 3, 64  # 620 columns


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("chunk_size", [16, None])
def test_what_is_drawn_is_scored_alike(dtype, chunk_size):
    """Float32 parameters under bfloat16 activations: rounded on one side only, the
    log-probs differ by up to 0.06 and the first ratios by as much from 1.
    """
    rng = np.random.default_rng(0)
    hidden = jnp.asarray(3.0 * rng.normal(size=(32, 24)), dtype)
    unembedding = jnp.asarray(rng.normal(size=(V, 24)), jnp.float32)
    uniforms = jnp.asarray(rng.random(32), jnp.float32)
    token, log_prob, entropy = categorical.draw_tokens(
        hidden, unembedding, uniforms, 0.7
    )
    scored = ops.token_log_probs(
        hidden, unembedding, token, temperature=0.7, chunk_size=chunk_size
    )
    np.testing.assert_allclose(scored, (log_prob, entropy), rtol=1e-5, atol=1e-5)


def test_a_rounded_read_out_has_the_gradient_of_what_was_read():
    """Backward, too, the hidden states meet the rounded unembedding."""
    rng = np.random.default_rng(1)
    hidden = jnp.asarray(rng.normal(size=(5, 24)), jnp.bfloat16)
    unembedding = jnp.asarray(rng.normal(size=(V, 24)), jnp.float32)
    targets = np.arange(5)

    def gradients(chunk_size, unembedding):
        def total(hidden, unembedding):
            return ops.token_log_probs(
                hidden, unembedding, targets, chunk_size=chunk_size
            )[0].sum()

        return jax.jit(jax.grad(total, (0, 1)))(hidden, unembedding)

    rounded = unembedding.astype(jnp.bfloat16).astype(jnp.float32)
    for chunk_size in (16, None):
        ours = gradients(chunk_size, unembedding)
        for got, expected in zip(ours, gradients(chunk_size, rounded), strict=True):
            np.testing.assert_array_equal(got, expected)
        assert ours[1].dtype == jnp.float32


@pytest.fixture(scope="module")
def layout():
    stage = StageSpec(
        name="only",
        kind=StageKind.NONE,
        action_width=WIDTH,
        observation_width=0,
        max_latency=0,
        marker=3,
    )
    return EpisodeLayout(
        prompt_width=PROMPT, stages=(stage,), visibility=fully_visible(1)
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_long_episodes_keep_sampler_and_scorer_together(layout, dtype):
    """620 columns. In bfloat16 an activation may round to its other neighbour, which
    moves a few log-probs; the rest is equal, where another read-out would move all.
    """
    config = transformer.TransformerConfig(
        vocabulary_size=V,
        num_layers=2,
        hidden_size=32,
        num_heads=4,
        num_kv_heads=2,
        head_size=8,
        mlp_size=48,
        tied_embeddings=False,
        dtype=dtype,
    )
    model = transformer.Transformer(config)
    params = model.init(jax.random.key(0))
    params = {**params, "unembedding": 2.0 * params["unembedding"]}
    rng = np.random.default_rng(0)
    tokens = rng.integers(4, V, (1, layout.num_columns)).astype(np.int32)
    tokens[:, PROMPT] = 3
    written = slice(PROMPT + 1, None)
    everything = np.ones(tokens.shape, bool)
    start = everything & (np.arange(layout.num_columns) <= PROMPT)

    @jax.jit
    def sample(params):
        return decoding.sample_actions(
            model,
            params,
            tokens,
            start,
            everything,
            jnp.array([PROMPT], jnp.int32),
            jnp.array([WIDTH], jnp.int32),
            jnp.array([True]),
            rng.random((1, WIDTH)).astype(np.float32),
            column_visibility=layout.column_visibility,
            max_actions=WIDTH,
            prefix_width=PROMPT + 1,
            end_tokens=(),
            pad_token=0,
            temperature=1.0,
        )

    actions = sample(params)
    tokens[:, written] = actions.tokens
    score = jax.jit(decoding.score, static_argnums=0)
    log_probs, _ = score(model, params, tokens, everything, layout.column_visibility)
    assert np.std(actions.log_probs) > 0.3
    gap = np.abs(np.asarray(log_probs)[:, written] - np.asarray(actions.log_probs))
    assert (np.max(gap) if dtype == "float32" else np.median(gap)) < 3e-5
