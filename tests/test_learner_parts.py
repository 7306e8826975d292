"""However a batch is cut, the step and every number it reports are those of the whole.

A loss that adds up totals part by part must not add up its divisor part by part: with a
constant divisor that made gradients 1 / parts of what they should be, another share in
every tick.
"""

import dataclasses
import functools

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import optax
import packed_episodes
import pytest

from agentic_grpo import learner
from agentic_grpo.ops import aggregation, kl_estimators, objective
from agentic_grpo.ops.policy_losses import ppo_clip_loss
from agentic_grpo.ops.reductions import is_reduction
from agentic_grpo.records import TokenCredit

LAYOUT = packed_episodes.layout_of(blind=False)
POLICY = packed_episodes.policy_of(False)
ROWS = 12
AGGREGATIONS = {
    "constant": aggregation.constant_divisor(3.0),
    "token_mean": aggregation.token_mean,
    "sequence_mean_token_mean": aggregation.sequence_mean_token_mean,
    "sequence_mean_token_sum": aggregation.sequence_mean_token_sum,
}
#: More gradient than rounding: what is compared is the plain sum of a row's gradients.
SGD = optax.scale(-1.0)


def settings(name, **changes):
    return learner.LearnerSettings(
        objective=objective.make_objective(
            ppo_clip_loss,
            anchor="behaviour",
            granularity="token",
            treatment="none",
            low=0.5,
            high=2.0,
            length_normalised=False,
            segment_of_column=LAYOUT.segment_of_column,
        ),
        aggregate=AGGREGATIONS[name],
        entropy_weight=0.05,
        kl_weight=0.1,
        kl_loss=functools.partial(kl_estimators.kl_loss, estimator="k3"),
        **changes,
    )


def draw_batch(rows_with_credit, seed=0):
    """Rows of which the first have credit: the more, the more packed parts."""
    rng = np.random.default_rng(seed)
    tokens, mask, action = packed_episodes.draw_episodes(LAYOUT, rng, ROWS)
    trained = action & (np.arange(ROWS) < rows_with_credit)[:, None]
    credit_mask = np.stack([trained & (rng.random(trained.shape) < 0.5), trained])
    advantage = rng.normal(size=credit_mask.shape) * credit_mask
    behaviour = np.where(action, -2.0 + 0.3 * rng.normal(size=action.shape), 0.0)
    behaviour = jnp.asarray(behaviour, jnp.float32)
    clip = jnp.full(credit_mask.shape, 0.2)
    return learner.Batch(
        tokens=jnp.asarray(tokens),
        token_mask=jnp.asarray(mask),
        anchor_log_probs=behaviour,
        behaviour_log_probs=behaviour,
        credit=TokenCredit(
            advantage=jnp.asarray(advantage, jnp.float32),
            clip_low=clip,
            clip_high=clip,
            mask=jnp.asarray(credit_mask),
        ),
    )


@functools.cache
def state():
    params = POLICY.init(jax.random.key(0))
    start = learner.init(params, SGD, with_reference=True)
    moved = jax.tree.map(lambda x: x * 1.1, params)  # away from the reference
    return dataclasses.replace(start, params=moved)


@functools.cache
def stepper(name, num_microbatches=1, packed=False):
    options = settings(name, num_microbatches=num_microbatches)

    @jax.jit
    def step(state, batch):
        return learner.update(
            state,
            batch,
            POLICY.score,
            SGD,
            options,
            learning_rate=1.0,
            packed=POLICY.packed if packed else None,
        )

    return step


def moved(step, batch):
    """(the step of the parameters as one vector, what is reported)."""
    after, metrics = step(state(), batch)
    change = jax.tree.map(jnp.subtract, after.params, state().params)
    numbers = {
        name: float(value.over() if is_reduction(value) else value)
        for name, value in metrics.items()
    }
    return jax.flatten_util.ravel_pytree(change)[0], numbers


def assert_same_step(got, expected):
    (change, numbers), (expected_change, expected_numbers) = got, expected
    error = np.linalg.norm(change - expected_change)
    # float32 sums in another order
    assert error <= 2e-6 * np.linalg.norm(expected_change)
    assert numbers.keys() == expected_numbers.keys()
    for name, value in expected_numbers.items():
        np.testing.assert_allclose(
            numbers[name], value, rtol=1e-6, atol=1e-6, err_msg=name
        )


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_packed_rows_take_the_step_of_the_whole_batch_whatever_their_number(name):
    packed, parts = stepper(name, packed=True), set()
    for rows_with_credit in (1, 4, 8, 12):
        batch = draw_batch(rows_with_credit)
        wanted = batch.token_mask & batch.credit.mask.any(0).any(1)[:, None]
        parts.add(int(POLICY.packed.plan(wanted).num_parts))
        assert_same_step(moved(packed, batch), moved(stepper(name), batch))
    assert len(parts) >= 3  # one part alone cannot show the mistake


@pytest.mark.parametrize("name", AGGREGATIONS)
@pytest.mark.parametrize("num_microbatches", [3, 12])
def test_microbatches_take_the_step_of_the_whole_batch(name, num_microbatches):
    batch = draw_batch(8)
    cut = stepper(name, num_microbatches=num_microbatches)
    assert_same_step(moved(cut, batch), moved(stepper(name), batch))


def test_the_effective_sample_share_is_that_of_all_samples_not_a_mean_of_parts():
    batch = draw_batch(12)
    _, whole = moved(stepper("constant"), batch)
    _, cut = moved(stepper("constant", num_microbatches=12), batch)
    name = "correction/effective_sample_share"
    np.testing.assert_allclose(cut[name], whole[name], rtol=1e-5)
    log_probs, _ = POLICY.score(
        state().params, batch.tokens, batch.token_mask, temperature=1.0
    )
    mask = np.asarray(batch.credit.mask[1])
    weights = np.exp(np.asarray(log_probs - batch.behaviour_log_probs))[mask]
    share = weights.sum() ** 2 / (len(weights) * (weights**2).sum())
    np.testing.assert_allclose(whole[name], share, rtol=1e-4)


def test_passes_over_packed_rows_are_passes_over_the_whole():
    def twice(packed):
        after, accepted, metrics = jax.jit(
            lambda state, batch: learner.take_steps(
                2,
                state,
                batch,
                POLICY.score,
                SGD,
                settings("constant"),
                learning_rate=0.1,
                packed=packed,
            )
        )(state(), draw_batch(8))
        assert accepted
        return after.params, float(metrics["gradient_tokens"])

    (whole, tokens), (packed, packed_tokens) = twice(None), twice(POLICY.packed)
    assert tokens == packed_tokens > 0
    for one, other in zip(*map(jax.tree.leaves, (packed, whole)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
