"""A run that was stopped and resumed is the run that was never stopped, bit for bit."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import toy_program

from agentic_grpo.ops.reductions import Mean
from agentic_grpo.training import compiling, devices, leaves, loop, metrics
from agentic_grpo.training.checkpoints import Checkpoints

TICKS, PER_DISPATCH = 12, 2
SETTINGS = loop.LoopSettings(
    num_ticks=TICKS,
    ticks_per_dispatch=PER_DISPATCH,
    evaluate_every=4,
    checkpoint_every=6,
    max_skipped=3,
)


@pytest.fixture(scope="module")
def built():
    """A toy run with everything that a state can hold, and its compiled dispatch.

    There is a reference policy, a moment per parameter, calibrated credit that learns,
    and rows that wait for verdicts.
    """
    program = toy_program.program(
        toy_program.rule(toy_program.credit.calibrated),
        learner=dataclasses.replace(
            toy_program.program().learner, kl_weight=0.1, kl_loss=_squared_difference
        ),
        optimizer=optax.chain(optax.scale_by_adam(), optax.scale(-1.0)),
    )
    layout = devices.make_layout(num_blocks=program.num_blocks)

    def first_state():
        return devices.first_state(
            layout, program, toy_program.initial_params(), jax.random.key(7)
        )

    dispatch, _ = compiling.compile_dispatch(
        layout, program, first_state(), num_ticks=PER_DISPATCH
    )
    return layout, first_state, dispatch


def _squared_difference(log_probs, reference, mask, *, behaviour_log_probs):
    del behaviour_log_probs
    return jnp.where(mask, (log_probs - reference) ** 2, 0.0)


def evaluate(params):
    size = optax.tree.norm(params)
    return {"solve_rate": Mean(size, jnp.ones_like(size))}


def train(built, folder, *, stop_at=None, num_ticks=TICKS):
    """One process: from the newest checkpoint, or the start, to the end or a stop."""
    layout, first_state, dispatch = built
    settings = dataclasses.replace(SETTINGS, num_ticks=num_ticks)
    with Checkpoints(folder) as checkpoints, metrics.MetricsWriter(folder) as writer:
        if checkpoints.latest_step() is None:
            state = first_state()
        else:
            state, _ = checkpoints.restore(layout.abstract(first_state()))
        ticks = [int(state.tick)]
        checkpoints.save(ticks[-1], state, {})
        writer.truncate_after(ticks[-1])

        def one_dispatch(state):
            ticks.append(ticks[-1] + PER_DISPATCH)
            return dispatch(state)

        hooks = loop.Hooks(
            dispatch=one_dispatch,
            evaluate=evaluate,
            stop=lambda: ticks[-1] == stop_at,
            outlets=[
                loop.Outlet(
                    write=writer.write,
                    save=lambda tick, state: checkpoints.save(tick, state, {}),
                    dump=lambda refused: None,
                )
            ],
        )
        state, finished, _ = loop.train(state, settings, hooks)
        return state, finished


def in_bits(state):
    return {
        name: np.asarray(leaves.to_array(leaf)).tobytes()
        for name, leaf in leaves.named(state).items()
    }


def written(folder):
    """The lines of metrics but what the clock says; NaN is equal to itself."""
    return [
        {k: repr(v) for k, v in line.items() if not k.startswith("time/")}
        for line in metrics.read(folder)
    ]


@pytest.fixture(scope="module")
def undisturbed(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    state, finished = train(built, folder)
    assert finished and int(state.learner.step) > 3
    # the state that is compared holds unfinished business of every kind
    assert bool(state.table.occupied.any()) and bool(state.table.generating.any())
    assert float(jnp.abs(state.table.applied_advantage).sum()) > 0
    assert float(state.credit.groups.sum()) > 0
    return in_bits(state), written(folder)


@pytest.mark.parametrize("stop_at", range(0, TICKS + 1, PER_DISPATCH))
def test_stopped_after_any_dispatch_and_resumed(built, undisturbed, tmp_path, stop_at):
    state, finished = train(built, tmp_path, stop_at=stop_at)
    assert int(state.tick) == stop_at and finished == (stop_at == TICKS)
    state, finished = train(built, tmp_path)
    assert finished
    bits, lines = undisturbed
    assert in_bits(state) == bits
    assert written(tmp_path) == lines


def test_stopped_after_every_dispatch(built, undisturbed, tmp_path):
    for stop_at in range(0, TICKS, PER_DISPATCH):
        train(built, tmp_path, stop_at=stop_at)
    state, _ = train(built, tmp_path)
    assert (in_bits(state), written(tmp_path)) == undisturbed


def test_killed_between_two_checkpoints(built, undisturbed, tmp_path):
    # Killed after tick 10: metrics are there up to 10, the checkpoint is of tick 6.
    class Killed(BaseException):
        pass

    layout, first_state, dispatch = built
    calls = []

    def dying(state):
        calls.append(state)
        if len(calls) == 6:
            raise Killed
        return dispatch(state)

    with pytest.raises(Killed):
        train((layout, first_state, dying), tmp_path)
    assert metrics.read(tmp_path)[-1]["tick"] == 8  # of tick 10 nothing was read yet
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.latest_step() == 6
    state, _ = train(built, tmp_path)
    assert (in_bits(state), written(tmp_path)) == undisturbed


def test_more_ticks_go_on_from_the_end(built, tmp_path):
    long, short = tmp_path / "long", tmp_path / "short"
    wanted, _ = train(built, long, num_ticks=TICKS + 4)
    train(built, short)
    state, finished = train(built, short, num_ticks=TICKS + 4)
    assert finished and in_bits(state) == in_bits(wanted)
    assert [x["tick"] for x in written(short)] == [x["tick"] for x in written(long)]
