"""Where time goes: labels that change nothing, and sums derived by hand."""

import functools

import jax
import numpy as np
import pytest
import toy_program

from agentic_grpo.training import compiling, devices
from experiments.runs import hlo_costs, profiling
from experiments.runs.hlo_costs import BOOKKEEPING, Cost

HLO = """\
HloModule jit_run, is_scheduled=true

%fused (p0: f32[4,8], p1: f32[8,2]) -> f32[4,2] {
  %p0 = f32[4,8]{1,0} parameter(0)
  %p1 = f32[8,2]{1,0} parameter(1)
  ROOT %dot.1 = f32[4,2]{1,0} dot(%p0, %p1), lhs_contracting_dims={1}, \
rhs_contracting_dims={0}, metadata={op_name="jit(run)/transpose(jvp(learn))/dot"}
}

%body (p2: f32[4,8]) -> f32[4,8] {
  %p2 = f32[4,8]{1,0} parameter(0)
  %copy.1 = f32[4,8]{1,0} copy(%p2)
  ROOT %add.1 = f32[4,8]{1,0} add(%copy.1, %p2), metadata={op_name="jit(run)/other"}
}

%condition (p3: f32[4,8]) -> pred[] {
  %p3 = f32[4,8]{1,0} parameter(0)
  ROOT %true = pred[] constant(true)
}

ENTRY %main (a: f32[4,8], b: f32[8,2], c: f32[3,4,8], d: f32[3,8,2]) -> f32[4,2] {
  %a = f32[4,8]{1,0} parameter(0)
  %b = f32[8,2]{1,0} parameter(1)
  %c = f32[3,4,8]{2,1,0} parameter(2)
  %d = f32[3,8,2]{2,1,0} parameter(3)
  %while.1 = f32[4,8]{1,0} while(%a), condition=%condition, body=%body, \
metadata={op_name="jit(run)/write/while"}
  %dot.2 = f32[3,4,2]{2,1,0} dot(%c, %d), lhs_batch_dims={0}, \
lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}, \
metadata={op_name="jit(run)/write/learn/dot"}
  ROOT %fusion.1 = f32[4,2]{1,0} fusion(%while.1, %b), kind=kOutput, calls=%fused, \
metadata={op_name="jit(run)/select"}
}
"""


def test_costs_of_a_program_by_hand():
    costs = hlo_costs.of_program(HLO, ("write", "learn"))
    # The fusion is named after what it holds; 2 * 4 * 8 * 2 operations.
    assert costs["fusion.1"] == Cost(label="learn", flops=128.0, contains=False)
    # Of two scopes the inner one counts; a batch of 3 products.
    assert costs["dot.2"] == Cost(label="learn", flops=384.0, contains=False)
    # The body has no name of its own and is run by the loop.
    assert costs["while.1"] == Cost(label="write", flops=0.0, contains=True)
    assert costs["copy.1"].label == costs["add.1"].label == "write"
    assert costs["a"].label == BOOKKEEPING


def test_time_is_shared_out_by_hand():
    leaf = functools.partial(Cost, flops=0.0, contains=False)
    loop = Cost(label="write", flops=0.0, contains=True)
    # A loop 0 .. 10 holds leaves 1 .. 5 and 3 .. 7, another leaf runs 12 .. 13.
    events = [
        (0, 10, loop),
        (1, 5, leaf(label="write")),
        (3, 7, leaf(label="learn")),
        (12, 13, leaf(label="pay")),
    ]
    seconds = hlo_costs._share_out(events)
    # write: 0-1 the loop alone, 1-3 alone, 3-5 half of it, 7-10 the loop again.
    assert seconds == pytest.approx({"write": 7e-9, "learn": 3e-9, "pay": 1e-9})


def play(layout, program, folder=None):
    """Three dispatches of a toy run, profiled where there is a folder."""
    state = devices.first_state(
        layout, program, toy_program.initial_params(), jax.random.key(0)
    )
    with profiling.names_kept():
        dispatch, _ = compiling.compile_dispatch(layout, program, state, num_ticks=2)
    with profiling.profiled(
        folder, dispatch, ticks_per_dispatch=2, enabled=folder is not None
    ) as call:
        for _ in range(3):
            state, *_ = call(state)
    return state


@pytest.mark.parametrize(
    "choice", [{}, {"data": 2, "parallelism": "pmap"}], ids=["jit", "pmap"]
)
def test_a_profiled_run_is_the_same_run_and_says_where_time_went(choice, tmp_path):
    program = toy_program.program(num_blocks=2)
    layout = devices.make_layout(num_blocks=2, **choice)
    expected = play(layout, program)
    got = play(layout, profiling.labelled(program), tmp_path)
    jax.tree.map(
        np.testing.assert_array_equal, got.learner.params, expected.learner.params
    )
    page = (tmp_path / "profile.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| ")]
    shares = {row[1].strip(): float(row[3].strip(" %")) for row in rows[1:]}
    assert sum(shares.values()) == pytest.approx(100.0, abs=0.5)
    assert shares["generation"] > 0 and shares["forward and backward"] > 0
    assert list((tmp_path / "trace").rglob("*.xplane.pb"))


def test_the_breakdown_adds_up():
    breakdown = profiling.Breakdown(
        ticks=4,
        wall_seconds=2.0,
        seconds={"generation": 0.5, "forward_backward": 1.0, "host": 0.5},
        flops={"generation": 1e9, "forward_backward": 8e9},
        written=100.0,
        trained=50.0,
        peak_flops=1e10,
    )
    assert breakdown.share("forward_backward") == 0.5
    assert breakdown.utilisation("generation") == pytest.approx(0.2)
    assert breakdown.utilisation("generation", "forward_backward") == pytest.approx(0.6)
    assert breakdown.utilisation("environment") == 0.0
    page = profiling.page(breakdown)
    assert "2.00 ticks/s, 50 tokens written and 25 tokens trained per second" in page
