"""Advantages of one group, of groups by id, and of a batch."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import references

from agentic_grpo import ops

G = 6
OPTIONS = [
    {"divisor": divisor, "ddof": ddof, "baseline": baseline, "use_ranks": ranks}
    for divisor, ddof in (("own", 0), ("own", 1), ("none", 0))
    for baseline in ("mean", "leave_one_out")
    for ranks in (False, True)
]
COMPUTE = {
    str(options): jax.jit(functools.partial(ops.group_advantages, **options))
    for options in OPTIONS
}
rewards_of_a_group = st.lists(
    st.integers(0, 20).map(lambda n: n / 20), min_size=G, max_size=G
)
masks = st.lists(st.booleans(), min_size=G, max_size=G)
few = hypothesis.settings(
    max_examples=40, deadline=None, derandomize=True, database=None
)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@few
@hypothesis.given(rewards=rewards_of_a_group, mask=masks)
def test_advantages_match_a_slow_loop(options, rewards, mask):
    rewards, mask = np.array(rewards, np.float32), np.array(mask)
    got, zero_variance, _ = COMPUTE[str(options)](rewards, mask)
    values = rewards
    if options["use_ranks"]:
        values = references.centred_ranks(rewards, mask)
    expected, expected_zero_variance = references.compare(
        values,
        mask,
        baseline=options["baseline"],
        ddof=options["ddof"],
        divisor=1.0 if options["divisor"] == "none" else None,
    )
    np.testing.assert_allclose(got, expected, atol=2e-5)
    assert bool(zero_variance) == expected_zero_variance


@few
@hypothesis.given(
    rewards=rewards_of_a_group,
    mask=masks,
    shift=st.integers(-3, 3),
    scale=st.sampled_from([0.5, 2.0]),
    order=st.permutations(range(G)),
)
def test_advantages_have_the_symmetries_they_should(rewards, mask, shift, scale, order):
    """Permutation always; shift always; scale only where a deviation divides."""
    rewards, mask, order = (
        np.array(rewards, np.float32),
        np.array(mask),
        np.array(order),
    )
    for options in OPTIONS[::2]:
        compute = COMPUTE[str(options)]
        base = compute(rewards, mask).advantage
        permuted = compute(rewards[order], mask[order]).advantage
        np.testing.assert_allclose(permuted, base[order], atol=1e-5)
        shifted = compute(rewards + np.float32(shift), mask).advantage
        np.testing.assert_allclose(shifted, base, atol=1e-4)
        scaled = compute(rewards * np.float32(scale), mask).advantage
        factor = scale if options["divisor"] == "none" else 1.0
        np.testing.assert_allclose(scaled, factor * np.asarray(base), atol=1e-4)


@pytest.mark.parametrize(("value", "size"), [(0.7, 7), (0.3, 12), (0.1, 6)])
@pytest.mark.parametrize("options", [{}, {"ddof": 1}, {"divisor": "none"}], ids=str)
def test_equal_rewards_give_exactly_zero(value, size, options):
    """trl#3857, #3452, #6365, verl#6348: float32 noise divided by float32 noise."""
    rewards = np.full(size, value, np.float32)
    advantages, zero_variance, _ = ops.group_advantages(
        rewards, np.ones(size, bool), **options
    )
    np.testing.assert_array_equal(advantages, 0.0)
    assert zero_variance


def test_no_reward_is_not_a_reward_of_zero():
    """trl#6427: with [None, -1, -1, None] doing nothing must not beat trying."""
    rewards = np.array([np.nan, -1.0, -1.0, np.nan], np.float32)
    mask = np.array([False, True, True, False])
    advantages, zero_variance, _ = ops.group_advantages(rewards, mask)
    np.testing.assert_array_equal(advantages, 0.0)
    assert zero_variance


