"""One optimizer step: what it must do, and when it must do nothing at all."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from agentic_grpo import learner
from agentic_grpo.ops import aggregation, kl_estimators
from agentic_grpo.ops.policy_losses import ppo_clip_loss, two_phase_losses
from agentic_grpo.records import TokenCredit

ROWS, COLUMNS, VOCABULARY = 8, 5, 6


def score(params, tokens, token_mask, *, temperature):
    """A bigram policy: the logits of a column are a row of the table."""
    logits = params["table"][tokens[:, :-1]] / temperature
    logs = jax.nn.log_softmax(logits)
    picked = jnp.take_along_axis(logs, tokens[:, 1:, None], axis=-1)[..., 0]
    entropy = -jnp.sum(jnp.exp(logs) * logs, axis=-1)
    return tuple(jnp.pad(x, ((0, 0), (1, 0))) for x in (picked, entropy))


def objective(log_probs, anchor, behaviour, credit):
    return two_phase_losses(log_probs, anchor, credit, objective=ppo_clip_loss), {}


SETTINGS = learner.LearnerSettings(
    objective=objective, aggregate=aggregation.constant_divisor(2.0)
)
SGD = optax.scale(-1.0)


@pytest.fixture(scope="module")
def params():
    return {"table": jax.random.normal(jax.random.key(0), (VOCABULARY, VOCABULARY))}


@pytest.fixture(scope="module")
def batch(params):
    rng = np.random.default_rng(1)
    tokens = jnp.asarray(rng.integers(0, VOCABULARY, (ROWS, COLUMNS)), jnp.int32)
    token_mask = jnp.ones(tokens.shape, bool)
    log_probs, _ = score(params, tokens, token_mask, temperature=1.0)
    advantage = rng.normal(size=(2, ROWS, COLUMNS)).astype(np.float32)
    mask = rng.random((2, ROWS, COLUMNS)) < 0.6
    mask[:, :, 0] = False
    clip = jnp.full(advantage.shape, 0.2)
    return learner.Batch(
        tokens=tokens,
        token_mask=token_mask,
        anchor_log_probs=log_probs,
        behaviour_log_probs=log_probs,
        credit=TokenCredit(
            advantage=jnp.asarray(advantage * mask),
            clip_low=clip,
            clip_high=clip,
            mask=jnp.asarray(mask),
        ),
    )


@functools.cache
def stepper(settings=SETTINGS, optimizer=SGD):
    @jax.jit
    def step(state, batch, learning_rate):
        return learner.update(
            state, batch, score, optimizer, settings, learning_rate=learning_rate
        )

    return step


def with_credit(batch, **changes):
    credit = dataclasses.replace(batch.credit, **changes)
    return dataclasses.replace(batch, credit=credit)


def test_the_step_is_the_policy_gradient_of_both_phases_over_the_constant(
    params, batch
):
    state, metrics = stepper()(learner.init(params, SGD), batch, 0.5)
    # At the policy that sampled, the gradient of a token is A * (onehot - pi), the
    # phases add up, and the divisor is 2 tokens for each of the 8 rows.
    advantage = np.asarray(batch.credit.advantage.sum(0))
    probabilities = np.asarray(jax.nn.softmax(params["table"]))
    expected = np.array(params["table"])
    for row in range(ROWS):
        for column in range(1, COLUMNS):
            before, token = batch.tokens[row, column - 1], batch.tokens[row, column]
            slope = np.eye(VOCABULARY)[token] - probabilities[before]
            expected[before] += 0.5 * advantage[row, column] * slope / (2.0 * ROWS)
    np.testing.assert_allclose(state.params["table"], expected, atol=1e-6)
    assert state.step == 1 and metrics["idle"].total == 0


@pytest.mark.parametrize("parts", [2, 4])
def test_microbatches_give_the_same_step(params, batch, parts):
    whole, metrics = stepper()(learner.init(params, SGD), batch, 0.5)
    settings = dataclasses.replace(SETTINGS, num_microbatches=parts)
    split, split_metrics = stepper(settings)(learner.init(params, SGD), batch, 0.5)
    np.testing.assert_allclose(split.params["table"], whole.params["table"], atol=1e-7)
    assert split_metrics["trained_tokens"].total == metrics["trained_tokens"].total


def test_two_passes_are_two_steps_on_the_same_rows(params, batch):
    start = learner.init(params, SGD)
    twice, accepted, metrics = jax.jit(
        lambda state, rate: learner.take_steps(
            2, state, batch, score, SGD, SETTINGS, learning_rate=rate
        )
    )(start, 0.5)
    once, first = stepper()(start, batch, 0.5)
    again, second = stepper()(once, batch, 0.5)
    np.testing.assert_allclose(twice.params["table"], again.params["table"], atol=1e-6)
    assert twice.step == 2 and accepted and metrics["passes_taken"].total == 2
    # The cost doubles; what a pass is like is averaged, not summed.
    tokens = float(first["trained_tokens"].total)
    assert metrics["gradient_tokens"] == 2 * tokens
    assert metrics["trained_tokens"].over() == tokens
    norms = [float(m["gradient_norm"].over()) for m in (first, second)]
    np.testing.assert_allclose(
        metrics["gradient_norm"].over(), np.mean(norms), rtol=1e-5
    )


def test_a_batch_that_the_parts_do_not_divide_is_refused(params, batch):
    settings = dataclasses.replace(SETTINGS, num_microbatches=3)
    with pytest.raises(
        ValueError, match="num_microbatches=3 must be a divisor of the batch of 8"
    ):
        stepper(settings)(learner.init(params, SGD), batch, 0.5)


def test_an_idle_tick_touches_neither_parameters_nor_moments_nor_weight_decay(
    params, batch
):
    adamw = optax.chain(
        optax.scale_by_adam(), optax.add_decayed_weights(0.1), optax.scale(-1.0)
    )
    state = learner.init(params, adamw)
    silent = with_credit(batch, advantage=jnp.zeros_like(batch.credit.advantage))
    after, metrics = stepper(SETTINGS, adamw)(state, silent, 0.5)
    jax.tree.map(np.testing.assert_array_equal, after, state)
    assert metrics["idle"].total == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_step_that_is_not_finite_is_skipped_and_counted_in_a_row(params, batch, bad):
    state = learner.init(params, SGD)
    advantage = batch.credit.advantage.at[0, 0, 1].set(bad)
    poisoned = with_credit(
        batch, advantage=advantage, mask=batch.credit.mask.at[0, 0, 1].set(True)
    )
    for count in (1, 2):
        state, metrics = stepper()(state, poisoned, 0.5)
        assert state.skipped == count and state.step == 0
        assert metrics["not_finite"].total == 1
    np.testing.assert_array_equal(state.params["table"], params["table"])
    state, _ = stepper()(state, batch, 0.5)
    assert state.skipped == 0 and state.step == 1


def test_a_nan_behind_the_mask_is_harmless(params, batch):
    mask = batch.credit.mask.at[0, 0, 1].set(False)
    clean = with_credit(batch, mask=mask)
    dirty = with_credit(
        clean, advantage=batch.credit.advantage.at[0, 0, 1].set(jnp.nan)
    )
    dirty = dataclasses.replace(
        dirty, anchor_log_probs=dirty.anchor_log_probs.at[:, 0].set(jnp.nan)
    )
    a, _ = stepper()(learner.init(params, SGD), clean, 0.5)
    b, _ = stepper()(learner.init(params, SGD), dirty, 0.5)
    np.testing.assert_array_equal(a.params["table"], b.params["table"])


def test_kl_pulls_towards_the_reference_also_without_credit(params, batch):
    """allenai/open-instruct#530: a KL term computed without a gradient."""
    kl_loss = functools.partial(kl_estimators.kl_loss, estimator="k2")
    settings = dataclasses.replace(SETTINGS, kl_weight=1.0, kl_loss=kl_loss)
    state = learner.init(params, SGD, with_reference=True)
    moved = dataclasses.replace(state, params={"table": params["table"] * 0.5})
    silent = with_credit(batch, advantage=jnp.zeros_like(batch.credit.advantage))
    after, metrics = stepper(settings)(moved, silent, 0.1)
    assert metrics["idle"].total == 0 and after.step == 1
    assert np.abs(after.params["table"] - moved.params["table"]).max() > 1e-4
    # At the reference itself there is nothing to pull.
    still, _ = stepper(settings)(state, silent, 0.1)
    np.testing.assert_array_equal(still.params["table"], params["table"])


