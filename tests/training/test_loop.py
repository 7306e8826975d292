"""The loop on the host: what is due when, late reading, and how it ends."""

import dataclasses
import re
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
            stop=lambda: self.stopping,
            outlets=[self.outlet()],
        )

    def outlet(self, name=""):
        return loop.Outlet(
            write=lambda tick, values: self.events.append(("write", tick, values)),
            save=lambda tick, _: self.events.append(("save", tick, None)),
            dump=lambda refused: f"the dump of {refused}",
            name=name,
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
    learner = types.SimpleNamespace(policy_params=tick)
    return types.SimpleNamespace(tick=np.int32(tick), learner=learner)


def test_everything_happens_when_it_is_due():
    recorder = Recorder()
    state, finished, _ = loop.train(state_at(0), SETTINGS, recorder.hooks())
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
    _, finished, _ = loop.train(state_at(8), SETTINGS, recorder.hooks())
    assert finished and recorder.events == []


def test_too_many_steps_that_are_not_finite_end_the_run_before_it_saves():
    recorder = Recorder(skipped=lambda tick: [2, 3])
    message = (
        r"3 steps in a row up to tick 2 .*the newest checkpoint is of tick 0, and the "
        r"batch of the last is in the dump of dispatch 2\."
    )
    with pytest.raises(loop.NonFiniteError, match=message):
        loop.train(state_at(0), SETTINGS, recorder.hooks())
    assert recorder.ticks("save") == []
    assert recorder.ticks("write") == [2]


def test_a_run_whose_environment_broke_its_word_ends(monkeypatch):
    recorder = Recorder()
    dispatch = recorder.dispatch

    def broken_at_4(state):
        state, metrics, refused = dispatch(state)
        late = [0, 1] if state.tick == 4 else [0, 0]
        metrics["contract/answers_out_of_time"] = np.array(late)
        return state, metrics, refused

    monkeypatch.setattr(recorder, "dispatch", broken_at_4)
    message = r"broke its contract up to tick 4 \(contract/answers_out_of_time 0\.5 per"
    with pytest.raises(ValueError, match=message):
        loop.train(state_at(0), SETTINGS, recorder.hooks())
    assert recorder.ticks("write") == [2, 4]
    assert recorder.ticks("save") == []


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
    state, finished, _ = loop.train(state_at(0), SETTINGS, recorder.hooks())
    assert not finished and state.tick == 4
    assert recorder.ticks("save") == [4]
    assert recorder.ticks("write") == [2, 4]


def test_nothing_is_transferred_implicitly_inside_the_dispatch():
    step = jax.jit(lambda x: x + 1)

    def dispatch(state):
        step(np.float32(1.0))  # an implicit copy of a NumPy scalar to the device
        return state, {}, None

    hooks = dataclasses.replace(Recorder().hooks(), dispatch=dispatch)
    with pytest.raises(Exception, match="transfer"):
        loop.train(state_at(jnp.int32(0)), SETTINGS, hooks)


@pytest.mark.parametrize("is_ready", [True, False])
def test_the_times_of_the_lines_add_up_to_what_has_passed(monkeypatch, is_ready):
    # Dispatches overlap: from its own start to its reading each takes two of these.
    now = [100.0]
    monkeypatch.setattr(loop.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(loop, "_is_ready", lambda tree: is_ready)

    def one_second(tick):
        now[0] += 1.0

    recorder = Recorder(on_dispatch=one_second)
    loop.train(state_at(0), SETTINGS, recorder.hooks())
    lines = [values for name, _, values in recorder.events if name == "write"]
    assert sum(line["time/seconds"] for line in lines) == now[0] - 100.0 == 4.0
    if is_ready:  # as where a dispatch returns when all is computed
        assert [line["time/ticks_per_second"] for line in lines] == [2.0] * 4


class Group:
    """Two runs in one program: everything has a leading axis."""

    def __init__(self, *, skipped, on_dispatch=lambda tick: None):
        self.recorders = [Recorder(), Recorder()]
        self.shown = []
        self._skipped = skipped
        self._on_dispatch = on_dispatch

    def hooks(self):
        return loop.Hooks(
            dispatch=self.dispatch,
            evaluate=lambda params: {"x": Mean(np.ones(2), np.ones(2))},
            stop=lambda: False,
            outlets=[
                recorder.outlet(f"seed {k}")
                for k, recorder in enumerate(self.recorders)
            ],
            split=lambda tree: [
                jax.tree.map(lambda x, k=k: x[k], tree) for k in (0, 1)
            ],
            show=lambda tick, lines: self.shown.append((tick, len(lines))),
        )

    def dispatch(self, state):
        tick = int(state["tick"][0]) + 2
        self._on_dispatch(tick)
        metrics = {
            "reward": Mean(np.array([[1.0, 4.0], [0.0, 8.0]]), np.ones((2, 2))),
            "skipped_in_a_row": np.array(self._skipped(tick)),
        }
        return group_at(tick), metrics, np.array([tick, 10 * tick])


class State(dict):
    tick = property(lambda self: self["tick"])
    learner = types.SimpleNamespace(policy_params=None)


jax.tree_util.register_pytree_node(
    State, lambda s: ((s["tick"],), None), lambda _, leaves: State(tick=leaves[0])
)


def group_at(tick):
    return State(tick=np.array([tick, tick], np.int32))


def test_runs_of_one_program_each_have_their_lines_and_their_state():
    group = Group(skipped=lambda tick: [[0, 0], [0, 0]])
    _, finished, diverged = loop.train(group_at(0), SETTINGS, group.hooks())
    assert finished and not diverged
    for recorder, reward in zip(group.recorders, (2.5, 4.0), strict=True):
        assert recorder.ticks("write") == [2, 4, 6, 8]
        assert recorder.ticks("save") == [6, 8]
        lines = [values for name, _, values in recorder.events if name == "write"]
        assert [line["reward"] for line in lines] == [reward] * 4
    assert group.shown == [(2, 2), (4, 2), (6, 2), (8, 2)]


def test_the_time_of_a_group_is_stated_once(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(loop.time, "perf_counter", lambda: now[0])

    def three_seconds(tick):
        now[0] += 3.0

    group = Group(skipped=lambda tick: [[0, 0], [0, 0]], on_dispatch=three_seconds)
    loop.train(group_at(0), SETTINGS, group.hooks())
    lines = [v for r in group.recorders for name, _, v in r.events if name == "write"]
    assert sum(line["time/seconds"] for line in lines) == now[0] == 12.0
    # two runs do two ticks each in these three seconds
    assert {line["time/ticks_per_second"] for line in lines} == {2 / 3}


def test_one_run_that_diverges_is_left_behind_and_the_others_go_on():
    group = Group(skipped=lambda tick: [[0, 0], [tick - 4, tick - 3]])
    _, finished, diverged = loop.train(group_at(0), SETTINGS, group.hooks())
    assert finished and list(diverged) == [1]
    assert re.match(
        r"seed 1: 3 steps in a row up to tick 6 .*of tick 0.*the dump of 60\.",
        str(diverged[1]),
    )
    good, bad = group.recorders
    assert good.ticks("write") == [2, 4, 6, 8] and good.ticks("save") == [6, 8]
    assert bad.ticks("write") == [2, 4, 6] and bad.ticks("save") == []


def test_a_group_of_which_all_diverge_ends():
    group = Group(skipped=lambda tick: [[3, 3], [0, 5]])
    with pytest.raises(loop.NonFiniteError, match=r"seed 0: 3 steps.*seed 1: 5 steps"):
        loop.train(group_at(0), SETTINGS, group.hooks())
    assert all(r.ticks("write") == [2] for r in group.recorders)
