"""A run on the real clock: compiled, its journal opened, its source of news chosen."""

import contextlib
import itertools
import pathlib
import time
from collections.abc import Callable

import jax

from agentic_grpo.training.devices import Layout
from agentic_grpo.training.real_clock import clock, exchange, pieces, sources
from agentic_grpo.training.real_clock.journal import FILE_NAME, read
from experiments.config import real_clock
from experiments.config.build import Experiment
from experiments.config.checks import require


def check(config, folder: pathlib.Path) -> None:
    """Raises a ValueError if a run would play its own journal while it writes it."""
    replayed = real_clock.replayed(config)
    if config.rollout.clock == real_clock.REAL and replayed is not None:
        require(
            replayed.resolve() != (folder / FILE_NAME).resolve(),
            f"{real_clock.PATH}.replay",
            str(replayed),
            "the journal of another workdir: this one is written anew",
        )


def compile_dispatch(
    experiment: Experiment,
    config,
    layout: Layout,
    folder: pathlib.Path,
    state,
    *,
    stop: Callable[[], bool],
    stack: contextlib.ExitStack,
):
    """As ``compiling.compile_dispatch``, for a run that goes on at the state's tick.

    Args:
      experiment: with a real clock.
      config: of it.
      layout: of one device.
      folder: where the journal is.
      state: of the newest checkpoint.
      stop: () -> whether to wait for the host no longer.
      stack: at whose end the journal is closed.

    Returns:
      (dispatch, seconds of compilation).

    Raises:
      JournalError: the journal does not fit the checkpoint.
    """
    program, settings = experiment.program, experiment.real_clock
    first = int(jax.device_get(state.tick))
    books, journal = clock.go_on(folder / FILE_NAME, settings, tick=first)
    stack.enter_context(journal)
    started = time.perf_counter()
    parts = pieces.compile_pieces(layout, program, state, exchange.no_news(program))
    seconds = time.perf_counter() - started
    replayed = real_clock.replayed(config)
    environment = program.environment
    if replayed is not None:
        entries = itertools.islice(read(replayed), first, None)
        source = sources.Replayed(entries, books)
    else:
        source = sources.Host(environment.counter(), environment.spec, books, stop=stop)
        source.submit(books.unanswered(now=source.now))
    run = clock.RealClock(
        program=program,
        pieces=parts,
        settings=settings,
        host=environment.host,
        source=source,
        books=books,
        journal=journal,
        tick=first,
    )

    def dispatch(state):
        return run.dispatch(state, num_ticks=config.ticks_per_dispatch)

    return dispatch, seconds
