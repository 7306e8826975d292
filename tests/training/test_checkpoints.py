"""A checkpoint comes back bit by bit, or says by name why it does not."""

import dataclasses
import logging as python_logging
import os
import shutil

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from absl import logging

from agentic_grpo import records
from agentic_grpo.training import (
    checkpoint_record,
    checkpoints,
    host,
    leaves,
)

# When one array cannot be read, TensorStore still reports the others to an event loop
# that Orbax has closed; Python prints these and goes on.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)

OPTIMIZER = optax.adamw(optax.linear_schedule(1.0, 0.0, 10))


@records.record
class State:
    """Every kind of leaf that a training state may have."""

    params: dict
    optimizer: object
    key: jax.Array
    lane_keys: jax.Array
    pending: jax.Array
    nothing: tuple
    host: np.ndarray
    tick: int
    rate: float
    finished: bool


def make_state(seed=0, tick=0):
    params = {
        "w": jax.random.normal(jax.random.key(seed), (4, 3)),
        "half": jnp.asarray([1.0 + seed, -0.1], jnp.bfloat16),
        "odd": jnp.asarray([jnp.nan, -0.0, jnp.inf, 1e-40], jnp.float32),
    }
    return State(
        params=params,
        optimizer=OPTIMIZER.init(params),
        key=jax.random.key(seed + 1),
        lane_keys=jax.random.split(jax.random.key(seed, impl="rbg"), 3),
        pending=jnp.asarray([True, False]),
        nothing=(None, (), jnp.zeros((0, 3))),
        host=np.arange(3) + tick,
        tick=tick,
        rate=0.1,
        finished=False,
    )


def as_bytes(state):
    return {
        name: (leaves.type_name(leaf), np.asarray(leaves.to_array(leaf)).tobytes())
        for name, leaf in leaves.named(state).items()
    }


def assert_same(got, wanted):
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    assert as_bytes(got) == as_bytes(wanted)


