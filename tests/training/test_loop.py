"""The loop on the host: what is due when, late reading, and how it ends."""

import dataclasses
import os
import signal
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.ops.reductions import Mean
from agentic_grpo.training import loop

SETTINGS = loop.LoopSettings(
    num_ticks=8,
    ticks_per_dispatch=2,
    evaluate_every=4,
    checkpoint_every=6,
    max_skipped=3,
)


class Recorder:
    """Hooks that note what the loop asks for, over a state that only counts ticks."""

    def __init__(self, *, skipped=lambda tick: [0, 0], on_dispatch=None):
        self.events = []
        self.stopping = False
        self._skipped = skipped
        self._on_dispatch = on_dispatch

    def hooks(self):
        return loop.Hooks(
            dispatch=self.dispatch,
            evaluate=self.evaluate,
            write=lambda tick, values: self.events.append(("write", tick, values)),
            save=lambda tick, _: self.events.append(("save", tick, None)),
            dump=lambda refused: f"the dump of {refused}",
            stop=lambda: self.stopping,
        )

    def dispatch(self, state):
        tick = int(state.tick) + 2
        self.events.append(("dispatch", tick, None))
        if self._on_dispatch:
            self._on_dispatch(tick)
        metrics = {
            "reward": Mean(np.array([1.0, 4.0]), np.array([1.0, 3.0])),
            "tokens": np.array([10, 20]),
            "skipped_in_a_row": np.array(self._skipped(tick)),
        }
        return state_at(tick), metrics, f"dispatch {tick}"

    def evaluate(self, params):
        self.events.append(("evaluate", params, None))
        return {"solve_rate": Mean(np.float32(3.0), np.float32(4.0))}

    def ticks(self, kind):
        return [tick for name, tick, _ in self.events if name == kind]


def state_at(tick):
    learner = types.SimpleNamespace(params=tick)
    return types.SimpleNamespace(tick=np.int32(tick), learner=learner)


def test_everything_happens_when_it_is_due():
    recorder = Recorder()
    state, finished = loop.train(state_at(0), SETTINGS, recorder.hooks())
    assert finished and state.tick == 8
    assert recorder.ticks("dispatch") == [2, 4, 6, 8]
    assert recorder.ticks("evaluate") == [4, 8]
    assert recorder.ticks("save") == [6, 8]
    assert recorder.ticks("write") == [2, 4, 6, 8]


def test_metrics_are_read_one_dispatch_late():
    recorder = Recorder()
    loop.train(state_at(0), SETTINGS, recorder.hooks())
    order = [(name, tick) for name, tick, _ in recorder.events]
    assert order.index(("dispatch", 4)) < order.index(("write", 2))


def test_means_are_sums_over_sums_and_evaluations_carry_their_name():
    recorder = Recorder()
    loop.train(state_at(0), SETTINGS, recorder.hooks())
    written = {tick: v for name, tick, v in recorder.events if name == "write"}
    values = written[4]
    # (1 + 4) / (1 + 3), not the average of 1 and 4/3.
    assert values["reward"] == pytest.approx(1.25)
    assert values["tokens"] == pytest.approx(15.0)
    assert values["eval/solve_rate"] == pytest.approx(0.75)
    assert "skipped_in_a_row" not in values


def test_a_resumed_run_goes_on_from_its_tick():
    recorder = Recorder()
    loop.train(state_at(4), SETTINGS, recorder.hooks())
    assert recorder.ticks("dispatch") == [6, 8]


def test_a_finished_run_does_nothing():
    recorder = Recorder()
    _, finished = loop.train(state_at(8), SETTINGS, recorder.hooks())
    assert finished and recorder.events == []


def test_too_many_steps_that_are_not_finite_end_the_run_before_it_saves():
    recorder = Recorder(skipped=lambda tick: [2, 3])
    message = r"3 steps in a row up to tick 2 .*is in the dump of dispatch 2\."
    with pytest.raises(loop.NonFiniteError, match=message):
        loop.train(state_at(0), SETTINGS, recorder.hooks())
    assert recorder.ticks("save") == []
    assert recorder.ticks("write") == [2]


def test_a_streak_that_ends_within_the_dispatch_is_not_overlooked():
    recorder = Recorder(skipped=lambda tick: [3, 0])
    with pytest.raises(loop.NonFiniteError, match="3 steps in a row"):
        loop.train(state_at(0), SETTINGS, recorder.hooks())


def test_the_newest_checkpoint_is_from_before_the_skipped_steps():
    # tick 6 is due, but steps are being skipped since tick 5; the end always saves
    recorder = Recorder(skipped=lambda tick: [0, 1] if tick == 6 else [0, 0])
    loop.train(state_at(0), SETTINGS, recorder.hooks())
    assert recorder.ticks("save") == [8]


def test_a_request_to_stop_ends_the_run_after_the_dispatch_and_saves():
    def ask(tick):
        recorder.stopping = tick == 4

    recorder = Recorder(on_dispatch=ask)
    state, finished = loop.train(state_at(0), SETTINGS, recorder.hooks())
    assert not finished and state.tick == 4
    assert recorder.ticks("save") == [4]
    assert recorder.ticks("write") == [2, 4]


def test_sigterm_is_a_request_and_no_end_within_the_block():
    before = signal.getsignal(signal.SIGTERM)
    with loop.stop_on_sigterm() as stop_requested:
        assert not stop_requested.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop_requested.is_set()
    assert signal.getsignal(signal.SIGTERM) is before


def test_nothing_is_transferred_implicitly_inside_the_dispatch():
    step = jax.jit(lambda x: x + 1)

    def dispatch(state):
        step(np.float32(1.0))  # an implicit copy of a NumPy scalar to the device
        return state, {}, None

    hooks = dataclasses.replace(Recorder().hooks(), dispatch=dispatch)
    with pytest.raises(Exception, match="transfer"):
        loop.train(state_at(jnp.int32(0)), SETTINGS, hooks)
