"""Eight devices give the numbers of one in every layout, and share what they should."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest
import recorded_run
import toy_program
from recorded_run import BLOCKS, TICKS

from agentic_grpo.ops.reductions import Mean, is_reduction
from agentic_grpo.training import devices, tick
from agentic_grpo.training.checkpoints import Checkpoints

ONE = dict(data=1)
LAYOUTS = {
    "jit": dict(data=4, fsdp=2),
    "pmap": dict(data=8, parallelism="pmap"),
}
SLOW_LAYOUTS = {
    "jit_data": dict(data=8),
    "jit_fsdp": dict(fsdp=8),
    "pmap_of_four": dict(data=4, parallelism="pmap"),
}
EVERY_LAYOUT = [
    *LAYOUTS,
    *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_LAYOUTS),
]


def layout(name):
    choices = {"one": ONE} | LAYOUTS | SLOW_LAYOUTS
    return devices.make_layout(num_blocks=BLOCKS, **choices[name])


@pytest.fixture(scope="module")
def one_device():
    return recorded_run.run(layout("one"), recorded_run.program())


@pytest.fixture(scope="module", params=EVERY_LAYOUT)
def several(request):
    return recorded_run.run(layout(request.param), recorded_run.program())


def assert_near(got, wanted, part, tolerance):
    """Relative to the size of each leaf as a whole."""
    names = [name for name in wanted if name.startswith(part)]
    assert names
    for name in names:
        error = np.linalg.norm(got[name] - wanted[name])
        assert error <= tolerance * np.linalg.norm(wanted[name]), name


def test_one_gradient_is_that_of_one_device(several, one_device):
    # An average of averages, or a psum too many, is off by a factor, not by 1e-5.
    steps = [state["learner/step"] for state in one_device[0]]
    first = next(index for index, step in enumerate(steps) if step)
    gradient = "learner/optimizer_state/0/trace"
    assert_near(several[0][first], one_device[0][first], gradient, 1e-5)


def test_twenty_recorded_ticks_are_those_of_one_device(several, one_device):
    got, wanted = several[0][-1], one_device[0][-1]
    assert got["learner/step"] == wanted["learner/step"] > TICKS / 2
    assert_near(got, wanted, "learner/params", 1e-4)
    for name, value in wanted.items():
        if name in ("table/applied_advantage", "table/divisor") or name.startswith(
            "credit/"
        ):
            np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-6)
        elif not name.startswith("learner/"):
            # what arrived, when, and what is in flight: to the last bit
            np.testing.assert_array_equal(got[name], value, err_msg=name)


def test_metrics_are_sums_over_all_devices(several, one_device):
    got, wanted = several[1], one_device[1]
    assert got.keys() == wanted.keys()
    for name in ("tokens_written", "events/scheduled", "events/pending", "verdict"):
        jax.tree.map(np.testing.assert_array_equal, got[name], wanted[name])
    for name, value in wanted.items():
        if is_reduction(value):
            for a, b in zip(got[name], value, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4, err_msg=name)


def test_a_group_lies_on_one_device_and_matrices_are_split_over_fsdp(several):
    state, mesh = several[2], several[2].table.tokens.sharding.mesh
    for leaf in jax.tree.leaves((state.table, state.lanes)):
        shard = leaf.sharding.shard_shape(leaf.shape)
        assert shard == (BLOCKS // mesh.size, *leaf.shape[1:])
    split = 0
    for leaf in jax.tree.leaves(state.learner):
        shard = leaf.sharding.shard_shape(leaf.shape)
        if leaf.ndim >= 2:
            assert np.prod(shard) * mesh.shape["fsdp"] == leaf.size
            split += 1
        else:
            assert shard == leaf.shape
    assert split == 4 * 5  # embedding and kernels: weights, gradient, two moments


def test_one_layout_restores_under_another(several, tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(TICKS, several[2], {})
        checkpoints.wait()
        for name in ("one", *LAYOUTS):
            target = layout(name).abstract(several[2])
            restored, _ = checkpoints.restore(target)
            jax.tree.map(
                np.testing.assert_array_equal,
                recorded_run.on_host(restored),
                several[0][-1],
            )
            assert [leaf.sharding for leaf in jax.tree.leaves(restored)] == [
                leaf.sharding for leaf in jax.tree.leaves(target)
            ]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*LAYOUTS, *SLOW_LAYOUTS])
def test_sampled_runs_keep_the_books(name):
    program = toy_program.program(num_blocks=BLOCKS)
    _, metrics, state = recorded_run.run(layout(name), program)

    def total(name):
        value = metrics[name]
        return float(np.sum(value.total if isinstance(value, Mean) else value))

    pending = jax.vmap(lambda t: tick.snapshots.pending(t, np.ones(3, bool)))
    done = ("stage_rewards_served", "verdicts_served")
    done += ("expired_stage_rewards", "expired_verdicts")
    served = sum(total(f"events/{name}") for name in done)
    assert served + float(pending(state.table).sum()) == total("events/scheduled") > 0
    assert int(state.learner.step) + total("idle") == TICKS
    assert total("groups_started") > BLOCKS


def test_the_lanes_of_different_blocks_draw_different_tokens(one_device):
    # huggingface/trl#2776, modelscope/ms-swift#3450: every device drew the same samples
    tokens = one_device[0][-1]["table/tokens"].reshape(BLOCKS, -1)
    assert len(np.unique(tokens, axis=0)) == BLOCKS


@pytest.mark.parametrize(
    ("choice", "blocks", "message"),
    [
        (
            dict(data=4),
            6,
            r"rollout\.num_blocks=6 must be a multiple .* devices\.data=4 x "
            r"devices\.fsdp=1 = 4, of 8 present",
        ),
        (dict(data=3, fsdp=2), 8, r"num_blocks=8 .*\.data=3 x devices\.fsdp=2 = 6"),
        (dict(data=0, fsdp=3), 4, r"num_blocks=4 .*\.data=1 x devices\.fsdp=3 = 3"),
        (dict(data=16), 16, r"devices\.data=16 .* = 16 must be at most .* devices, 8"),
        (dict(data=-1), 8, r"devices\.data=-1 must be at least 0"),
        (dict(fsdp=0), 8, r"devices\.fsdp=0 must be at least 1"),
        (
            dict(fsdp=2, parallelism="pmap"),
            8,
            r"devices\.fsdp=2 must be 1 with devices\.parallelism='pmap'",
        ),
        (dict(parallelism="pjit"), 8, r"devices\.parallelism='pjit' must be one of"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(choice, blocks, message):
    with pytest.raises(ValueError, match=message):
        devices.make_layout(num_blocks=blocks, **choice)


@pytest.mark.parametrize(
    ("fsdp", "blocks", "data"),
    [(1, 8, 8), (2, 8, 4), (1, 2, 2), (1, 6, 6), (2, 4, 2), (1, 5, 5), (1, 9, 3)],
)
def test_no_number_of_devices_means_as_many_as_share_the_blocks(fsdp, blocks, data):
    mesh = devices.make_layout(data=0, fsdp=fsdp, num_blocks=blocks).mesh
    assert mesh.shape == {"data": data, "fsdp": fsdp}


_SPLIT = """
import jax
from agentic_grpo.training import devices, host
host.cpu_threads = lambda: 6
devices.split_cpu(data={data}, fsdp={fsdp}, num_blocks={blocks})
print(len(jax.devices()))
"""


@pytest.mark.parametrize(
    ("data", "fsdp", "blocks", "environment", "expected"),
    [
        (0, 1, 4, {}, 4),  # six processors, of which four share the blocks evenly
        (0, 1, 1, {}, 1),
        (2, 2, 8, {}, 4),
        (2, 1, 3, {}, 1),  # does not fit: make_layout says so
        (-1, 1, 4, {}, 1),
        (0, 1, 4, {"JAX_NUM_CPU_DEVICES": "2"}, 2),
        (0, 1, 4, {"XLA_FLAGS": "--xla_force_host_platform_device_count=3"}, 3),
    ],
)
def test_a_cpu_is_split_unless_the_environment_did(
    data, fsdp, blocks, environment, expected
):
    code = _SPLIT.format(data=data, fsdp=fsdp, blocks=blocks)
    outside = {k: v for k, v in os.environ.items() if k != "JAX_NUM_CPU_DEVICES"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**outside, "JAX_PLATFORMS": "cpu", **environment},
    )
    assert int(done.stdout) == expected


def test_a_cpu_that_jax_has_started_with_stays_as_it_is():
    before = jax.devices()
    devices.split_cpu(data=2, num_blocks=2)
    assert jax.devices() == before
