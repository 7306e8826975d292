"""A critic learns from settled members, and from nothing else."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.critic import learning, memory, network

STAGES, FEATURES, PER_BLOCK, CAPACITY = 2, 3, 4, 8


def linear(scale=1.0):
    """Logits that are linear in the features: no layout, no tokens."""

    def forecast(params, examples):
        return scale * examples @ params["weights"] + params["bias"][None]

    return network.Critic(
        init=lambda key: {
            "weights": jnp.zeros((FEATURES, STAGES)),
            "bias": jnp.zeros((STAGES,)),
        },
        observe=lambda policy_params, prefix: prefix,
        forecast=forecast,
    )


SETTINGS = learning.CriticSettings(
    network=linear(),
    num_stages=STAGES,
    capacity=CAPACITY,
    batch_size=16,
    steps=2,
    learning_rate=0.1,
)


@functools.cache
def teacher(settings=SETTINGS):
    @jax.jit
    def teach(state, memories, examples, verdict, known, tick):
        return learning.learn(
            settings,
            state,
            memories,
            examples,
            verdict,
            known,
            key=jax.random.key(5),
            tick=tick,
        )

    return teach


def start(num_blocks=1):
    empty = memory.init(jnp.zeros((1, FEATURES)), capacity=CAPACITY, num_stages=STAGES)
    state = learning.init(SETTINGS, jax.random.key(0))
    return state, jax.tree.map(lambda x: jnp.stack([x] * num_blocks), empty)


def settled(seed, num_blocks=1, number=PER_BLOCK):
    rng = np.random.default_rng(seed)
    examples = rng.normal(size=(num_blocks, number, FEATURES)).astype(np.float32)
    verdict = (examples[..., 0] > 0).astype(np.float32)
    return examples, verdict, np.ones((num_blocks, number, STAGES), bool)


def test_it_learns_to_forecast_what_settles():
    state, memories = start()
    for tick in range(60):
        state, memories, metrics = teacher()(state, memories, *settled(tick), tick)
    examples, verdict, _ = settled(999, number=200)
    forecasts = jax.nn.sigmoid(SETTINGS.network.forecast(state.params, examples[0]))
    right = (np.asarray(forecasts) > 0.5) == (verdict[0] > 0.5)[:, None]
    assert right.mean() > 0.9
    assert metrics["critic/loss"].over() < 0.3 < np.log(2)
    assert int(state.episodes) == 60 * PER_BLOCK


def test_an_absent_verdict_teaches_nothing():
    state, memories = start()
    examples, verdict, known = settled(0)
    after, memories, metrics = teacher()(
        state, memories, examples, verdict, np.zeros_like(known), 0
    )
    jax.tree.map(np.testing.assert_array_equal, after, state)
    assert int(memories.total[0]) == 0 and metrics["critic/loss"].count == 0


def test_the_memory_keeps_the_newest_episodes_and_nothing_of_those_left_out():
    _, memories = start()
    one = jax.tree.map(lambda x: x[0], memories)
    for number in range(5):
        examples = jnp.full((3, FEATURES), float(number))
        verdict = jnp.array([number, 0.5, number], jnp.float32)
        known = jnp.array([[True, True], [False, False], [True, False]])
        one = memory.put(one, examples, verdict, known)
    # Ten were taken in, two at a time; eight are held, so the first two are gone.
    np.testing.assert_array_equal(np.sort(one.verdict), np.repeat([1, 2, 3, 4], 2))
    assert int(one.total) == 10
    _, verdict, known = memory.draw(one, jax.random.key(0), 64)
    assert set(np.asarray(verdict)) == {1.0, 2.0, 3.0, 4.0} and known[:, 0].all()


def test_an_empty_memory_gives_nothing_to_learn_from():
    _, memories = start()
    one = jax.tree.map(lambda x: x[0], memories)
    _, _, known = memory.draw(one, jax.random.key(0), 4)
    assert not known.any()


def test_a_memory_smaller_than_a_tick_is_refused():
    _, memories = start()
    one = jax.tree.map(lambda x: x[0], memories)
    with pytest.raises(ValueError, match="capacity=8 must be at least the 9 episodes"):
        memory.put(one, jnp.zeros((9, FEATURES)), jnp.zeros(9), jnp.ones((9, 2), bool))


def test_a_step_that_is_not_finite_is_skipped_and_counted():
    state, memories = start()
    examples, verdict, known = settled(0)
    good, memories, _ = teacher()(state, memories, examples, verdict, known, 0)
    bad = np.full_like(examples, np.nan)
    for tick in (1, 2):  # the memory is full of them now
        after, memories, metrics = teacher()(good, memories, bad, verdict, known, tick)
    assert int(metrics["critic/steps_skipped"]) == 2
    jax.tree.map(np.testing.assert_array_equal, after.params, good.params)
    assert np.isfinite(metrics["critic/loss"].over())


def test_two_devices_learn_what_one_does():
    state, memories = start(num_blocks=2)
    taught = settled(3, num_blocks=2)
    whole, _, metrics = teacher()(state, memories, *taught, 0)
    split = jax.tree.map(lambda x: x[:, None], (memories, *taught))

    def on_device(state, memories, examples, verdict, known):
        return learning.learn(
            SETTINGS,
            state,
            memories,
            examples,
            verdict,
            known,
            key=jax.random.key(5),
            tick=jnp.int32(0),
            first_block=jax.lax.axis_index("devices"),
            axis_name="devices",
        )

    mapped = jax.pmap(on_device, "devices", in_axes=(None, 0, 0, 0, 0))
    parts, _, split_metrics = mapped(state, *split)
    for one, other in zip(
        *map(jax.tree.leaves, (parts.params, whole.params)), strict=True
    ):
        np.testing.assert_allclose(one[1], other, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        split_metrics["critic/loss"].over()[0], metrics["critic/loss"].over(), rtol=1e-5
    )
    assert int(parts.episodes[0]) == int(whole.episodes) == 2 * PER_BLOCK


def test_the_report_bins_forecasts_and_measures_what_they_explain():
    # One group of four, one stage: verdicts 0, 0, 1, 1; the forecast is half right.
    verdict = jnp.array([[0.0, 0.0, 1.0, 1.0]])
    forecasts = jnp.array([[0.25, 0.25, 0.75, 0.75]])[..., None]
    known = jnp.ones((1, 4, 1), bool)
    report = learning.report(forecasts, verdict, known, ("code",))
    assert report["critic/forecast/bin_2"].over() == 0.25
    assert report["critic/verdict/bin_2"].over() == 0.0
    assert report["critic/verdict/bin_7"].over() == 1.0
    assert report["critic/verdict/bin_5"].count == 0
    # centred: verdicts -+1/2, forecasts -+1/4: 1 - (1/4)^2 / (1/2)^2
    np.testing.assert_allclose(report["critic/explained/code"].over(), 0.75)
    silent = learning.report(forecasts, jnp.ones((1, 4)), known, ("code",))
    assert silent["critic/explained/code"].count == 0


@pytest.mark.parametrize("name", ["capacity", "batch_size", "steps"])
def test_sizes_below_one_are_refused(name):
    with pytest.raises(ValueError, match=f"{name}=0 must be at least 1"):
        dataclasses.replace(SETTINGS, **{name: 0})
