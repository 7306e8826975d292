"""Sampling and scoring: they agree, and neither looks where it must not."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.layout import EpisodeLayout, StageKind, StageSpec
from agentic_grpo.models import categorical, decoding, transformer
from agentic_grpo.models.attention import RopeScaling

PAD, END, MARKER, V = 0, 2, 3, 13
CONFIG = transformer.TransformerConfig(
    vocabulary_size=V,
    num_layers=2,
    hidden_size=8,
    num_heads=4,
    num_kv_heads=2,
    head_size=4,
    mlp_size=12,
    tied_embeddings=False,  # tied ones repeat the last token, untrained
)


def build_layout():
    widths = [(4, 3), (3, 2), (5, 2)]
    stages = tuple(
        StageSpec(
            name=str(index),
            kind=StageKind.NONE,
            action_width=action,
            observation_width=observation,
            max_latency=0,
            marker=MARKER,
        )
        for index, (action, observation) in enumerate(widths)
    )
    visibility = [[True] * 4 for _ in range(4)]
    visibility[3][1] = False  # stage 2 no longer sees stage 0, which stage 1 read
    visibility = tuple(map(tuple, visibility))
    return EpisodeLayout(prompt_width=4, stages=stages, visibility=visibility)


LAYOUT = build_layout()
T, A = LAYOUT.num_columns, LAYOUT.max_action_width
STAGE = np.array([0, 1, 2, 2, 1, 0])
N = len(STAGE)


def sample(
    model,
    params,
    batch,
    *,
    temperature=0.7,
    prefix_width=None,
    end_tokens=(END,),
    **changes,
):
    batch = {**batch, **changes}
    return decoding.sample_actions(
        model,
        params,
        *(batch[name] for name in ("tokens", "token_mask", "visibility")),
        *(batch[name] for name in ("marker_column", "action_width", "active")),
        batch["uniforms"],
        column_visibility=LAYOUT.column_visibility,
        max_actions=A,
        prefix_width=prefix_width or int(LAYOUT.offsets[-1]) + 1,
        end_tokens=end_tokens,
        pad_token=PAD,
        temperature=temperature,
    )


jitted_sample = functools.partial(
    jax.jit,
    static_argnums=0,
    static_argnames=("temperature", "prefix_width", "end_tokens"),
)(sample)


@functools.partial(jax.jit, static_argnums=0, static_argnames="temperature")
def jitted_score(model, params, tokens, token_mask, temperature=0.7):
    return decoding.score(
        model,
        params,
        tokens,
        token_mask,
        LAYOUT.column_visibility,
        temperature=temperature,
    )


@pytest.fixture(scope="module")
def model():
    return transformer.Transformer(CONFIG)


@pytest.fixture(scope="module")
def params(model):
    # Far from uniform, so that a wrong context shows in the log-probs.
    params = model.init(jax.random.key(0))
    return {**params, "unembedding": 2.0 * params["unembedding"]}


@pytest.fixture(scope="module")
def batch():
    """Rows at different stages, with padding in prompts, actions and observations."""
    rng = np.random.default_rng(5)
    token_mask = np.zeros((N, T), bool)
    for row, stage in enumerate(STAGE):
        token_mask[row, : rng.integers(1, LAYOUT.prompt_width + 1)] = True
        for done in range(stage):
            spec, column = LAYOUT.stages[done], LAYOUT.offsets[done]
            written = rng.integers(1, spec.action_width + 1)
            token_mask[row, column : column + 1 + written] = True
            column += 1 + spec.action_width
            answered = rng.integers(0, spec.observation_width + 1)
            token_mask[row, column : column + answered] = True
        token_mask[row, LAYOUT.offsets[stage]] = True
    seen = np.asarray(LAYOUT.visibility)[STAGE + 1][:, LAYOUT.segment_of_column]
    return {
        "tokens": rng.integers(0, V, (N, T)).astype(np.int32),
        "token_mask": token_mask,
        "visibility": seen,
        "marker_column": LAYOUT.offsets[STAGE],
        "action_width": np.array([4, 3, 5, 2, 3, 4], np.int32),
        "active": np.array([True, True, True, True, False, True]),
        "uniforms": rng.random((N, A)).astype(np.float32),
    }


def insert(batch, actions):
    """The episodes with the actions in their columns, padding elsewhere untouched."""
    tokens, token_mask = batch["tokens"].copy(), batch["token_mask"].copy()
    columns = batch["marker_column"][:, None] + 1 + np.arange(A)
    rows, steps = np.nonzero(actions.mask)
    tokens[rows, columns[rows, steps]] = np.asarray(actions.tokens)[rows, steps]
    token_mask[rows, columns[rows, steps]] = True
    return tokens, token_mask, (rows, columns[rows, steps]), (rows, steps)


def gap_to_score(model, params, batch, actions):
    tokens, token_mask, at, steps = insert(batch, actions)
    log_probs, entropy = jitted_score(model, params, tokens, token_mask)
    assert len(steps[0]) > N  # something was compared
    return (
        np.abs(np.asarray(log_probs)[at] - np.asarray(actions.log_probs)[steps]).max(),
        np.abs(np.asarray(entropy)[at] - np.asarray(actions.entropy)[steps]).max(),
    )


def test_sampled_log_probs_are_the_scored_ones(model, params, batch):
    actions = jitted_sample(model, params, batch)
    assert max(gap_to_score(model, params, batch, actions)) < 1e-5
    # The comparison has teeth: uniform log-probs would be -2.56 everywhere.
    assert np.std(np.asarray(actions.log_probs)[np.asarray(actions.mask)]) > 0.3


def test_options_of_the_family_keep_sampler_and_scorer_together(batch):
    config = dataclasses.replace(
        CONFIG,
        attention_bias=True,
        qk_norm=True,
        rope_scaling=RopeScaling(
            factor=8.0, low_turns=0.1, high_turns=1.0, original_length=8
        ),
    )
    model = transformer.Transformer(config)
    params = jax.tree.map(
        lambda leaf: leaf + jax.random.normal(jax.random.key(leaf.size), leaf.shape),
        model.init(jax.random.key(0)),
    )
    actions = jitted_sample(model, params, batch)
    assert max(gap_to_score(model, params, batch, actions)) < 1e-5
    assert np.std(np.asarray(actions.log_probs)[np.asarray(actions.mask)]) > 0.3


def test_bfloat16_activations_keep_sampler_and_scorer_close(params, batch):
    low = transformer.Transformer(dataclasses.replace(CONFIG, dtype="bfloat16"))
    actions = jitted_sample(low, params, batch)
    assert max(gap_to_score(low, params, batch, actions)) < 1e-5


def test_actions_are_a_prefix_that_ends_at_the_end_token_or_the_width(
    model, params, batch
):
    uniforms = np.random.default_rng(0).random((20, N, A)).astype(np.float32)
    ended = stopped = 0
    for draw in uniforms:
        actions = jitted_sample(model, params, batch, uniforms=draw)
        for row in range(N):
            mask, tokens = (
                np.asarray(actions.mask[row]),
                np.asarray(actions.tokens[row]),
            )
            length = mask.sum()
            width = batch["action_width"][row] if batch["active"][row] else 0
            np.testing.assert_array_equal(mask, np.arange(A) < length)
            np.testing.assert_array_equal(tokens[length:], PAD)
            np.testing.assert_array_equal(actions.log_probs[row][length:], 0.0)
            np.testing.assert_array_equal(actions.entropy[row][length:], 0.0)
            assert END not in tokens[: max(length - 1, 0)]
            assert length == width or (length and tokens[length - 1] == END)
            ended += length < width
            stopped += length == width
    assert ended and stopped


def test_any_of_several_end_tokens_ends_a_stage(model, params, batch):
    endless = jitted_sample(model, params, batch, end_tokens=())
    length = np.where(batch["active"], batch["action_width"], 0)
    np.testing.assert_array_equal(np.asarray(endless.mask).sum(1), length)
    ends = (int(endless.tokens[0, 1]), int(endless.tokens[2, 2]))
    assert ends[0] != ends[1]
    actions = jitted_sample(model, params, batch, end_tokens=ends)
    is_end = np.isin(endless.tokens, ends) & np.asarray(endless.mask)
    before = np.cumsum(is_end, axis=1) - is_end
    expected = np.asarray(endless.mask) & (before == 0)
    assert expected.sum() < length.sum()  # some are cut, each by its own token
    np.testing.assert_array_equal(actions.mask, expected)
    np.testing.assert_array_equal(
        np.asarray(actions.tokens)[expected], np.asarray(endless.tokens)[expected]
    )


def test_rows_at_different_stages_decode_as_they_would_alone(model, params, batch):
    together = jitted_sample(model, params, batch)
    for row in range(N):
        only = batch["active"] & (np.arange(N) == row)
        alone = jitted_sample(model, params, batch, active=only)
        np.testing.assert_array_equal(alone.tokens[row], together.tokens[row])
        np.testing.assert_array_equal(alone.mask[row], together.mask[row])
        np.testing.assert_allclose(
            alone.log_probs[row], together.log_probs[row], atol=5e-6
        )
        np.testing.assert_array_equal(np.delete(alone.mask, row, axis=0), False)


def test_what_a_stage_may_not_see_does_not_matter(model, params, batch):
    """Padding, columns after the marker, and stages that are out of sight."""
    rng = np.random.default_rng(9)
    after = np.arange(T) > batch["marker_column"][:, None]
    hidden_columns = ~batch["token_mask"] | after
    rubbish = rng.integers(0, V, (N, T)).astype(np.int32)
    changed = np.where(hidden_columns, rubbish, batch["tokens"])
    left_over = batch["token_mask"] | after  # from an earlier use of the row
    expected = jitted_sample(model, params, batch)
    got = jitted_sample(model, params, batch, tokens=changed, token_mask=left_over)
    jax.tree.map(np.testing.assert_array_equal, got, expected)

    sees_all = jitted_sample(
        model, params, batch, visibility=np.ones_like(batch["visibility"])
    )
    differs = np.any(np.asarray(sees_all.log_probs != expected.log_probs), axis=1)
    np.testing.assert_array_equal(differs, STAGE == 2)  # the only restricted rows


def test_a_wider_prefix_changes_nothing(model, params, batch):
    narrow = jitted_sample(model, params, batch)
    wide = jitted_sample(model, params, batch, prefix_width=T)
    np.testing.assert_array_equal(wide.tokens, narrow.tokens)
    np.testing.assert_allclose(wide.log_probs, narrow.log_probs, atol=5e-6)


def test_greedy_takes_the_mode_and_records_temperature_one(model, params, batch):
    actions = jitted_sample(model, params, batch, temperature=0.0)
    other = jitted_sample(
        model, params, batch, temperature=0.0, uniforms=1.0 - batch["uniforms"]
    )
    jax.tree.map(np.testing.assert_array_equal, actions, other)
    tokens, token_mask, at, steps = insert(batch, actions)
    log_probs, _ = jitted_score(model, params, tokens, token_mask, temperature=1.0)
    np.testing.assert_allclose(
        np.asarray(log_probs)[at], np.asarray(actions.log_probs)[steps], atol=1e-5
    )
    for token in range(V):  # nothing is more probable than what was taken
        rival = tokens.copy()
        rival[at] = token
        first = steps[1] == 0  # later actions would be given another text
        scored, _ = jitted_score(model, params, rival, token_mask, temperature=1.0)
        gain = np.asarray(scored)[at] - np.asarray(log_probs)[at]
        assert np.all(gain[first] < 1e-6)


def test_no_row_active_writes_nothing(model, params, batch):
    for change in (
        {"active": np.zeros(N, bool)},
        {"action_width": np.zeros(N, np.int32)},
    ):
        actions = jitted_sample(model, params, batch, **change)
        assert not np.any(actions.mask) and np.all(np.asarray(actions.tokens) == PAD)
        assert not np.any(actions.log_probs) and not np.any(actions.entropy)


def test_score_has_zero_variance_on_padding_and_its_gradient_ignores_it(
    model, params, batch
):
    token_mask = batch["token_mask"]

    @jax.jit
    def total_and_grad(params, tokens):
        def total(params):
            log_probs, entropy = decoding.score(
                model, params, tokens, token_mask, LAYOUT.column_visibility
            )
            return jnp.sum(log_probs + entropy), log_probs

        return jax.value_and_grad(total, has_aux=True)(params)

    (_, log_probs), grads = total_and_grad(params, batch["tokens"])
    before = np.pad(token_mask, ((0, 0), (1, 0)))[:, :-1]
    np.testing.assert_array_equal(log_probs != 0.0, token_mask & before)
    changed = np.where(token_mask, batch["tokens"], 7)
    (_, again), grads_again = total_and_grad(params, changed)
    np.testing.assert_array_equal(log_probs, again)
    jax.tree.map(np.testing.assert_array_equal, grads, grads_again)


class Bigram:
    """A table of logits by the token before: its hidden state is that token."""

    def hidden(self, params, tokens, positions, attention_mask):
        return jax.nn.one_hot(tokens, len(params))

    def unembedding(self, params):
        return params.T

    def prefill(self, params, tokens, positions, mask, *, read_column, room):
        last = jnp.take_along_axis(tokens, read_column[:, None], axis=1)[:, 0]
        return self.hidden(params, last, positions, mask), ()

    def extend(self, params, cache, tokens, positions, column, attention_mask):
        return self.hidden(params, tokens, positions, attention_mask), cache


@functools.partial(jax.jit, static_argnames="temperature")
def sample_bigrams(table, first, uniforms, *, temperature):
    """Every row holds its first token alone and writes to the full width."""
    rows, width = uniforms.shape
    return decoding.sample_actions(
        Bigram(),
        table,
        first[:, None],
        jnp.ones((rows, 1), bool),
        jnp.ones((rows, 1), bool),
        jnp.zeros(rows, jnp.int32),
        jnp.full(rows, width),
        jnp.ones(rows, bool),
        uniforms,
        column_visibility=np.ones((1, 1), bool),
        max_actions=width,
        prefix_width=1,
        end_tokens=(),
        pad_token=0,
        temperature=temperature,
    )


def test_scoring_reads_the_token_before_and_not_another():
    """Published case; TRL, verl and Tunix agree. A shift by one gives other numbers."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(11, 11)).astype(np.float32)
    tokens = np.array([[0, 3, 4, 1, 2, 3, 4], [5, 6, 7, 8, 9, 0, 0]], np.int32)
    log_probs, entropy = decoding.score(
        Bigram(),
        table,
        tokens,
        np.ones((2, 7), bool),
        np.tril(np.ones((7, 7), bool)),
        temperature=0.7,
    )
    expected = [
        [-4.395604, -3.177874, -2.272273, -3.787161],
        [-2.686427, -4.243375, -4.743725, -2.768811],
    ]
    np.testing.assert_allclose(log_probs[:, 3:], expected, atol=1e-5)
    rows = table[tokens[:, 2:6]].astype(np.float64) / 0.7
    p = np.exp(rows) / np.exp(rows).sum(-1, keepdims=True)
    np.testing.assert_allclose(entropy[:, 3:], -(p * np.log(p)).sum(-1), atol=1e-5)