def test_the_baseline_is_over_those_who_have_a_reward():
    """NeMo Gym#2015: one of four sandboxes failed, the mean is over three."""
    rewards = np.array([1.0, np.inf, 0.0, 0.5], np.float32)
    mask = np.array([True, False, True, True])
    got = ops.group_advantages(rewards, mask, divisor="none")
    np.testing.assert_allclose(got.advantage, [0.5, 0.0, -0.5, 0.0], atol=1e-7)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_reward_that_is_not_finite_leaves_its_group_alone(value, options):
    """[-inf, nan, -inf] for [1, inf, 0]; a square that overflows is no better."""
    rewards = np.array([1.0, value, 0.0, 0.5, 0.5, 0.5], np.float32)
    compute = COMPUTE[str(options)]
    got, zero_variance, _ = compute(rewards, np.ones(6, bool))
    expected = compute(rewards, np.arange(6) != 1).advantage
    np.testing.assert_array_equal(got, expected)
    assert not zero_variance and got[0] > 0.0 and got[1] == 0.0


def test_a_batch_with_an_infinite_reward_is_scaled_by_the_others():
    centred = jnp.array([[0.5, -0.5], [jnp.inf, 0.5], [-0.5, 0.0]])
    scaled = ops.scale_by_batch(centred, np.ones((3, 2), bool))
    rest = np.array([0.5, -0.5, 0.5, -0.5, 0.0])
    expected = np.array([0.5, -0.5, 0.0, 0.5, -0.5, 0.0]) / rest.std()
    np.testing.assert_allclose(scaled.reshape(-1), expected, rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.7, np.nan])
@pytest.mark.parametrize("present", [False, True])
def test_a_silent_batch_has_no_gradient_and_no_nan(value, present):
    """The slope of the root at a variance of 0 is infinite; times 0 it is NaN."""
    values, mask = jnp.full((2, 3), value), jnp.full((2, 3), present)
    slope = jax.grad(lambda x: jnp.sum(ops.scale_by_batch(x, mask)))(values)
    np.testing.assert_array_equal(slope, 0.0)
    slope = jax.grad(lambda x: jnp.sum(ops.group_advantages(x, mask[0])[0]))(values[0])
    np.testing.assert_array_equal(slope, 0.0)


def test_who_is_rejected_as_a_whole_moves_no_baseline():
    """NeMo-RL#3467, verl#6452: rewards [1, 1, 0, 0], all tokens of the second rejected:
    2/3, -1/3, -1/3, where [0.5, -0.5, -0.5] lets it vote.
    """
    logs = np.log(np.array([[1.0, 1.0], [9.0, 9.0], [1.0, 1.1], [1.0, 1.0]]))
    everything = np.ones((4, 2), bool)
    kept = ops.sequence_rejection(
        logs, np.zeros_like(logs), everything, low=0.5, high=2.0
    )
    rewards = np.array([1.0, 1.0, 0.0, 0.0], np.float32)
    present = jnp.any(kept, axis=-1)
    for options, expected in (
        ({"divisor": "none"}, [2 / 3, 0.0, -1 / 3, -1 / 3]),
        ({"ddof": 1}, [1.1547, 0.0, -0.57735, -0.57735]),
    ):
        got = ops.group_advantages(rewards, present, **options)
        np.testing.assert_allclose(got.advantage, expected, atol=1e-5)


def test_groups_by_id_in_any_order_equal_groups_as_an_axis():
    """Search-R1#88: rows of a group that lie apart are still one group."""
    rng = np.random.default_rng(0)
    rewards = rng.uniform(size=(5, 4)).astype(np.float32)
    rewards[3] = 0.5
    mask = rng.random((5, 4)) < 0.8
    as_axis, zero_variance, _ = jax.vmap(ops.group_advantages)(rewards, mask)
    order = rng.permutation(20)
    ids = np.repeat([7, -3, 100, 0, 41], 4)[order]
    by_id, row_zero_variance = ops.advantages_by_id(
        rewards.reshape(-1)[order], ids, mask.reshape(-1)[order]
    )
    np.testing.assert_allclose(by_id, as_axis.reshape(-1)[order], atol=1e-6)
    np.testing.assert_array_equal(row_zero_variance, np.repeat(zero_variance, 4)[order])


