"""What a critic may read, and what it must not."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import packed_episodes
import pytest

from agentic_grpo.critic import network

LAYOUT = packed_episodes.layout_of(blind=False)
POLICY = packed_episodes.policy_of(False)
EPISODES = 9
DRAFT, FINAL = 0, 1


@functools.cache
def prefix():
    rng = np.random.default_rng(0)
    tokens, mask, _ = packed_episodes.draw_episodes(LAYOUT, rng, EPISODES)
    return network.Prefix(
        tokens=jnp.asarray(tokens),
        token_mask=jnp.asarray(mask),
        reward=jnp.asarray(rng.random((EPISODES, 2)), jnp.float32),
        reward_mask=jnp.ones((EPISODES, 2), bool),
    )


@functools.cache
def critic(kind, **options):
    if kind == "head":
        return network.head_critic(
            LAYOUT, POLICY.hidden, hidden_size=packed_episodes.CONFIG.hidden_size
        )
    return network.decoder_critic(
        LAYOUT,
        vocabulary_size=packed_episodes.V,
        hidden_size=16,
        num_heads=2,
        **options,
    )


@functools.cache
def forecaster(kind, **options):
    chosen = critic(kind, **options)
    params = chosen.init(jax.random.key(0))
    # a read-out that starts at 0 shows nothing
    params["read_out"] = jax.tree.map(
        lambda x: jax.random.normal(jax.random.key(1), x.shape), params["read_out"]
    )
    policy_params = POLICY.init(jax.random.key(2))

    @jax.jit
    def forecast(prefix):
        return chosen.forecast(params, chosen.observe(policy_params, prefix))

    return forecast


def changed_columns(first, last):
    """The prefix with other tokens in columns first .. last - 1."""
    tokens = prefix().tokens
    here = (np.arange(LAYOUT.num_columns) >= first) & (
        np.arange(LAYOUT.num_columns) < last
    )
    other = jnp.where(here[None], (tokens + 5) % packed_episodes.V, tokens)
    return dataclasses.replace(prefix(), tokens=other)


@pytest.mark.parametrize("kind", ["decoder", "head"])
def test_a_forecast_sees_nothing_that_comes_after_its_stage(kind):
    forecast = forecaster(kind)
    later = changed_columns(LAYOUT.offsets[FINAL], LAYOUT.num_columns)
    later = dataclasses.replace(later, reward=later.reward.at[:, FINAL].add(0.5))
    # the last episode is empty: who sees nothing at all means nothing
    before, after = forecast(prefix())[:-1], forecast(later)[:-1]
    np.testing.assert_array_equal(after[:, DRAFT], before[:, DRAFT])
    assert np.abs(after[:, FINAL] - before[:, FINAL]).max() > 1e-3


@pytest.mark.parametrize("kind", ["decoder", "head"])
def test_a_forecast_reads_the_actions_the_feedback_and_the_stage_reward(kind):
    forecast, before = forecaster(kind), forecaster(kind)(prefix())
    first = LAYOUT.offsets[DRAFT] + 1
    for columns in ((first, first + 1), (first + 3, first + 5)):  # actions, feedback
        assert np.abs(forecast(changed_columns(*columns)) - before).max() > 1e-4
    reward = prefix().reward.at[:, DRAFT].add(0.25)
    after = forecast(dataclasses.replace(prefix(), reward=reward))
    assert (np.abs(after[:, DRAFT] - before[:, DRAFT]) > 1e-4).all()


@pytest.mark.parametrize(
    ("sees", "blind_to", "sensitive_to"),
    [("actions", (3, 5), (0, 1)), ("feedback", (0, 3), (3, 5))],
)
def test_the_controls_see_the_program_or_the_feedback_alone(
    sees, blind_to, sensitive_to
):
    forecast = forecaster("decoder", sees=sees)
    first, before = LAYOUT.offsets[DRAFT] + 1, forecast(prefix())
    after = forecast(changed_columns(first + blind_to[0], first + blind_to[1]))
    np.testing.assert_array_equal(after[:, DRAFT], before[:, DRAFT])
    after = forecast(changed_columns(first + sensitive_to[0], first + sensitive_to[1]))
    assert np.abs(after[:, DRAFT] - before[:, DRAFT]).max() > 1e-4
    reward = dataclasses.replace(prefix(), reward=prefix().reward + 0.25)
    feels_reward = np.abs(forecast(reward) - before).max() > 1e-4
    assert feels_reward == (sees == "feedback")


def test_before_it_has_learnt_every_forecast_is_one_half():
    chosen = critic("decoder")
    logits = chosen.forecast(
        chosen.init(jax.random.key(3)), chosen.observe(None, prefix())
    )
    np.testing.assert_array_equal(logits, 0.0)


def test_a_reward_behind_its_mask_is_not_read():
    absent = dataclasses.replace(
        prefix(),
        reward=jnp.full_like(prefix().reward, jnp.nan),
        reward_mask=jnp.zeros_like(prefix().reward_mask),
    )
    for kind in ("decoder", "head"):
        assert np.isfinite(forecaster(kind)(absent)).all()


def test_the_head_gives_the_policy_no_gradient():
    chosen = critic("head")
    params = chosen.init(jax.random.key(0))
    params["read_out"]["hidden"] += 1.0

    def total(policy_params):
        return chosen.forecast(params, chosen.observe(policy_params, prefix())).sum()

    gradient = jax.grad(total)(POLICY.init(jax.random.key(2)))
    assert all(not np.asarray(leaf).any() for leaf in jax.tree.leaves(gradient))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sees": "everything"}, "sees='everything' must be one of"),
        ({"hidden_size": 18, "num_heads": 4}, "hidden_size=18 must be a multiple of"),
    ],
)
def test_bad_sizes_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        network.decoder_critic(LAYOUT, vocabulary_size=5, **options)
    with pytest.raises(ValueError, match="read=None"):
        network.head_critic(LAYOUT, None, hidden_size=4)
