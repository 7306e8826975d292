"""Suite scaling: how time and memory grow with lanes, stages, columns, layers, V.

Every axis is doubled from a small base while the others stand still; the exponent is
the slope of log time over log size. One compilation serves all lengths of text.
"""

import dataclasses

import jax
import numpy as np

from agentic_grpo.training import tick
from scripts.benchmarks import workloads
from scripts.benchmarks.measuring import result, take_turns
from scripts.benchmarks.trivial_environment import TrivialEnvironment

REPEATS = 3
TICKS = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Axis:
    """One size that grows; ``values`` ascending."""

    name: str
    values: tuple[int, ...]


AXES = (
    Axis(name="lanes", values=(4, 16, 64)),
    Axis(name="stages", values=(1, 2, 4)),
    Axis(name="token columns", values=(16, 32, 64)),
    Axis(name="layers", values=(1, 2, 4)),
    Axis(name="vocabulary", values=(64, 512, 4096)),
)
BASE = {
    "lanes": 8,
    "stages": 1,
    "token columns": 16,
    "layers": 2,
    "vocabulary": 64,
}


def run(axes: tuple[Axis, ...] = AXES) -> list:
    """Rows as in ``measuring.result``; ``points`` holds what a figure needs."""
    rows = []
    for axis in axes:
        rows += _axis(axis)
    return [*rows, _compilations()]


def _axis(axis):
    calls, memory = [], []
    for value in axis.values:
        program = program_of(**{**BASE, axis.name: value})
        state, dispatch = workloads.compiled_ticks(program, num_ticks=TICKS)
        calls.append(workloads.going_on(state, dispatch))
        memory.append(dispatch.memory_analysis().temp_size_in_bytes / 2**20)
    timings = take_turns(calls, repeats=REPEATS)
    seconds = [timing.median / TICKS for timing in timings]
    points = {
        "values": list(axis.values),
        "seconds": seconds,
        "mebibytes": memory,
        "memory_exponent": exponent(axis.values, memory),
    }
    first, last = axis.values[0], axis.values[-1]
    of = f"{axis.name} {first} .. {last}"
    return [
        result(
            "scaling",
            f"exponent of time, {of}",
            exponent(axis.values, seconds),
            "exponent",
            spread=max(timing.spread for timing in timings),
            reference="linear",
            reference_value=1.0,
            lower_is_better=True,
        )
        | {"points": points},
        result(
            "scaling",
            f"exponent of temporary memory, {of}",
            points["memory_exponent"],
            "exponent",
            reference="linear",
            reference_value=1.0,
            lower_is_better=True,
        ),
    ]


def exponent(sizes, values) -> float:
    """Slope of the least-squares line through log values over log sizes."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def program_of(**sizes: int) -> tick.Program:
    """A tick whose lanes all write one stage and whose rows are all learnt from."""
    environment = TrivialEnvironment(
        num_stages=sizes["stages"],
        action_width=sizes["token columns"],
        vocabulary_size=sizes["vocabulary"],
    )
    decoder = dict(workloads.SMALL_DECODER, num_layers=sizes["layers"])
    return workloads.program_on(
        environment, tuple(decoder.items()), groups=sizes["lanes"], members=8
    )


def _compilations():
    """How often a tick is compiled while texts end wherever they like."""
    environment = TrivialEnvironment(
        num_stages=2, action_width=16, vocabulary_size=8, ends_early=True
    )
    decoder = tuple(dict(workloads.SMALL_DECODER, num_layers=1).items())
    program = workloads.program_on(environment, decoder, groups=2, members=2)
    key = jax.random.key(0)
    state = jax.jit(lambda k: tick.init(program, program.policy.init(k), k))(key)
    traced = []

    @jax.jit
    def step(state):
        traced.append(state.tick)
        return tick.tick(program, state)

    lengths = set()
    for _ in range(8):
        state, metrics = step(state)
        lengths.add(int(metrics["tokens_written"]))
    row = result(
        "scaling",
        "compilations of a tick, texts of any length",
        len(traced),
        "compilations",
        reference="one",
        reference_value=1.0,
        lower_is_better=True,
    )
    if len(lengths) < 2:
        raise RuntimeError(f"texts of one length alone: {lengths}")
    return row
