"""Compiling a run's programs for the devices at hand."""

import functools
import time

import jax

from agentic_grpo.training import tick


def compile_dispatch(program: tick.Program, state: tick.TrainState, *, num_ticks):
    """Compiles ``num_ticks`` ticks ahead of time.

    Compiling ahead makes "one compilation per run" true by construction: a state of
    another shape is an error, not a second compilation.

    Args:
      program: what the tick is made of.
      state: arrays or shapes of a ``TrainState``.
      num_ticks: ticks per dispatch.

    Returns:
      (dispatch: (state) -> (state, stacked metrics), which donates its state; seconds).
    """
    started = time.perf_counter()
    run = functools.partial(tick.run_ticks, program, num_ticks=num_ticks)
    dispatch = jax.jit(run, donate_argnums=0).lower(state).compile()
    return dispatch, time.perf_counter() - started