@pytest.fixture
def warnings_of_run():
    """The messages that absl logged at WARNING while the test ran."""
    messages = []

    class Collect(python_logging.Handler):
        def emit(self, record):
            if record.levelno >= python_logging.WARNING:
                messages.append(record.getMessage())

    handler = Collect()
    logging.get_absl_logger().addHandler(handler)
    yield messages
    logging.get_absl_logger().removeHandler(handler)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with steps 10 and 20; copied by the tests that damage it."""
    folder = tmp_path_factory.mktemp("saved") / "checkpoints"
    with checkpoints.Checkpoints(folder) as store:
        for step in (10, 20):
            store.save(step, make_state(seed=step, tick=step), {"config": {"lr": 0.5}})
    return folder


@pytest.fixture
def copy(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "copy")


def test_a_part_of_the_state_comes_back_without_the_rest(saved):
    with checkpoints.Checkpoints(saved) as store:
        params, _ = store.restore_part("params", make_state().params, 10)
        store.restore(make_state())  # all of it still can be read
    assert_same(params, make_state(seed=10).params)
    with (
        checkpoints.Checkpoints(saved) as store,
        pytest.raises(checkpoints.CheckpointError, match=r"state/params/more.*nothing"),
    ):
        store.restore_part("params", make_state().params | {"more": jnp.zeros(2)})


def test_a_part_whose_bytes_have_changed_is_not_given_back(copy, monkeypatch):
    monkeypatch.setattr(checkpoint_record, "changed_leaves", lambda *_: ["state/w"])
    with (
        checkpoints.Checkpoints(copy) as store,
        pytest.raises(checkpoints.CheckpointError, match=r"the bytes of state/w"),
    ):
        store.restore_part("params", make_state().params, 10)


def test_every_kind_of_leaf_comes_back_with_its_bits_and_its_type(saved):
    with checkpoints.Checkpoints(saved) as store:
        state, metadata = store.restore(make_state())
    assert_same(state, make_state(seed=20, tick=20))
    scalars = (state.tick, state.rate, state.finished)
    assert [type(scalar) for scalar in scalars] == [int, float, bool]
    assert isinstance(state.host, np.ndarray)
    # the same generator: a key restored as plain integers would fail or draw others
    chex.assert_trees_all_equal(
        jax.random.bits(state.key, (4,)), jax.random.bits(jax.random.key(21), (4,))
    )
    assert metadata["config"] == {"lr": 0.5}
    assert metadata["schema_version"] == checkpoint_record.SCHEMA_VERSION
    assert metadata["environment"]["jax"] == jax.__version__
    assert metadata["environment"]["device_kind"] == jax.devices()[0].device_kind


def test_an_abstract_target_is_enough(saved):
    target = jax.tree.map(
        lambda leaf: (
            jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
            if isinstance(leaf, jax.Array)
            else leaf
        ),
        make_state(),
    )
    with checkpoints.Checkpoints(saved) as store:
        state, _ = store.restore(target, 10)
    assert_same(state, make_state(seed=10, tick=10))


def test_a_leaf_goes_where_the_target_is(saved):
    device = jax.devices()[2]
    target = make_state()
    target = dataclasses.replace(target, key=jax.device_put(target.key, device))
    with checkpoints.Checkpoints(saved) as store:
        state, _ = store.restore(target)
    assert state.key.devices() == {device} and state.key.committed
    assert not state.params["w"].committed  # free to follow the others, as it was


def test_a_state_may_be_donated_once_save_returns(tmp_path):
    # 16 MiB: a background save that still reads the buffer would store the -7
    numbers = jnp.arange(2**22, dtype=jnp.float32)
    overwrite = jax.jit(lambda x: x * 0.0 - 7.0, donate_argnums=0)
    with checkpoints.Checkpoints(tmp_path) as store:
        for step in (1, 2):
            state = {"numbers": numbers + step}
            store.save(step, state, {})
            jax.block_until_ready(overwrite(state["numbers"]))
        target = {"numbers": jnp.zeros(2**22)}
        for step in (1, 2):
            restored, _ = store.restore(target, step)
            assert float(restored["numbers"][0]) == step
            # and what was restored may itself be donated
            assert float(overwrite(restored["numbers"])[5]) == -7.0


def test_the_newest_are_kept_and_the_best_beside_them(tmp_path):
    scores = {1: 0.5, 2: 0.9, 3: 0.9, 4: None, 5: 0.2, 6: 0.1}
    for step, score in scores.items():  # a new process each time, as after preemption
        with checkpoints.Checkpoints(tmp_path, keep=2, keep_best=True) as store:
            assert store.save(step, {"x": jnp.zeros(2)}, {}, metric=score)
    with checkpoints.Checkpoints(tmp_path) as store:
        assert store.steps() == [3, 5, 6]
        assert (store.best_step(), store.latest_step()) == (3, 6)


def test_saving_the_newest_step_again_is_nothing_and_going_back_is_refused(copy):
    with checkpoints.Checkpoints(copy) as store:
        assert store.save(20, make_state(), {}) is False
        with pytest.raises(checkpoints.CheckpointError, match="holds step 20"):
            store.save(15, make_state(), {})
        assert_same(store.restore(make_state())[0], make_state(seed=20, tick=20))


def test_an_unfinished_save_is_not_a_checkpoint(copy):
    shutil.copytree(copy / "20", copy / "30.orbax-checkpoint-tmp")
    with checkpoints.Checkpoints(copy) as store:
        assert store.latest_step() == 20
        store.save(30, make_state(seed=3), {})
        store.wait()
        assert_same(store.restore(make_state())[0], make_state(seed=3))


def damage(path, kind):
    content = path.read_bytes()
    if kind == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif kind == "flipped":
        middle = len(content) // 2
        flipped = bytes([content[middle] ^ 0x10])
        path.write_bytes(content[:middle] + flipped + content[middle + 1 :])
    else:
        path.unlink()


@pytest.mark.parametrize("kind", ["truncated", "flipped", "missing"])
def test_no_damage_to_any_file_goes_unnoticed(saved, tmp_path, kind):
    # Orbax alone restores other numbers when a byte of an array's file is flipped.
    wanted = make_state(seed=20, tick=20)
    noticed = 0
    files = sorted(path for path in (saved / "20").rglob("*") if path.is_file())
    for number, path in enumerate(files):
        folder = shutil.copytree(saved, tmp_path / str(number))
        damage(folder / path.relative_to(saved), kind)
        with checkpoints.Checkpoints(folder) as store:
            try:
                state, metadata = store.restore(make_state(), 20)
            except checkpoints.CheckpointError as error:
                assert str(folder / "20") in str(error)
                noticed += 1
            else:
                assert_same(state, wanted)
                assert metadata["config"] == {"lr": 0.5}
    assert noticed >= 3  # at least the record, the index and the arrays


def test_a_damaged_newest_step_gives_way_to_the_one_before(copy, warnings_of_run):
    shutil.rmtree(copy / "20" / "state")
    with checkpoints.Checkpoints(copy) as store:
        state, _ = store.restore(make_state())
        assert_same(state, make_state(seed=10, tick=10))
        assert store.latest_step() == 10
        assert (copy / "20").is_dir()  # reading alone changes nothing
        # the run goes on and reaches the step again
        assert store.save(20, make_state(seed=5), {})
    text = "\n".join(warnings_of_run)
    assert f"{copy / '20'} is damaged" in text and "older step 10" in text
    assert (copy / "damaged-20").is_dir()
    with checkpoints.Checkpoints(copy) as store:
        assert store.steps() == [10, 20]
        assert_same(store.restore(make_state())[0], make_state(seed=5))


def test_a_copy_under_another_name_is_set_aside(copy, warnings_of_run):
    # Its state is that of step 20, and step 25 would be "later than" all that follow.
    shutil.copytree(copy / "20", copy / "30")
    with checkpoints.Checkpoints(copy) as store:
        assert_same(store.restore(make_state())[0], make_state(seed=20, tick=20))
        assert store.save(25, make_state(seed=5), {})
        assert store.latest_step() == 25
    assert "it is a copy of 20" in "\n".join(warnings_of_run)
    assert (copy / "damaged-30").is_dir()


def test_metadata_can_be_looked_at_before_the_state(copy):
    def refuse(metadata):
        raise KeyError(metadata["config"]["lr"])

    with checkpoints.Checkpoints(copy) as store, pytest.raises(KeyError, match=r"0\.5"):
        store.restore({"another": "structure"}, check=refuse)


def test_a_folder_says_what_it_holds_without_being_opened(copy, tmp_path):
    assert checkpoint_record.newest(copy) == (20, {"config": {"lr": 0.5}})
    (copy / "20" / "record" / "metadata").write_text("{")
    assert checkpoint_record.newest(copy) == (20, {"config": {"lr": 0.5}})
    (copy / "10" / "record" / "metadata").unlink()
    assert checkpoint_record.newest(copy) == (20, None)
    assert checkpoint_record.newest(tmp_path / "none") == (0, None)


def test_with_nothing_intact_the_error_lists_the_steps(copy):
    for step in ("10", "20"):
        (copy / step / "record" / "metadata").write_text("{")
    store = checkpoints.Checkpoints(copy)
    with store, pytest.raises(checkpoints.CheckpointError, match=r"\[10, 20\]"):
        store.restore(make_state())


def test_missing_checkpoints_are_told_by_name(tmp_path, saved):
    empty = tmp_path / "nowhere"
    store = checkpoints.Checkpoints(empty)
    with store, pytest.raises(checkpoints.CheckpointError, match=r"where .*no check"):
        store.restore(make_state())
    assert store.latest_step() is None and store.best_step() is None
    assert not empty.exists()
    store = checkpoints.Checkpoints(saved)
    with store, pytest.raises(checkpoints.CheckpointError, match=r"no step 15.*10, 20"):
        store.restore(make_state(), 15)


def test_another_schema_version_is_refused_and_not_passed_over(
    tmp_path, monkeypatch, warnings_of_run
):
    with checkpoints.Checkpoints(tmp_path) as store:
        store.save(1, {"x": jnp.zeros(2)}, {})
        monkeypatch.setattr(checkpoint_record, "SCHEMA_VERSION", 2)
        store.save(2, {"x": jnp.zeros(2)}, {})
        monkeypatch.undo()
        with pytest.raises(
            checkpoints.CheckpointError, match="schema_version is 2; this program reads"
        ):
            store.restore({"x": jnp.zeros(2)})
    assert warnings_of_run == []


def test_another_configuration_is_refused_by_the_names_of_its_leaves(saved):
    target = make_state()
    # a cast from another type would be silent in Orbax
    target.params["w"] = jnp.zeros((4, 3), jnp.int32)
    target = dataclasses.replace(target, rate=1)
    store = checkpoints.Checkpoints(saved)
    with store, pytest.raises(checkpoints.CheckpointError) as caught:
        store.restore(target)
    message = str(caught.value)
    assert "params/w was saved as float32[4, 3], and is int32[4, 3]" in message
    assert "rate was saved as python float[], and is python int[]" in message


def test_another_environment_is_a_warning(saved, monkeypatch, warnings_of_run):
    here = host.describe()
    monkeypatch.setattr(host, "describe", lambda: {**here, "cpu_threads": 1000})
    with checkpoints.Checkpoints(saved) as store:
        assert_same(store.restore(make_state())[0], make_state(seed=20, tick=20))
    expected = f"cpu_threads: {here['cpu_threads']}, now 1000"
    assert [expected in message for message in warnings_of_run] == [True]


@pytest.mark.parametrize(
    ("metadata", "metric", "match"),
    [
        ({"schema_version": 3}, None, "schema_version"),
        ({"config": object()}, None, "JSON"),
        ({"before": {"solve_rate": float("nan")}}, None, "JSON"),
        ({}, float("nan"), "metric: nan"),
    ],
)
def test_what_cannot_be_recorded_is_refused(tmp_path, metadata, metric, match):
    store = checkpoints.Checkpoints(tmp_path / "new")
    with store, pytest.raises(ValueError, match=match):
        store.save(1, {"x": jnp.zeros(2)}, metadata, metric=metric)
    assert not os.path.exists(tmp_path / "new")


def test_leaves_that_cannot_be_told_apart_or_saved_are_refused():
    with pytest.raises(ValueError, match="state/a/b: two leaves"):
        leaves.named({"a": {"b": 1}, "a/b": 2})
    with pytest.raises(ValueError, match="state/note: 'text'"):
        leaves.named({"note": "text"})
    with pytest.raises(ValueError, match="keep: 0"):
        checkpoints.Checkpoints("unused", keep=0)


def test_a_dump_opens_without_pickle(tmp_path):
    state = make_state(seed=2)
    leaves.dump(state, tmp_path / "batches" / "bad.npz")
    with np.load(tmp_path / "batches" / "bad.npz", allow_pickle=False) as dumped:
        contents = dict(dumped)
    assert list(contents) == list(leaves.named(state))
    np.testing.assert_array_equal(contents["state/params/w"], state.params["w"])
    np.testing.assert_array_equal(  # bfloat16 is widened, exactly
        contents["state/params/half"], state.params["half"].astype(jnp.float32)
    )
    np.testing.assert_array_equal(contents["state/key"], jax.random.key_data(state.key))
    assert os.listdir(tmp_path / "batches") == ["bad.npz"]


def test_what_a_save_in_flight_makes_again_is_not_taken_for_the_folder(
    tmp_path, monkeypatch
):
    """Orbax makes the folders of what it writes; a run ended as if all were well."""
    folder = tmp_path / "run" / "checkpoints"
    with checkpoints.Checkpoints(folder) as store:
        store.save(0, make_state(), {})

        written = store._manager.wait_until_finished

        def finish():
            written()
            folder.parent.rename(tmp_path / "elsewhere")
            folder.mkdir(parents=True)

        monkeypatch.setattr(store._manager, "wait_until_finished", finish)
        with pytest.raises(checkpoints.CheckpointError, match="was moved or deleted"):
            store.wait()
        monkeypatch.undo()
        store.wait()  # said once; nothing is in flight any more


@pytest.mark.parametrize("is_moved", [True, False], ids=["moved", "deleted"])
def test_a_folder_that_was_taken_away_is_not_made_again(tmp_path, is_moved):
    """A run once went on under the old name, in a folder that nobody had asked for."""
    folder = tmp_path / "run" / "checkpoints"
    with checkpoints.Checkpoints(folder) as store:
        store.save(0, make_state(), {})
        store.wait()
        folder.parent.rename(tmp_path / "elsewhere")
        if not is_moved:
            shutil.rmtree(tmp_path / "elsewhere")
        with pytest.raises(checkpoints.CheckpointError, match="was moved or deleted"):
            store.save(1, make_state(tick=1), {})
        store.wait()
    assert not folder.parent.exists()
