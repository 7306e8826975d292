"""NaN rewards, failing environments, infinite gradients: counted, and nobody else's."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_environment as toy
import toy_program
from toy_environment import DIGITS, END, FAULT_TOKEN, NAN_TOKEN

from agentic_grpo import episodes, snapshots
from agentic_grpo.ops import credit
from agentic_grpo.records import NEVER
from agentic_grpo.training import leaves, loop, tick

GUESS, ANSWER = 0, 1
FIRST_BAD_TICK, TICKS = 10, 16


def play(first_tokens):
    """One group: members guess right, or write this token; then every other is right.

    The second, fourth ... answer d + 1 where the digit is d.
    """

    def act(tokens, token_mask, problem, stage, acting, keys, *, action_width):
        del tokens, token_mask, acting, keys
        members = jnp.arange(len(first_tokens), dtype=jnp.int32)
        offset = jnp.where(stage[:, None] == GUESS, 0, members[None, :] % 2)
        digit = DIGITS + (problem["digit"][:, None] + offset) % 4
        special = jnp.asarray([token or 0 for token in first_tokens])[None, :]
        special = jnp.where(stage[:, None] == GUESS, special, 0)
        first = jnp.where(special > 0, special, digit)
        written = jnp.stack([first, jnp.full_like(first, END)], axis=2)
        written = jnp.pad(written, ((0, 0), (0, 0), (0, action_width - 2)))
        return written, written > 0, jnp.zeros(written.shape, jnp.float32)

    return episodes.play_episodes(
        act,
        toy.ToyEnvironment(),
        jax.random.split(jax.random.key(0), 1),
        split="train",
        num_members=len(first_tokens),
    )


def pay(rows):
    """Everything is ready at once: the credit of both phases [2, G, S]."""
    rule = toy_program.rule(
        credit.agentic, comparison=credit.Comparison(divisor="none")
    )
    events = snapshots.stage_events(
        rows, jnp.ones((1, 3), bool), tick=NEVER, learner_step=0, max_age=9
    )
    paid = rule.apply(rule.init(), events)
    return np.asarray(paid.advantage[:, 0]), np.asarray(paid.mask[:, 0])


def test_a_member_at_fault_leaves_the_group_and_the_baseline_is_over_the_others():
    # NVIDIA-NeMo/Gym#2015: a sandbox outage was graded as an honest 0. Graded so, the
    # baseline of the answers would be 2.5 / 4 and not that of three.
    advantage, mask = pay(play((None, FAULT_TOKEN, None, None)))
    # answers: right, (gone), right, d + 1: rewards 1, -, 1, 0.5; mean 5/6
    np.testing.assert_allclose(
        advantage[0, :, ANSWER], [1 / 6, 0.0, 1 / 6, -1 / 3], atol=1e-6
    )
    # verdicts 1, -, 1, 0; mean 2/3; both phases add up to that
    np.testing.assert_allclose(
        advantage.sum(0)[:, ANSWER], [1 / 3, 0.0, 1 / 3, -2 / 3], atol=1e-6
    )
    assert not mask[:, 1].any()


def test_a_nan_reward_is_no_reward_of_zero():
    advantage, mask = pay(play((None, NAN_TOKEN, DIGITS + 9, None)))
    assert np.isfinite(advantage).all()
    # guesses: 1, NaN, 0 (no digit), 1: mean 2/3 over the three
    np.testing.assert_allclose(
        advantage[0, :, GUESS], [1 / 3, 0.0, -2 / 3, 1 / 3], atol=1e-6
    )
    # it goes on, and its verdict counts like any other
    assert not mask[0, 1, GUESS] and mask[1, 1, GUESS]


@pytest.fixture(scope="module")
def diverging():
    """The states at the tick from which every step overflows, and some ticks later."""
    program = toy_program.program(
        schedule=lambda now: jnp.where(now < FIRST_BAD_TICK, 3e-3, jnp.inf)
    )
    ticks = jax.jit(
        functools.partial(tick.run_ticks, program, num_ticks=2, keep_refused=True)
    )
    state = toy_program.initial_state(program)
    history = []
    for _ in range(TICKS // 2):
        state, metrics, refused = ticks(state)
        history.append((state, metrics, refused))
    return history


def test_a_refused_step_leaves_the_learner_as_it_was(diverging):
    good, bad = diverging[FIRST_BAD_TICK // 2 - 1][0], diverging[-1][0]
    assert int(good.learner.step) > 2 and int(bad.learner.skipped) > 2
    before, after = (
        [np.asarray(x).tobytes() for x in jax.tree.leaves(of)]
        for of in (
            (good.learner.params, good.learner.optimizer_state, good.learner.step),
            (bad.learner.params, bad.learner.optimizer_state, bad.learner.step),
        )
    )
    assert before == after
    assert int(bad.tick) == TICKS  # and the clock goes on


def test_skipped_steps_are_counted_and_told_from_idle_ones(diverging):
    def total(name, part):
        return sum(float(m[name].total.sum()) for _, m, _ in part)

    good, bad = diverging[: FIRST_BAD_TICK // 2], diverging[FIRST_BAD_TICK // 2 :]
    assert total("not_finite", good) == 0 and total("not_finite", bad) > 2
    assert total("idle", bad) + total("not_finite", bad) == TICKS - FIRST_BAD_TICK


def test_the_refused_batch_is_kept(diverging):
    for _, _, refused in diverging[: FIRST_BAD_TICK // 2]:
        assert int(refused.tick) == -1
        assert not np.asarray(refused.batch.credit.mask).any()
    state, metrics, refused = diverging[-1]
    assert int(refused.tick) in (TICKS - 2, TICKS - 1)
    assert int(refused.learner_step) == int(state.learner.step)
    trained = metrics["trained_tokens"].total[int(refused.tick) - (TICKS - 2)]
    assert np.asarray(refused.batch.credit.mask).any(axis=0).sum() == trained > 0


def test_a_run_that_diverges_stops_and_leaves_the_batch(diverging, tmp_path):
    path = tmp_path / "refused_batch.npz"

    def dump(refused):
        leaves.dump(refused, path)
        return path

    saved = []
    replay = iter(diverging)
    hooks = loop.Hooks(
        dispatch=lambda state: next(replay),
        evaluate=lambda params: {},
        stop=lambda: False,
        outlets=[
            loop.Outlet(
                write=lambda now, values: None,
                save=lambda now, state: saved.append((now, int(state.learner.skipped))),
                dump=dump,
            )
        ],
    )
    settings = loop.LoopSettings(
        num_ticks=TICKS,
        ticks_per_dispatch=2,
        evaluate_every=0,
        checkpoint_every=2,
        max_skipped=3,
    )
    first = toy_program.initial_state(toy_program.program())
    with pytest.raises(loop.NonFiniteError, match=f"batch of the last is in {path}"):
        loop.train(first, settings, hooks)
    # the newest checkpoint is from before the trouble
    assert saved[-1] == (FIRST_BAD_TICK, 0)
    with np.load(path, allow_pickle=False) as dumped:
        assert dumped["state/tick"] >= FIRST_BAD_TICK
        tokens = dumped["state/batch/tokens"]
        assert dumped["state/batch/credit/advantage"].shape == (2, *tokens.shape)
        assert dumped["state/batch/credit/mask"].any()


REFUSED_TICKS = (6, 7, 8)


@pytest.fixture(scope="module")
def interrupted():
    """(state, metrics) tick by tick; the steps of three ticks are refused."""
    bad = jnp.asarray(REFUSED_TICKS, jnp.int32)
    program = toy_program.program(
        toy_program.rule(credit.agentic),
        schedule=lambda now: jnp.where(jnp.isin(now, bad), jnp.inf, 3e-3),
    )
    step = jax.jit(functools.partial(tick.tick, program))
    state, history = toy_program.initial_state(program), []
    for _ in range(TICKS):
        state, metrics = step(state)
        history.append((state, metrics))
    return history


def test_what_was_not_taken_was_not_applied_and_its_events_stay_ready(interrupted):
    num_refused = 0
    for now in REFUSED_TICKS:
        before, (state, metrics) = interrupted[now - 1][0], interrupted[now]
        if metrics["idle"].total:
            continue  # nothing was due
        num_refused += 1
        assert metrics["not_finite"].total == 1 and metrics["passes_taken"].total == 0
        assert metrics["gradient_tokens"] == 0.0
        assert metrics["events/verdicts_served"] == 0
        occupied = np.asarray(before.table.occupied)
        ready = np.asarray(before.table.ready_at <= now) & ~before.table.served
        assert (ready & occupied[..., None]).any()
        for name in ("applied_advantage", "served", "paid"):
            old, new = (np.asarray(getattr(s.table, name)) for s in (before, state))
            np.testing.assert_array_equal(new[occupied], old[occupied], err_msg=name)
        jax.tree.map(np.testing.assert_array_equal, state.credit, before.credit)
    assert num_refused >= 2


def test_after_a_refusal_every_event_is_served_once_all_the_same(interrupted):
    def total(name):
        return sum(float(np.sum(metrics[name])) for _, metrics in interrupted)

    served = total("events/stage_rewards_served") + total("events/verdicts_served")
    state = interrupted[-1][0]
    mask = np.array([True, True, True])
    pending = jax.vmap(lambda t: snapshots.pending(t, mask))(state.table).sum()
    assert served + float(pending) == total("events/scheduled") > 0


def test_the_phases_of_a_group_add_up_across_a_refused_step():
    """Booked as taken, the correction took back what never was: a sum of 0.125."""
    rows = play((None, None, DIGITS + 9, None))
    rule = toy_program.rule(
        credit.agentic, comparison=credit.Comparison(divisor="none")
    )

    def serve(rows, ready):
        events = snapshots.stage_events(
            rows, jnp.asarray([ready]), tick=NEVER, learner_step=0, max_age=9
        )
        return rule.apply(rule.init(), events)

    refused = serve(rows, [True, True, False])
    assert np.abs(refused.advantage).max() > 0
    # refused: nothing of it is noted, the same events are served again with the verdict
    later = serve(rows, [True, True, True])
    applied = np.asarray(later.advantage.sum(0)[0])
    outcome = np.asarray(rows.verdict[0] - rows.verdict[0].mean())
    np.testing.assert_allclose(applied[:, ANSWER], outcome, atol=1e-6)
