"""Suite end_to_end: the tick in one program, from a Python loop, and a whole study run.

* the whole job at a small size: what ``benchmark_peers`` compares with TRL; it lives on
  a device per processor, and on one device of all processors beside that;
* the quickstart: ticks per second, episodes per second, FLOP utilisation;
* both driven stage by stage from a Python loop that waits for each part: the same
  ticks, since the first ticks of a run have fewer rewards to learn from;
* the quickstart with the learner's short rows packed and as they are, and with a critic
  (a decoder of its own, a head on the policy) and without;
* one run of a study, 200 ticks after a shared warm start, as a user starts it.
"""

import pathlib
import subprocess
import sys
import tempfile
import time

from agentic_grpo.training import compile_cache
from experiments.config import fields
from experiments.config.build import build, build_layout
from experiments.configs import quickstart
from experiments.runs import profiling
from scripts.benchmarks import stage_by_stage, workloads
from scripts.benchmarks.measuring import result, take_turns

REPEATS = 5
TICKS = 5
PACKED_ROWS = 8
STUDY_TICKS = 200
ROOT = pathlib.Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "experiments" / "configs" / "quickstart.py"


def run(
    sizes: workloads.Sizes = workloads.FULL,
    *,
    config=None,
    ticks: int = TICKS,
    study: bool = True,
) -> list:
    """Rows as in ``measuring.result``.

    Args:
      sizes: of the whole job at a small size.
      config: of the default tick; the quickstart's if None.
      ticks: per dispatch.
      study: also time a study run: some minutes.
    """
    config = config or quickstart.get_config()
    program = build(config).program
    rows = [
        *_ticks(
            "small job", workloads.job_program(sizes), workloads.job_layout(), ticks
        ),
        *_ticks("default model", program, build_layout(config, program), ticks),
        _compared(
            config,
            ticks,
            f"with {PACKED_ROWS} packed rows at a time",
            {"learner.packed_rows": PACKED_ROWS},
            reference="rows as they are",
            reference_changes={"learner.packed_rows": 0},
        ),
        *(
            _compared(
                config,
                ticks,
                f"with a critic, {kind}",
                {"algorithm.signal": "critic", "critic.kind": kind},
                reference="stage rewards, no critic",
                reference_changes={},
            )
            for kind in ("decoder", "head")
        ),
    ]
    return [*rows, _study()] if study else rows


def _ticks(name, program, layout, ticks):
    """Speed of a program's ticks: on its devices, on one of them, and from Python."""
    alone = "ticks on one device of all processors"
    driven = "stage by stage from a Python loop"
    calls = {"ticks": workloads.dispatch_of(program, num_ticks=ticks, layout=layout)}
    if layout.mesh.size > 1:
        calls[alone] = workloads.dispatch_of(program, num_ticks=ticks)
    calls[driven] = stage_by_stage.loop_of(program, num_ticks=ticks)
    timings = take_turns(list(calls.values()), repeats=REPEATS)
    rates = dict(zip(calls, (timing.rate(ticks) for timing in timings), strict=True))
    rows = [
        result(
            "end_to_end",
            f"{name}, {what}",
            rate,
            "ticks/s",
            spread=spread,
            reference=None if what == driven else f"the same, {driven}",
            reference_value=None if what == driven else rates[driven][0],
        )
        for what, (rate, spread) in rates.items()
    ]
    per_second, spread = rates["ticks"]
    settings = program.rollout
    episodes = (
        settings.decode_slots
        * program.num_blocks
        * settings.num_members
        / program.environment.spec.layout.num_stages
    )
    breakdown = _breakdown(program, layout, ticks)
    flops = sum(breakdown.flops.values()) / breakdown.ticks
    model = profiling.GENERATION, profiling.FORWARD_BACKWARD, profiling.OPTIMIZER
    return [
        *rows,
        result(
            "end_to_end",
            f"{name}, episodes",
            per_second * episodes,
            "episodes/s",
            spread=spread,
        ),
        result(
            "end_to_end",
            f"{name}, FLOP utilisation of the whole tick, not traced",
            100.0 * flops * per_second / breakdown.peak_flops,
            "percent",
            spread=spread,
        ),
        result(
            "end_to_end",
            f"{name}, FLOP utilisation of generation and learner, traced",
            100.0 * breakdown.utilisation(*model),
            "percent",
        ),
        *(
            result(
                "end_to_end",
                f"{name}, share of {part}",
                100.0 * breakdown.share(part),
                "percent",
            )
            for part in (*profiling.LABELS, profiling.BOOKKEEPING, profiling.HOST)
        ),
    ]


def _compared(config, ticks, name, changes, *, reference, reference_changes):
    """A tick of a config changed in one way against the same in another, in turns.

    From a random policy: its texts are long, so packing gains the least that there is.
    What a critic costs does not depend on what has settled: it learns at every tick.
    """
    calls = []
    for each in (changes, reference_changes):
        own = fields.change(config, each)
        program = build(own).program
        layout = build_layout(own, program)
        calls.append(workloads.dispatch_of(program, num_ticks=ticks, layout=layout))
    ours, plain = take_turns(calls, repeats=REPEATS)
    speed, spread = ours.rate(ticks)
    return result(
        "end_to_end",
        f"default model, ticks {name}",
        speed,
        "ticks/s",
        spread=spread + plain.spread,
        reference=reference,
        reference_value=plain.rate(ticks)[0],
    )


def _breakdown(program, layout, ticks) -> profiling.Breakdown:
    """Of a few dispatches of a run from its first tick."""
    with profiling.names_kept():
        state, dispatch = workloads.compiled_ticks(
            profiling.labelled(program), num_ticks=ticks, layout=layout
        )
    with tempfile.TemporaryDirectory() as folder:
        profiler = profiling.Profiler(
            pathlib.Path(folder), dispatch, ticks_per_dispatch=ticks
        )
        with profiler:
            for _ in range(3):
                state, *_ = profiler.dispatch(state)
        return profiler.breakdown


def _study():
    """Seconds of a study run; a first one makes what runs share, and is not timed."""
    shared = compile_cache.default_directory().parent / "base_models"
    with tempfile.TemporaryDirectory() as folder:
        for name in ("first", "timed"):
            command = [
                sys.executable,
                "-m",
                "experiments.train",
                f"--config={QUICKSTART}",
                f"--workdir={pathlib.Path(folder) / name}",
                f"--warm_start_cache={shared}",
                f"--config.num_ticks={STUDY_TICKS}",
            ]
            started = time.perf_counter()
            subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
            seconds = time.perf_counter() - started
    return result(
        "end_to_end", f"study run, {STUDY_TICKS} ticks after a warm start", seconds, "s"
    )