@pytest.mark.parametrize(
    ("temperature", "expected"), [(1.0, -0.28768207), (0.5, -0.10536052)]
)
def test_temperature_is_the_same_on_both_sides(temperature, expected):
    """Logits [0, ln 3]: log(3/4) at 1, log(9/10) at 1/2."""
    table = np.log([[1.0, 3.0], [1.0, 3.0]]).astype(np.float32)
    tokens, seen = np.ones((1, 2), np.int32), np.ones((1, 2), bool)
    square = np.tril(np.ones((2, 2), bool))
    scored, _ = decoding.score(
        Bigram(), table, tokens, seen, square, temperature=temperature
    )
    np.testing.assert_allclose(scored[0, 1], expected, atol=1e-6)
    uniforms = np.full((1, 1), 0.99, np.float32)
    actions = sample_bigrams(table, tokens[:, 0], uniforms, temperature=temperature)
    assert actions.tokens[0, 0] == 1
    np.testing.assert_allclose(actions.log_probs[0, 0], expected, atol=1e-6)


def test_frequencies_match_the_softmax_at_the_sampling_temperature():
    """Chi-square over two tokens, 36 cells; the first token feeds the second."""
    rows, temperature = 20_000, 0.5
    table = np.random.default_rng(1).normal(size=(6, 6)).astype(np.float32)
    first = np.full(rows, 4, np.int32)
    uniforms = jax.random.uniform(jax.random.key(0), (rows, 2))
    actions = sample_bigrams(table, first, uniforms, temperature=temperature)
    p = np.exp(table.astype(np.float64) / temperature)
    p /= p.sum(1, keepdims=True)
    expected = rows * p[4][:, None] * p
    counts = np.zeros((6, 6))
    np.add.at(counts, tuple(np.asarray(actions.tokens).T), 1)
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 66.6  # 0.999 quantile at 35 degrees of freedom


