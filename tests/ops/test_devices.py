"""Four CPU devices give the numbers of one, under pmap and under shard_map."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from agentic_grpo import ops
from agentic_grpo.ops import credit

D, B, T = 4, 8, 5
RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(3,)).astype(np.float32)
ACTIONS = RNG.integers(0, 3, size=(B, T))
MASK = RNG.random((B, T)) < np.linspace(0.2, 1.0, B)[:, None]  # uneven shares
ADVANTAGE = RNG.normal(size=(B, T)).astype(np.float32)


def loss(logits, actions, advantage, mask):
    """``Mean`` over tokens of a bandit's PPO loss; the policy is one softmax."""
    logs = jax.nn.log_softmax(logits)[actions]
    record = ops.token_credit(advantage, mask, clip_low=0.2, clip_high=0.2)
    return ops.token_mean(ops.ppo_clip_loss(logs, logs - 0.1, record), mask)


def local_total_then_psum(logits, actions, advantage, mask, *, axis_name):
    """The right order: differentiate the local total, then one psum of both."""

    def total(logits):
        mean = loss(logits, actions, advantage, mask)
        return mean.total, mean.count

    gradient, count = jax.grad(total, has_aux=True)(logits)
    if axis_name is not None:
        gradient, count = jax.lax.psum((gradient, count), axis_name)
    return gradient / count


def spread(function, kind):
    """``function`` over the rows of all but the first argument, on D devices."""
    if kind == "pmap":
        over = jax.pmap(function, axis_name="d", in_axes=(None, 0, 0, 0))
        return lambda first, *rest: over(
            first, *(x.reshape(D, B // D, *x.shape[1:]) for x in rest)
        )[0]
    mesh = jax.make_mesh((D,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    return jax.jit(
        jax.shard_map(
            function,
            mesh=mesh,
            in_specs=(P(), P("d"), P("d"), P("d")),
            out_specs=P(),
            check_vma=False,
        )
    )


@pytest.mark.parametrize("kind", ["pmap", "shard_map"])
def test_local_totals_and_one_psum_give_one_update(kind):
    """With the psum inside the differentiated loss devices change the update."""
    whole = local_total_then_psum(LOGITS, ACTIONS, ADVANTAGE, MASK, axis_name=None)
    step = functools.partial(local_total_then_psum, axis_name="d")
    ours = spread(step, kind)(LOGITS, ACTIONS, ADVANTAGE, MASK)
    np.testing.assert_allclose(ours, whole, atol=1e-7)
    assert np.abs(whole).max() > 0.01


@pytest.mark.parametrize("kind", ["pmap", "shard_map"])
def test_the_documented_gradient_is_4_5_and_not_18(kind):
    """f(w) = mean over devices' counts of w x; x = 9 rows' worth on each: ∂f = 4.5."""
    values = np.full((B,), 9.0, np.float32)
    half = np.tile(np.array([True, False]), B // 2)

    def gradient(w, values, half, everyone):
        def total(w):
            return ops.masked_sum(w * values, half)

        count = jnp.sum(everyone, dtype=jnp.float32)
        slope, count = jax.lax.psum((jax.grad(total)(w), count), "d")
        return slope / count

    ours = spread(gradient, kind)(np.float32(1.0), values, half, np.ones(B, bool))
    assert float(ours) == pytest.approx(4.5)


@pytest.mark.parametrize("kind", ["pmap", "shard_map"])
def test_values_and_statistics_take_an_axis_name(kind):
    """style: averages of per-device averages gave 2.25 where the truth was 3.2."""

    def statistics(_, actions, advantage, mask):
        mean = ops.masked_mean(advantage, mask).over("d")
        share = ops.effective_sample_share(jnp.exp(advantage), mask, axis_name="d")
        square = ops.chi_square(jnp.exp(advantage), mask, axis_name="d")
        scaled = ops.scale_by_batch(advantage, mask, recentre=True, axis_name="d")
        spread = jax.lax.psum(jnp.sum(jnp.where(mask, scaled**2, 0.0)), "d")
        return jnp.stack([mean, share, square, spread])

    got = spread(statistics, kind)(LOGITS, ACTIONS, ADVANTAGE, MASK)
    weights = np.exp(ADVANTAGE[MASK].astype(np.float64))
    expected = [
        ADVANTAGE[MASK].mean(),
        weights.sum() ** 2 / (weights.size * (weights**2).sum()),
        (weights**2).mean() - 1,
        MASK.sum(),  # whitened: the squares sum to the number of tokens
    ]
    np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("kind", ["pmap", "shard_map"])
def test_credit_states_stay_equal_on_all_devices(kind, make_events):
    kinds = ("estimate", "none", "none", "estimate")
    rule = credit.calibrated(kinds, num_levels=2)
    parts = [make_events(seed) for seed in range(D)]
    events = jax.tree.map(lambda *x: jnp.concatenate(x), *parts)
    whole, diagnostics = jax.jit(rule.update)(rule.init(), events)
    update = functools.partial(rule.update, axis_name="d")
    if kind == "pmap":
        split = jax.tree.map(lambda x: x.reshape(D, 3, *x.shape[1:]), events)
        states, reports = jax.pmap(update, axis_name="d", in_axes=(None, 0))(
            rule.init(), split
        )
        for device in range(D):
            result = jax.tree.map(lambda x, d=device: x[d], (states, reports))
            jax.tree.map(
                functools.partial(np.testing.assert_allclose, rtol=1e-5),
                result,
                (whole, diagnostics),
            )
        return
    mesh = jax.make_mesh((D,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    sharded = jax.shard_map(  # check_vma proves that the result is equal everywhere
        update, mesh=mesh, in_specs=(P(), P("d")), out_specs=P(), check_vma=True
    )
    result = jax.jit(sharded)(rule.init(), events)
    jax.tree.map(
        functools.partial(np.testing.assert_allclose, rtol=1e-5),
        result,
        (whole, diagnostics),
    )
