"""The decoder against a slow float64 NumPy one, and what must not matter."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.models import attention, layers, transformer

CONFIG = transformer.TransformerConfig(
    vocabulary_size=13,
    num_layers=2,
    hidden_size=8,
    num_heads=4,
    num_kv_heads=2,
    head_size=6,  # heads * size differs from the hidden size, as in Qwen3
    mlp_size=12,
    rope_theta=100.0,
)
UNTIED = dataclasses.replace(CONFIG, tied_embeddings=False)
#: Pairs that turn 6.4, 1.4 and 0.3 times in the original length: one of each kind.
LLAMA_3 = attention.RopeScaling(
    factor=4.0, low_turns=1.0, high_turns=4.0, original_length=40
)
OPTIONS = dataclasses.replace(
    CONFIG, attention_bias=True, qk_norm=True, rope_scaling=LLAMA_3
)
T = 7
CAUSAL = np.tril(np.ones((1, T, T), bool))


@functools.partial(jax.jit, static_argnums=0)
def compute_hidden(model, params, tokens, positions, mask):
    return model.hidden(params, tokens, positions, mask)


@pytest.fixture(scope="module")
def model():
    return transformer.Transformer(CONFIG)


@pytest.fixture(scope="module")
def params(model):
    return draw_params(model)


def draw_params(model):
    """Norm scales start at 1 and biases at 0, where forgetting them goes unseen."""
    keys = iter(jax.random.split(jax.random.key(1), 100))

    def change(path, leaf):
        if path[-1].key == "kernel" or "embedding" in path[-1].key:
            return leaf
        draw = jax.random.uniform(next(keys), leaf.shape, minval=0.5, maxval=2.0)
        return draw if path[-1].key == "scale" else draw - 1.0

    return jax.tree_util.tree_map_with_path(change, model.init(jax.random.key(0)))


def draw_tokens(rows=2, seed=0):
    return np.random.default_rng(seed).integers(0, 13, (rows, T)).astype(np.int32)


def count_positions(rows=2):
    return np.tile(np.arange(T, dtype=np.int32), (rows, 1))


# A second implementation: one row, one query, one head at a time, in float64.


def slow_norm(vector, scale):
    return vector / np.sqrt(np.mean(vector**2) + CONFIG.norm_epsilon) * scale


def slow_frequency(d, size, theta, scaling=None):
    frequency = theta ** (-2.0 * d / size)
    if scaling is None:
        return frequency
    turns = scaling.original_length * frequency / (2 * np.pi)
    if turns >= scaling.high_turns:
        return frequency
    if turns <= scaling.low_turns:
        return frequency / scaling.factor
    part = (turns - scaling.low_turns) / (scaling.high_turns - scaling.low_turns)
    return part * frequency + (1 - part) * frequency / scaling.factor


def slow_rotate(head, position, theta, scaling=None):
    half = len(head) // 2
    turned = np.zeros_like(head)
    for d in range(half):
        angle = position * slow_frequency(d, len(head), theta, scaling)
        value = (head[d] + 1j * head[d + half]) * np.exp(1j * angle)
        turned[d], turned[d + half] = value.real, value.imag
    return turned


def slow_attention(block, normed, positions, mask, config):
    heads, kv_heads, size = config.num_heads, config.num_kv_heads, config.head_size
    bias = block["qkv"].get("bias", 0.0)
    fused = [(x @ block["qkv"]["kernel"] + bias).reshape(-1, size) for x in normed]
    mixed = np.zeros((len(normed), heads, size))

    def place(head, norm, position):
        if config.qk_norm:
            head = slow_norm(head, block[norm]["scale"])
        return slow_rotate(head, position, config.rope_theta, config.rope_scaling)

    for t in range(len(normed)):
        for h in range(heads):
            shared = h // (heads // kv_heads)
            query = place(fused[t][h], "query_norm", positions[t])
            seen = [k for k in range(len(normed)) if mask[t, k]]
            keys = [
                place(fused[k][heads + shared], "key_norm", positions[k]) for k in seen
            ]
            scores = np.exp([query @ key / np.sqrt(size) for key in keys])
            values = [fused[k][heads + kv_heads + shared] for k in seen]
            mixed[t, h] = (scores / scores.sum()) @ np.array(values)
    return mixed.reshape(len(normed), -1) @ block["out"]["kernel"]


def slow_mlp(block, vector):
    gate, up = np.split(vector @ block["gate_up"]["kernel"], 2)
    return (gate / (1.0 + np.exp(-gate)) * up) @ block["down"]["kernel"]


def slow_hidden(params, tokens, positions, mask, config):
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
    stream = params["embedding"][tokens]
    for index in range(CONFIG.num_layers):
        block = params["blocks"][str(index)]
        scale = block["attention_norm"]["scale"]
        normed = np.array([slow_norm(x, scale) for x in stream])
        stream = stream + slow_attention(
            block["attention"], normed, positions, mask, config
        )
        scale = block["mlp_norm"]["scale"]
        stream = stream + np.array(
            [slow_mlp(block["mlp"], slow_norm(x, scale)) for x in stream]
        )
    scale = params["final_norm"]["scale"]
    return np.array([slow_norm(x, scale) for x in stream])


@pytest.mark.parametrize("config", [CONFIG, OPTIONS], ids=["plain", "options"])
def test_forward_matches_the_slow_decoder_under_odd_masks_and_positions(config):
    model = transformer.Transformer(config)
    params = draw_params(model)
    rng = np.random.default_rng(3)
    tokens = draw_tokens()
    positions = rng.integers(0, 40, (2, T)).astype(np.int32)
    mask = CAUSAL & (rng.random((2, T, T)) < 0.6) | np.eye(T, dtype=bool)
    got = compute_hidden(model, params, tokens, positions, mask)
    expected = [
        slow_hidden(params, *row, config)
        for row in zip(tokens, positions, mask, strict=True)
    ]
    np.testing.assert_allclose(got, expected, atol=2e-6)


def test_rotation_matches_complex_numbers_and_keeps_only_distances():
    heads = np.random.default_rng(0).normal(size=(2, 3, 6)).astype(np.float32)
    angles = layers.rotary_angles(jnp.array([5, 1000]), head_size=6, theta=100.0)
    got = layers.rotate(heads, angles)
    expected = [
        [slow_rotate(head, position, 100.0) for head in row]
        for row, position in zip(heads.astype(np.float64), [5, 1000], strict=True)
    ]
    np.testing.assert_allclose(got, expected, atol=2e-4)  # float32 angle of 1000

    def dot(query_position, key_position):
        positions = jnp.array([query_position, key_position])
        angles = layers.rotary_angles(positions, head_size=6, theta=100.0)
        turned = layers.rotate(heads, angles)
        return float(turned[0, 0] @ turned[1, 0])

    assert dot(9, 4) == pytest.approx(dot(25, 20), abs=1e-5)
    assert abs(dot(9, 4) - dot(4, 9)) > 1e-3  # a distance with a sign


def test_scaling_keeps_fast_pairs_and_slows_slow_ones():
    # Frequencies 1, 1/2, 1/4; in 16 pi tokens 8, 4 and 2 turns: all of it is kept, a
    # third, none. 1 / (1/3 + 2/3 / 4) = 2.
    scaling = attention.RopeScaling(
        factor=4.0, low_turns=2.0, high_turns=8.0, original_length=16 * np.pi
    )
    divisors = attention.rope_divisors(scaling, head_size=6, theta=8.0)
    np.testing.assert_allclose(divisors, [1.0, 2.0, 4.0], rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"factor": 0.5}, "factor=0.5 must be at least 1"),
        ({"low_turns": 4.0}, "high_turns=4.0 must be finite and above low_turns=4.0"),
        ({"original_length": 0}, "original_length=0 must be positive"),
    ],
)
def test_bad_scaling_is_refused_by_name(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(LLAMA_3, **change)


def test_causality_is_proved_by_gradients(model, params):
    """A mask shifted by one would let column t read token t + 1."""
    tokens = np.arange(T, dtype=np.int32)[None]  # all distinct: one row per column

    @jax.jit
    def jacobian(embedding):
        def probe(embedding):
            changed = {**params, "embedding": embedding}
            hidden = model.hidden(changed, tokens, count_positions(1), CAUSAL)
            return jnp.sum(hidden[0] ** 3, axis=-1)

        return jax.jacrev(probe)(embedding)

    strength = np.abs(jacobian(params["embedding"])[:, :T]).sum(-1)  # [t, token]
    np.testing.assert_array_equal(np.triu(strength, 1), 0.0)
    assert np.all(strength[np.tril_indices(T)] > 0)


def test_padding_matters_neither_to_values_nor_to_gradients(model, params):
    real = np.array([[1, 1, 0, 1, 0, 0, 1], [1, 0, 0, 1, 1, 1, 0]], bool)
    mask = CAUSAL & real[:, None, :]
    positions = np.cumsum(real, axis=1, dtype=np.int32) - 1

    @jax.jit
    def value_and_grad(params, tokens):
        def loss(params):
            hidden = model.hidden(params, tokens, positions, mask)
            return jnp.sum(jnp.where(real[..., None], hidden, 0.0) ** 3)

        return jax.value_and_grad(loss)(params)

    one, other = draw_tokens(seed=0), draw_tokens(seed=1)
    results = [value_and_grad(params, np.where(real, one, pad)) for pad in (one, other)]
    jax.tree.map(np.testing.assert_array_equal, *results)


def test_padding_between_real_tokens_changes_nothing(model, params):
    """Positions count real tokens; columns must not leak into them."""
    dense = draw_tokens(1)[:, :4]
    columns = [0, 2, 3, 6]
    sparse = np.full((1, T), 12, np.int32)
    sparse[:, columns] = dense
    real = np.isin(np.arange(T), columns)[None]
    positions = np.cumsum(real, axis=1, dtype=np.int32) - 1
    spread = compute_hidden(model, params, sparse, positions, CAUSAL & real[:, None])
    close = compute_hidden(
        model, params, dense, count_positions(1)[:, :4], CAUSAL[:, :4, :4]
    )
    np.testing.assert_allclose(spread[:, columns], close, atol=5e-6)


def test_rows_that_see_nothing_stay_finite_with_finite_gradients(model, params):
    mask = np.array(np.broadcast_to(CAUSAL, (2, T, T)))
    mask[0] = False  # a row of padding
    mask[1, 4] = False

    @jax.jit
    def value_and_grad(params):
        def loss(params):
            hidden = model.hidden(params, draw_tokens(), count_positions(), mask)
            return jnp.sum(hidden**2)

        return jax.value_and_grad(loss)(params)

    for leaf in jax.tree.leaves(value_and_grad(params)):
        assert np.all(np.isfinite(leaf))


def test_grouped_queries_equal_full_attention_with_repeated_heads(params, model):
    full = transformer.Transformer(dataclasses.replace(CONFIG, num_kv_heads=4))

    def repeat_heads(kernel):
        heads = kernel.reshape(8, -1, CONFIG.head_size)
        queries, keys, values = heads[:, :4], heads[:, 4:6], heads[:, 6:]
        keys, values = (jnp.repeat(part, 2, axis=1) for part in (keys, values))
        return jnp.concatenate([queries, keys, values], axis=1).reshape(8, -1)

    repeated = jax.tree_util.tree_map_with_path(
        lambda path, leaf: (
            repeat_heads(leaf) if "qkv" in jax.tree_util.keystr(path) else leaf
        ),
        params,
    )
    arguments = draw_tokens(), count_positions(), CAUSAL
    np.testing.assert_allclose(
        compute_hidden(full, repeated, *arguments),
        compute_hidden(model, params, *arguments),
        atol=5e-6,
    )


def test_tied_and_separate_embeddings(model):
    separate = transformer.Transformer(UNTIED)
    tied_params, params = (m.init(jax.random.key(4)) for m in (model, separate))
    assert model.unembedding(tied_params) is tied_params["embedding"]
    assert separate.unembedding(params) is params["unembedding"]
    assert set(params) - set(tied_params) == {"unembedding"}
    assert not np.allclose(params["embedding"], params["unembedding"])
    zeroed = {**params, "unembedding": jnp.zeros((13, 8))}
    arguments = draw_tokens(), count_positions(), CAUSAL
    np.testing.assert_array_equal(
        compute_hidden(separate, params, *arguments),
        compute_hidden(separate, zeroed, *arguments),
    )


def test_reading_token_by_token_equals_reading_at_once(model, params):
    """The cache in another column order than the text: only positions count."""
    tokens, positions = draw_tokens(), count_positions()
    expected = compute_hidden(model, params, tokens, positions, CAUSAL)
    _, cache = model.prefill(params, tokens, positions, CAUSAL)
    cache = jax.tree.map(lambda full: full + 7.0, cache)  # rubbish until it is written
    extend = jax.jit(model.extend)
    written = np.zeros((2, T), bool)
    for t, column in enumerate([3, 0, 6, 1, 2, 5, 4]):
        written[:, column] = True
        hidden, cache = extend(
            params, cache, tokens[:, t], positions[:, t], column, written
        )
        np.testing.assert_allclose(hidden, expected[:, t], atol=2e-6)


def test_reading_out_one_column_equals_reading_all_and_picking(model, params):
    mask = CAUSAL & (np.random.default_rng(6).random((2, T, T)) < 0.7)
    arguments = params, draw_tokens(), count_positions(), mask
    column = np.array([5, 2])
    hidden, cache = jax.jit(model.prefill)(*arguments)
    one, same_cache = jax.jit(model.prefill)(*arguments, read_column=column)
    np.testing.assert_allclose(one, hidden[np.arange(2), column], atol=2e-6)
    jax.tree.map(
        functools.partial(np.testing.assert_allclose, atol=2e-6), cache, same_cache
    )


def test_low_precision_activations_keep_float32_parameters(params, model):
    low = transformer.Transformer(dataclasses.replace(CONFIG, dtype="bfloat16"))
    arguments = params, draw_tokens(), count_positions(), CAUSAL
    got = compute_hidden(low, *arguments)
    assert got.dtype == jnp.bfloat16
    assert {leaf.dtype.name for leaf in jax.tree.leaves(params)} == {"float32"}
    exact = np.asarray(compute_hidden(model, *arguments))
    gap = np.abs(np.asarray(got, np.float32) - exact)
    assert 1e-4 < gap.max() < 0.1  # it is bfloat16, and no worse


def test_parameters_are_a_plain_tree_drawn_from_the_key_alone(model):
    jitted = jax.jit(model.init)
    first, again = jitted(jax.random.key(0)), model.init(jax.random.key(0))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7),
        first,
        again,
    )
    assert not np.allclose(first["embedding"], jitted(jax.random.key(1))["embedding"])
    blocks = first["blocks"]
    assert set(blocks) == {"0", "1"} and type(blocks) is dict
    kernels = [blocks[i]["attention"]["qkv"]["kernel"] for i in "01"]
    assert not np.allclose(*kernels)  # every block draws anew


def test_models_of_equal_sizes_are_one_static_argument():
    one, other = (
        transformer.Transformer(dataclasses.replace(CONFIG, dtype=dtype))
        for dtype in ("float32", jnp.float32)
    )
    assert one == other and hash(one) == hash(other)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("vocabulary_size", 0),
        ("num_layers", -1),
        ("hidden_size", 8.0),
        ("mlp_size", True),
        ("num_kv_heads", 3),
        ("head_size", 5),
        ("rope_theta", 0.0),
        ("rope_scaling", 8.0),
        ("norm_epsilon", float("nan")),
        ("dtype", "int32"),
        ("param_dtype", "bool"),
        ("dtype", "float33"),
    ],
)
def test_bad_fields_are_refused_by_name_and_value(field, value):
    with pytest.raises(ValueError, match=rf"{field}={value!r} must"):
        dataclasses.replace(CONFIG, **{field: value})