def test_a_singleton_has_nobody_to_be_compared_with():
    """Search-R1#88: with ids [0, 1] GRPO silently became REINFORCE without baseline."""
    advantages, zero_variance = ops.advantages_by_id(
        np.array([1.0, 0.0], np.float32), np.array([0, 1]), np.ones(2, bool)
    )
    np.testing.assert_array_equal(advantages, [0.0, 0.0])
    assert np.all(zero_variance)


def test_a_batch_deviation_is_over_all_groups():
    """LitePPO: group mean, batch deviation. [1, 0] and [.5, .5] -> std of ±.5, 0, 0."""
    centred = jnp.array([[0.5, -0.5], [0.0, 0.0]])
    scaled = ops.scale_by_batch(centred, np.ones((2, 2), bool))
    np.testing.assert_allclose(scaled, centred / np.sqrt(0.125), rtol=1e-6)
    mask = np.array([[True, True], [False, False]])
    poisoned = centred.at[1].set(jnp.nan)
    np.testing.assert_allclose(
        ops.scale_by_batch(poisoned, mask), [[1.0, -1.0], [0.0, 0.0]], rtol=1e-6
    )


def test_a_batch_can_be_whitened():
    """REINFORCE++ with a baseline: after masking, the mean need not be 0 any more."""
    rng = np.random.default_rng(1)
    centred = rng.normal(1.0, 2.0, size=(3, 4)).astype(np.float32)
    mask = rng.random((3, 4)) < 0.7
    got = np.asarray(ops.scale_by_batch(centred, mask, recentre=True))[mask]
    expected = (centred[mask] - centred[mask].mean()) / centred[mask].std()
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    equal = np.full((3, 4), 0.7, np.float32)
    np.testing.assert_array_equal(ops.scale_by_batch(equal, mask), 0.0)


def test_ranks_share_ties_and_sum_to_zero():
    ranks = ops.centred_ranks(np.array([0.2, 0.9, 0.2, 0.5]), np.ones(4, bool))
    np.testing.assert_allclose(ranks, [-1 / 3, 0.5, -1 / 3, 1 / 6], rtol=1e-6)
    alone = ops.centred_ranks(np.array([0.2, 0.9]), np.array([True, False]))
    np.testing.assert_array_equal(alone, [0.0, 0.0])


FILL = {
    fill: jax.jit(
        functools.partial(
            ops.fill_stopped, fill=fill, rewarded=np.array([True, False, True, True])
        )
    )
    for fill in ("reached", "carry_forward", "zero")
}


@few
@hypothesis.given(
    stops=st.lists(st.integers(0, 4), min_size=3, max_size=3),
    present=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_fills_match_a_slow_loop(stops, present):
    """Also: a member that failed at its last rewarded stage is never filled in."""
    acted = np.arange(4) < np.array(stops)[:, None]
    mask = np.array(present).reshape(3, 4)
    rewards = np.linspace(0.1, 1.2, 12, dtype=np.float32).reshape(3, 4)
    rewards = np.where(acted & mask, rewards, np.float32(np.nan))
    for fill, compute in FILL.items():
        values, population = compute(rewards, mask, acted)
        expected, expected_population = references.fill_stopped(
            rewards, mask, acted, fill=fill, rewarded=[True, False, True, True]
        )
        np.testing.assert_array_equal(population, expected_population)
        np.testing.assert_allclose(values, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r, m: ops.group_advantages(r, m, divisor="std"), "divisor='std'"),
        (lambda r, m: ops.group_advantages(r, m, divisor="running"), "sigma=None"),
        (lambda r, m: ops.group_advantages(r, m, baseline="max"), "baseline='max'"),
        (
            lambda r, m: ops.fill_stopped(
                r[None], m[None], m[None], fill="last", rewarded=m
            ),
            "fill='last'",
        ),
    ],
)
def test_a_bad_option_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call(jnp.zeros(2), np.ones(2, bool))
