"""A run is played again from its journal to the last bit, and killed in every phase."""

import dataclasses
import json
import zlib

import jax
import numpy as np
import pytest
import toy_host
from toy_host import ToyHost, initial_state, numbers

from agentic_grpo.envs.host import StageArrival
from agentic_grpo.records import AWAITED
from agentic_grpo.training.real_clock.journal import FILE_NAME, JournalError, read

TICKS = 16


def scattered(work, kind):
    """Seconds that differ from work to work; some never, some after the deadline."""
    drawn = zlib.crc32(f"{tuple(work.ticket)} {kind.__name__}".encode()) % 20
    if drawn == 0:
        return None
    return 1.5 * drawn if kind is StageArrival else 4.0 * drawn


def start():
    return initial_state(toy_host.program(ToyHost()))


def assert_same(one, other):
    jax.tree.map(np.testing.assert_array_equal, numbers(one), numbers(other))


@pytest.fixture
def replay(tmp_path):
    """(folder of a journal, ticks) -> the state that it leads to, played again."""
    clocks = []

    def play(folder, ticks):
        again = tmp_path / "again"
        again.mkdir()
        clocks.append(toy_host.replay_of(folder / FILE_NAME, again))
        state, _, _ = clocks[-1].dispatch(start(), num_ticks=ticks)
        return state, again

    yield play
    for one in clocks:
        one.journal.close()


def test_a_journal_is_played_again_to_the_last_bit(run_on, replay, tmp_path):
    run = run_on(ToyHost(scattered))
    state, metrics, _ = run.dispatch(start(), num_ticks=TICKS)
    assert metrics["clock/absent"].sum() > 0 and int(state.learner.step) > 2
    again, folder = replay(tmp_path, TICKS)
    assert_same(state, again)
    journals = [(path / FILE_NAME).read_bytes() for path in (tmp_path, folder)]
    assert journals[0] == journals[1]


def test_a_journal_of_another_run_is_no_run_of_this_one(run_on, replay, tmp_path):
    run_on(ToyHost(scattered)).dispatch(start(), num_ticks=4)
    path = tmp_path / FILE_NAME
    first, *others = path.read_text().splitlines()
    line = json.loads(first)
    line["asked"][0]["works"][0][-1] = [[9]]
    path.write_text("\n".join([json.dumps(line), *others]) + "\n")
    with pytest.raises(JournalError, match="in tick 0 something else was written"):
        replay(tmp_path, 4)


def test_a_journal_that_ends_early_says_how_long_it_is(run_on, replay, tmp_path):
    run_on(ToyHost(scattered)).dispatch(start(), num_ticks=2)
    with pytest.raises(JournalError, match="ends before tick 2"):
        replay(tmp_path, 3)


class Killed(BaseException):
    """As a signal that nobody catches."""


def killer(function, *, at_call):
    """The function, until it is called for the n-th time."""
    calls = []

    def call(*arguments, **options):
        calls.append(None)
        if len(calls) == at_call:
            raise Killed
        return function(*arguments, **options)

    return call


def with_killer(run, toy, phase):
    """The run, which dies in a phase of one of its ticks after the seventh."""
    if phase in ("hear", "write", "learn"):
        part = killer(getattr(run.pieces, phase), at_call=9)
        run.pieces = dataclasses.replace(run.pieces, **{phase: part})
    elif phase == "submit":
        toy.submit = killer(toy.submit, at_call=12)
    elif phase == "wait":
        poll = toy.poll

        def die_waiting(timeout):
            if run.tick >= 8 and timeout > 0:
                raise Killed
            return poll(timeout)

        toy.poll = die_waiting
    elif phase == "journal":
        run.journal.append = killer(run.journal.append, at_call=9)
    return run


@pytest.mark.parametrize(
    "phase", ["hear", "write", "submit", "wait", "learn", "journal", "save"]
)
def test_a_run_that_was_killed_loses_nothing_and_counts_nothing_twice(
    phase, run_on, replay, tmp_path
):
    toy = ToyHost(scattered)
    run = with_killer(run_on(toy), toy, phase)
    state, saved = start(), None
    with pytest.raises(Killed):
        for _ in range(TICKS):
            state, _, _ = run.dispatch(state, num_ticks=1)
            if run.tick in (3, 6):
                saved = run.tick, toy_host.copy(state)
            if phase == "save" and run.tick == 9:
                raise Killed  # with three ticks in the journal that no checkpoint has
    run.journal.close()
    if phase == "journal":
        with (tmp_path / FILE_NAME).open("a") as file:
            file.write('{"tick": 8, "arr')  # half a line, as a crash leaves it
    tick, state = saved
    assert tick == 6

    other = ToyHost(scattered)  # what was in flight has died with the process
    run = run_on(other, first=tick)
    open_works = list(other.submitted)
    assert run.books.in_flight == len(open_works) > 0
    state, _, _ = run.dispatch(state, num_ticks=TICKS - tick)

    entries = list(read(tmp_path / FILE_NAME))
    assert [entry.tick for entry in entries] == list(range(TICKS))
    asked = [work.ticket for e in entries for g in e.asked for work in g.works.values()]
    assert len(asked) == len(set(asked))
    arrived = [(one.ticket, type(one)) for e in entries for one in e.arrived]
    assert len(arrived) == len(set(arrived))
    before = [
        w.ticket for e in entries[:tick] for g in e.asked for w in g.works.values()
    ]
    assert set(open_works) <= set(before)
    # every group that wrote is closed once, or still open: never twice, none is lost
    closed = sum(len(entry.stages) for entry in entries)
    groups = sum(len(entry.asked) for entry in entries)
    waiting = np.sum(np.asarray(state.lanes.ready_at) == AWAITED)
    assert closed + waiting == groups
    again, _ = replay(tmp_path, TICKS)
    assert_same(state, again)


def test_a_journal_that_is_older_than_its_checkpoint_is_refused(run_on, tmp_path):
    run = run_on(ToyHost())
    run.dispatch(start(), num_ticks=2)
    run.journal.close()
    text = (tmp_path / FILE_NAME).read_text()
    with pytest.raises(JournalError, match="ends before tick 2, and the checkpoint is"):
        run_on(ToyHost(), first=3)
    assert (tmp_path / FILE_NAME).read_text() == text


def test_what_was_answered_before_the_end_is_not_asked_again(run_on, tmp_path):
    def member_3_is_late(work, kind):
        return 15.0 if work.ticket.member == 3 else 0.5

    toy = ToyHost(member_3_is_late)
    run = run_on(toy)
    state, _, _ = run.dispatch(start(), num_ticks=1)
    toy.now = 1.0
    run.dispatch(state, num_ticks=1)
    run.journal.close()
    other = ToyHost(member_3_is_late)
    run_on(other, first=2)
    assert {one.member for one in other.submitted if one.tick == 0} == {3}
    assert {one.member for one in other.submitted if one.tick == 1} == {0, 1, 2, 3}
