"""Contests as they are played: what is known, what is taught, what stays as it was."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from agentic_grpo.envs.code_execution.judging import TestStatus
from agentic_grpo.records import NEVER
from experiments.contests import contestants, play, results, standings
from experiments.contests import desk as desk_lib
from experiments.contests.desk import DeskSettings

TICKS = 12
SETTINGS = DeskSettings(limit=3, per_group=2)
KEY = jax.random.key(5)


class _Judge:
    """An environment whose judge may be late, or say the opposite of some members.

    What it does is traced, so that every judge is the same compiled program.

    Args:
      environment: of code.
      lies_of: bool [2]; of members that fail a visible test, and of those that pass.
      delay: ticks that verdicts come later.
    """

    def __init__(self, environment, lies_of, delay):
        self._environment, self._lies_of, self._delay = environment, lies_of, delay
        self.spec, self.start = environment.spec, environment.start

    def step(self, *arguments):
        result = self._environment.step(*arguments)
        status = result.state.members.visible_status
        passes = jnp.all(status == TestStatus.PASSED, axis=-1)
        lies = jnp.where(passes, self._lies_of[1], self._lies_of[0])
        return dataclasses.replace(
            result,
            verdict=jnp.where(lies, 1.0 - result.verdict, result.verdict),
            solved=result.solved ^ lies,
            verdict_latency=result.verdict_latency + self._delay,
        )


HONEST = (False, False)


@pytest.fixture(scope="module")
def run_one(drawn):
    """A function from a contestant to (desk, state) of contest 0, played by itself."""

    known = {}

    def compiled(program, adapts):
        if (id(program), adapts) in known:
            return known[id(program), adapts]

        @jax.jit
        def run(state, problems, lies_of, delay):
            judge = _Judge(program.environment, lies_of, delay)
            judged = dataclasses.replace(program, environment=judge)
            return play.run(
                judged,
                play.fresh(judged, state, jax.random.fold_in(KEY, 0)),
                problems,
                KEY,
                SETTINGS,
                num_ticks=TICKS,
                first_contest=jnp.int32(0),
                adapts=adapts,
            )

        known[id(program), adapts] = run
        return run

    def play_one(contestant, *, adapts, lies_of=HONEST, delay=0):
        run = compiled(contestant.program, adapts)
        first = jax.tree.map(lambda leaf: leaf[:1], drawn)
        lies_of, delay = jnp.array(lies_of), jnp.int32(delay)
        return jax.device_get(run(contestant.state, first, lies_of, delay))

    return play_one


def same(one, other) -> bool:
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in leaves)


@pytest.fixture(scope="module")
def desks(copier, drawn):
    return play.play(copier, drawn, KEY, SETTINGS, num_ticks=TICKS, adapts=False)


@pytest.fixture(scope="module")
def adapted(copier, run_one):
    return run_one(copier, adapts=True)


def test_what_passes_is_handed_in_and_judged_by_hidden_tests(desks):
    """Fast programs are accepted, slow ones pass what is visible and are not."""
    filled = desks.tick != NEVER
    assert filled.sum() > 6
    lengths = (desks.program != 0).sum(axis=-1)  # no instruction is 0 but HALT
    assert set(lengths[filled & desks.accepted]) == {5}  # n a // b +
    assert set(lengths[filled & ~desks.accepted]) == {10}  # n sum i a % 0 = close b +


def test_no_program_is_handed_in_twice_nor_more_often_than_the_limit(desks):
    assert desks.count.max() <= SETTINGS.limit
    for count, program in zip(
        desks.count.reshape(-1),
        desks.program.reshape(-1, *desks.program.shape[-2:]),
        strict=True,
    ):
        assert len(np.unique(program[:count], axis=0)) == count


def test_nothing_is_handed_in_while_a_verdict_is_under_way_or_accepted(desks):
    for tick, known_at, accepted in zip(
        *(
            x.reshape(-1, SETTINGS.limit)
            for x in (desks.tick, desks.known_at, desks.accepted)
        ),
        strict=True,
    ):
        for slot in np.flatnonzero(tick != NEVER):
            earlier = tick < tick[slot]
            assert (known_at[earlier] <= tick[slot]).all()
            assert not (earlier & accepted).any()


def test_round_robin_spreads_groups_and_by_difficulty_favours_the_hard(drawn):
    level = jnp.array([0, 1, 4], jnp.int32)

    def groups(schedule):
        settings = DeskSettings(schedule=schedule)
        desk = desk_lib.init(settings, num_problems=3, num_lanes=4, program_width=2)
        for _ in range(10):
            desk, _ = desk_lib.assign(
                settings, desk, level, jnp.arange(3), jnp.array([True, False, True]), 0
            )
        return desk.groups.tolist()

    assert groups("round_robin") == [7, 7, 6]
    # shares go as 1 : 2 : 5 of 20 groups, each rounded up or down
    assert groups("by_difficulty") == [3, 5, 12]


def test_without_a_tick_to_write_in_there_are_no_points(copier, drawn):
    desk = play.play(copier, drawn, KEY, SETTINGS, num_ticks=0, adapts=False)
    assert not desk.count.any()
    found = results.compete({"a": desk}, contestants.draw(3, 0), drawn, TICKS)
    assert not found.records[0].points.any()
    assert not found.records[0].solved.any()


@pytest.mark.slow
def test_contests_side_by_side_are_those_played_alone(desks, copier, run_one):
    alone, _ = run_one(copier, adapts=False)
    assert same(alone, jax.tree.map(lambda leaf: leaf[:1], desks))


@pytest.mark.slow
def test_adapting_at_rate_0_is_not_adapting_to_the_bit(program, learner_of, run_one):
    still = dataclasses.replace(program, schedule=optax.constant_schedule(0.0))
    agent = learner_of(still)
    (one, kept), (other, moved) = (
        run_one(agent, adapts=adapts) for adapts in (False, True)
    )
    assert same(one, other)
    assert same(kept.lanes.problem, moved.lanes.problem)  # every program written
    assert same(kept.learner.params, moved.learner.params)


def test_adapting_moves_the_parameters_and_not_the_base(copier, adapted):
    before = jax.device_get(copier.state.learner)
    _, state = adapted
    assert not same(state.learner.params, before.params)
    assert int(state.tick) == TICKS
    assert same(before, jax.device_get(copier.state.learner))


@pytest.mark.slow
def test_each_contest_begins_anew(copier, drawn, adapted):
    """The first of two that follow each other is the one that was played alone."""
    both = play.play(copier, drawn, KEY, SETTINGS, num_ticks=TICKS, adapts=True)
    assert same(jax.tree.map(lambda leaf: leaf[:1], both), adapted[0])
    twice = jax.tree.map(lambda leaf: leaf[[0, 0]], drawn)
    again = play.play(copier, twice, KEY, SETTINGS, num_ticks=TICKS, adapts=True)
    assert same(jax.tree.map(lambda leaf: leaf[:1], again), adapted[0])


def test_hidden_verdicts_of_what_is_not_handed_in_teach_nothing(
    copier, adapted, run_one
):
    """A judge that lies of programs which cannot be handed in changes no bit."""
    unseen = run_one(copier, adapts=True, lies_of=(True, False))
    assert same(adapted[0], unseen[0])
    assert same(adapted[1].learner, unseen[1].learner)
    assert same(adapted[1].credit, unseen[1].credit)
    seen = run_one(copier, adapts=True, lies_of=(False, True))
    assert not same(adapted[1].learner.params, seen[1].learner.params)


def test_the_immediate_phase_teaches_before_any_verdict(copier, run_one):
    _, state = run_one(copier, adapts=True, delay=3 * TICKS)
    assert not same(state.learner.params, jax.device_get(copier.state.learner.params))


def test_members_without_a_verdict_owe_nothing(adapted):
    table = adapted[1].table
    ended = ~table.generating & table.occupied
    unjudged = ended[..., None] & ~table.verdict_mask
    assert unjudged.any()
    assert not table.applied_advantage[unjudged].any()
    assert not table.paid[unjudged].any()


def test_everybody_is_ranked_in_one_field(desks, drawn):
    field = contestants.draw(5, 0)
    found = results.compete({"a": desks, "b": desks}, field, drawn, TICKS)
    one, other = found.records
    assert one.ranks.tolist() == other.ranks.tolist()  # equals share their rank
    alone = results.compete({"a": desks}, contestants.draw(0, 0), drawn, TICKS)
    assert alone.records[0].ranks.tolist() == [1, 1] and alone.records[0].firsts == 1
    tree = results.to_json(found, {})
    for contest in tree["contests"]:
        ticks = [one["tick"] for one in contest["submissions"]["a"]]
        assert ticks == sorted(ticks) and ticks
        assert len(contest["statements"]) == 3
        assert standings.from_json(contest).ranking().rank.tolist() == contest["rank"]