def test_the_entropy_bonus_flattens_the_policy(params, batch):
    settings = dataclasses.replace(SETTINGS, entropy_weight=1.0)
    silent = with_credit(batch, advantage=jnp.zeros_like(batch.credit.advantage))
    state = learner.init(params, SGD)
    after, before = stepper(settings)(state, silent, 0.1)
    _, later = stepper(settings)(after, silent, 0.1)
    assert later["entropy"].over() > before["entropy"].over()


def test_devices_sum_gradients_and_counts_once(params, batch):
    """Averages of averages, or a psum inside the loss, would give other numbers."""
    whole, _ = stepper()(learner.init(params, SGD), batch, 0.5)

    def split(x, axis):
        shape = (*x.shape[:axis], 4, x.shape[axis] // 4, *x.shape[axis + 1 :])
        return jnp.moveaxis(x.reshape(shape), axis, 0)

    credit = jax.tree.map(lambda x: split(x, 1), batch.credit)
    fields = {
        field.name: split(getattr(batch, field.name), 0)
        for field in dataclasses.fields(batch)
        if field.name != "credit"
    }
    shards = learner.Batch(credit=credit, **fields)
    step = jax.pmap(
        lambda state, batch: learner.update(
            state,
            batch,
            score,
            SGD,
            SETTINGS,
            learning_rate=0.5,
            axis_name="devices",
        )[0],
        axis_name="devices",
        in_axes=(None, 0),
    )
    per_device = step(learner.init(params, SGD), shards).params["table"]
    for table in per_device:
        np.testing.assert_allclose(table, whole.params["table"], atol=1e-6)


def score_of_pair(params, tokens, token_mask, *, temperature):
    """The same policy; of a pair the table is the frozen one and the change."""
    if isinstance(params, tuple):
        frozen, trained = params
        params = {"table": frozen["table"] + trained["change"]}
    return score(params, tokens, token_mask, temperature=temperature)


@pytest.mark.parametrize("kl_weight", [0.0, 0.5])
def test_a_step_moves_the_trained_as_it_would_move_the_whole(params, batch, kl_weight):
    kl_loss = functools.partial(kl_estimators.kl_loss, estimator="k2")
    settings = dataclasses.replace(SETTINGS, kl_weight=kl_weight, kl_loss=kl_loss)

    @jax.jit
    def step(state):
        return learner.update(
            state, batch, score_of_pair, SGD, settings, learning_rate=0.5
        )

    with_reference = kl_weight > 0
    whole = learner.init(params, SGD, with_reference=with_reference)
    change = {"change": jnp.zeros_like(params["table"])}
    pair = learner.init((params, change), SGD, with_reference=with_reference)
    assert pair.reference_params is None  # the frozen one, read alone
    for _ in range(2):  # after the first step the KL is not 0 any more
        whole, expected = step(whole)
        pair, metrics = step(pair)
    np.testing.assert_array_equal(pair.frozen["table"], params["table"])
    moved = whole.params["table"] - params["table"]
    np.testing.assert_allclose(pair.params["change"], moved, atol=1e-6)
    if with_reference:
        divergence = float(expected["kl_to_reference"].over())
        assert abs(divergence) > 1e-3
        got = float(metrics["kl_to_reference"].over())
        assert got == pytest.approx(divergence, rel=1e-5)


def test_moments_are_kept_of_what_is_trained_alone(params):
    state = learner.init((params, {"change": jnp.zeros(3)}), optax.scale_by_adam())
    assert {leaf.size for leaf in jax.tree.leaves(state.optimizer_state)} == {1, 3}
