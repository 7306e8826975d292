"""Suite real_clock: learning while the judge works, against waiting for him.

One judge who sleeps, one small decoder, the same lanes; both clocks take turns. On the
simulated clock the device waits in each tick for all that it handed in; on the real
one it steps on what has come. Judged episodes per second, and the share of the time in
which somebody was blocked because nothing could be done.
"""

import dataclasses
import pathlib
import tempfile
import time

import jax

from agentic_grpo.envs import simulated_clock
from agentic_grpo.envs.latency import Latency
from agentic_grpo.training import devices, tick
from agentic_grpo.training.real_clock import clock, exchange, pieces, sources
from agentic_grpo.training.real_clock.books import Books
from agentic_grpo.training.real_clock.journal import FILE_NAME, Journal
from agentic_grpo.training.real_clock.settings import RealClockSettings
from scripts.benchmarks import slow_judge, workloads
from scripts.benchmarks.measuring import result

SECONDS, TURNS = 10.0, 2
LANES, MEMBERS, ROWS_PER_LANE = 32, 4, 8


def run(
    sizes: workloads.Sizes = workloads.FULL,
    *,
    lanes: int = LANES,
    seconds: float = SECONDS,
    turns: int = TURNS,
    pace: float = 1.0,
) -> list:
    """Rows as in ``measuring.result``.

    Args:
      sizes: of the decoder.
      lanes: groups in flight.
      seconds: that each clock runs in each of its turns.
      turns: how often each clock runs.
      pace: of the judge: all his seconds are multiplied by it.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        Journal(pathlib.Path(folder) / FILE_NAME) as journal,
    ):
        both = {
            "real clock": _on_real_clock(sizes, lanes, pace, journal),
            "waiting": _on_simulated_clock(sizes, lanes, pace),
        }
        measured = {name: [] for name in both}
        for _ in range(turns):
            for name, (judge, dispatch) in both.items():
                measured[name].append(_measure(judge, dispatch, seconds))
    episodes, idle = (
        {name: [turn[index] for turn in turns] for name, turns in measured.items()}
        for index in (0, 1)
    )
    rows = []
    for values, what, unit, lower in (
        (episodes, "judged episodes", "episodes/s", False),
        (idle, "share of the time blocked", "percent", True),
    ):
        ours, theirs = (_mean(values[name]) for name in ("real clock", "waiting"))
        spread = (max(values["real clock"]) - min(values["real clock"])) / max(
            ours, 1e-9
        )
        rows.append(
            result(
                "real_clock",
                what,
                ours,
                unit,
                spread=spread,
                reference="each tick waits for all of its work",
                reference_value=theirs,
                lower_is_better=lower,
            )
        )
    return rows


def _measure(judge, dispatch, seconds):
    """(judged episodes per second, percent blocked) from a warm start of one call."""
    dispatch()
    judged, waited, started = judge.judged, judge.seconds_waited, time.perf_counter()
    while (passed := time.perf_counter() - started) < seconds:
        dispatch()
    return (
        (judge.judged - judged) / passed,
        100.0 * (judge.seconds_waited - waited) / passed,
    )


def _program(sizes, lanes, judge) -> tick.Program:
    environment = simulated_clock.on_simulated_clock(
        judge,
        stage_latencies=[Latency(minimum=1)] * slow_judge.STAGES,
        verdict_latency=Latency(minimum=1),
    )
    program = workloads.program_on(
        environment, sizes.small_decoder, groups=lanes, members=MEMBERS
    )
    # groups whose verdict is on its way hold rows, and lanes shall not wait for them
    return dataclasses.replace(program, num_rows=ROWS_PER_LANE * lanes)


def _on_simulated_clock(sizes, lanes, pace):
    judge = slow_judge.SlowJudge(pace=pace)
    call = workloads.dispatch_of(_program(sizes, lanes, judge), num_ticks=1)
    return judge, lambda: jax.block_until_ready(call())


def _on_real_clock(sizes, lanes, pace, journal):
    judge = slow_judge.SlowJudge(pace=pace)
    program = _program(sizes, lanes, judge)
    settings = RealClockSettings()
    layout = devices.make_layout(num_blocks=program.num_blocks)
    key = jax.random.key(0)
    params = jax.jit(program.policy.init)(key)
    state = devices.first_state(layout, program, params, key)
    books = Books(settings)
    environment = program.environment
    source = sources.Host(
        environment.counter(), environment.spec, books, stop=lambda: False
    )
    run = clock.RealClock(
        program=program,
        pieces=pieces.compile_pieces(layout, program, state, exchange.no_news(program)),
        settings=settings,
        host=judge,
        source=source,
        books=books,
        journal=journal,
        tick=0,
    )

    def dispatch(state):
        return run.dispatch(state, num_ticks=1)

    return judge, workloads.going_on(state, dispatch)


def _mean(values):
    return sum(values) / len(values)
