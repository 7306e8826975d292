"""The critic and the pilot inside the tick."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_program
from toy_program import program, rule, run

from agentic_grpo.critic import network
from agentic_grpo.critic.learning import CriticSettings
from agentic_grpo.ops import credit
from agentic_grpo.ops.reductions import is_reduction
from agentic_grpo.training import serving, teaching, tick

TICKS, PILOT = 30, 6


@functools.cache
def critic_settings(**changes):
    spec = toy_program.environment().spec
    chosen = network.decoder_critic(
        spec.layout, vocabulary_size=spec.vocabulary_size, hidden_size=16, num_heads=2
    )
    fields = dict(
        network=chosen,
        num_stages=spec.layout.num_stages,
        capacity=64,
        batch_size=16,
        learning_rate=1e-2,
    )
    return CriticSettings(**(fields | changes))


def with_critic(**changes):
    credit_rule = rule(credit.calibrated, signal="forecast")
    return program(credit_rule, critic=critic_settings(), **changes)


@pytest.fixture(scope="module")
def learnt():
    return run(with_critic(), TICKS)


@pytest.fixture(scope="module")
def piloted():
    """(state, metrics) tick by tick, of a run with a pilot."""
    built = with_critic(pilot_groups=PILOT)
    step = jax.jit(functools.partial(tick.tick, built))
    state, history = toy_program.initial_state(built), []
    for _ in range(TICKS):
        state, metrics = step(state)
        history.append((state, metrics))
    return history


def numbers(metrics, name):
    value = metrics[name]
    return np.asarray(value.total if is_reduction(value) else value)


def test_it_is_taught_with_every_member_that_settles(learnt):
    state, metrics = learnt
    members = numbers(metrics, "events/verdicts_served").sum() * toy_program.MEMBERS
    lost = numbers(metrics, "members_at_fault").sum()  # they have no verdict
    assert members - lost <= int(state.critic.episodes) <= members > 0
    assert int(state.critic.episodes) == int(state.memory.total.sum())


def test_nothing_is_spent_before_the_first_verdict_has_taught_it(learnt):
    _, metrics = learnt
    spent = numbers(metrics, "immediate/advantage_size")
    first = int(np.argmax(numbers(metrics, "events/verdicts_served") > 0))
    assert spent[: first + 1].sum() == 0 and spent[first + 1 :].sum() > 0


def test_what_it_says_is_reported(learnt):
    _, metrics = learnt
    assert metrics["critic/loss"].count.sum() > 0
    assert np.isfinite(metrics["critic/explained/answer"].total).all()
    binned = sum(numbers(metrics, f"critic/forecast/bin_{k}").sum() for k in range(10))
    assert binned > 0


def test_a_critic_that_no_rule_asks_leaves_a_run_as_it_was():
    alone, _ = run(program(rule(credit.outcome)), 16)
    beside, _ = run(program(rule(credit.outcome), critic=critic_settings()), 16)
    jax.tree.map(
        np.testing.assert_array_equal, alone.learner.params, beside.learner.params
    )


def test_blocks_on_two_devices_teach_one_critic(learnt):
    built = with_critic()
    state = toy_program.initial_state(built)
    whole, _ = run(built, 8, state)
    names = tick.PER_BLOCK
    fields = [field.name for field in dataclasses.fields(state)]
    split = dataclasses.replace(
        state,
        **{
            name: jax.tree.map(lambda x: x[:, None], getattr(state, name))
            for name in names
        },
    )
    axes = type(state)(**{name: 0 if name in names else None for name in fields})
    step = jax.pmap(
        lambda state: tick.run_ticks(built, state, num_ticks=8, axis_name="devices")[0],
        axis_name="devices",
        in_axes=(axes,),
    )
    parts = step(split)
    assert int(parts.critic.episodes[1]) == int(whole.critic.episodes) > 0
    leaves = zip(
        *map(jax.tree.leaves, (parts.critic.params, whole.critic.params)), strict=True
    )
    for one, other in leaves:
        np.testing.assert_allclose(one[1], other, rtol=1e-3, atol=1e-4)


def test_the_pilot_trains_nothing_and_teaches_rule_and_critic(piloted):
    last = max(
        now for now, (state, _) in enumerate(piloted) if state.pilot_settled < PILOT
    )
    state, _ = piloted[last]
    jax.tree.map(
        np.testing.assert_array_equal,
        state.learner.params,
        toy_program.initial_params(),
    )
    after, _ = piloted[last + 1]
    assert int(after.pilot_settled) >= PILOT
    assert int(after.learner.step) == 0  # the tick that ends it still belongs to it
    assert int(after.critic.episodes) > 0 and float(after.credit.groups.max()) > 0
    assert int(piloted[-1][0].learner.step) > 0
    assert int(piloted[-1][0].pilot_ticks) == last + 2


def test_in_the_pilot_verdicts_alone_are_served_and_rows_come_free(piloted):
    for state, metrics in piloted:
        if int(state.learner.step) == 0 and int(state.pilot_settled) < PILOT:
            assert metrics["events/stage_rewards_served"] == 0
            assert metrics["idle"].total == 1
    assert all(int(m["lanes_without_row"]) == 0 for _, m in piloted)
    assert any(m["events/stage_rewards_served"] > 0 for _, m in piloted)


def test_the_schedule_starts_after_the_pilot():
    seen = []

    def schedule(now):
        jax.debug.callback(lambda value: seen.append(int(value)), now)
        return 1e-3 + 0.0 * now

    state, _ = run(with_critic(pilot_groups=PILOT, schedule=schedule), TICKS)
    pilot = int(state.pilot_ticks)
    assert sorted(seen) == sorted([0] * pilot + list(range(TICKS - pilot)))


def test_without_a_pilot_no_tick_is_one(learnt):
    state, _ = learnt
    assert int(state.pilot_ticks) == 0 and int(state.pilot_settled) == 0


def test_a_verdict_that_is_not_in_yet_is_not_seen_by_the_critic(learnt):
    """Changing every verdict in the table changes no forecast of this tick."""
    built, (state, _) = with_critic(), learnt
    forecaster = teaching.forecaster_of(built, state)

    @jax.jit
    def forecasts(table):
        rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), table)
        from_rows = serving.prefix_of(rows, state.tick)
        return forecaster(from_rows)[1]

    table = state.table
    changed = dataclasses.replace(
        table,
        verdict=1.0 - table.verdict,
        verdict_mask=~table.verdict_mask,
        solved=~table.solved,
        level=table.level + 1,
        state_id=table.state_id + 1,
    )
    np.testing.assert_array_equal(forecasts(changed), forecasts(table))
    later = jnp.where(table.ready_at[..., None, :-1] > state.tick, 9.0, table.reward)
    changed = dataclasses.replace(table, reward=later)
    np.testing.assert_array_equal(forecasts(changed), forecasts(table))