@pytest.mark.parametrize("size", [3, 64, 65, 200])
def test_inverse_cdf_matches_a_slow_search_and_skips_impossible_tokens(size):
    rng = np.random.default_rng(size)
    weights = rng.random((400, size)) * (rng.random((400, size)) < 0.3)
    weights[np.arange(400), rng.integers(0, size, 400)] = 1.0
    weights = weights.astype(np.float32)
    uniforms = rng.random(400).astype(np.float32)
    uniforms[:3] = [0.0, np.nextafter(np.float32(1), np.float32(0)), 1.0]
    got = np.asarray(jax.jit(categorical.inverse_cdf)(weights, uniforms))
    assert np.all(weights[np.arange(400), got] > 0)
    cumulative = np.cumsum(weights.astype(np.float64), axis=1)
    slow = np.argmax(cumulative > (uniforms * cumulative[:, -1])[:, None], axis=1)
    np.testing.assert_array_equal(got[3:], slow[3:])
    last = size - 1 - np.argmax(weights[:, ::-1] > 0, axis=1)
    np.testing.assert_array_equal(
        got[:3], [np.argmax(weights[0] > 0), last[1], last[2]]
    )


def test_other_values_of_equal_shape_do_not_compile_again(model, params, batch):
    @jax.jit
    @chex.assert_max_traces(1)
    def traced(params, batch):
        return sample(model, params, batch)

    traced(params, batch)
    traced(params, {**batch, "uniforms": 1.0 - batch["uniforms"]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"uniforms": np.zeros((N, A + 1))}, r"uniforms.shape=\(6, 6\) must be"),
        (
            {"token_mask": np.ones((N, T - 1), bool)},
            "token_mask.shape=.* must be that of",
        ),
        ({"temperature": -1.0}, "temperature=-1.0 must be at least 0"),
        ({"temperature": float("nan")}, "temperature=nan must be at least 0"),
        ({"prefix_width": T + 1}, f"prefix_width={T + 1} must be in"),
    ],
)
def test_bad_arguments_are_refused_by_name(model, params, batch, change, message):
    with pytest.raises(ValueError, match=message):
        sample(model, params, batch, **change)


def test_scoring_refuses_temperature_zero(model, params, batch):
    with pytest.raises(ValueError, match=r"temperature=0\.0 must be positive"):
        jitted_score(
            model, params, batch["tokens"], batch["token_mask"], temperature=0.0
        )
