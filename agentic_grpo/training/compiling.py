"""Compiles some ticks of a run for the devices it lives on, by jit or by pmap.

Under ``jit`` the compiler splits one program by the shardings of its arguments. Under
``pmap`` every device runs the program on its own blocks and sums what must be summed.
"""

import dataclasses
import functools
import time
from collections.abc import Callable

import jax

from agentic_grpo.training import tick
from agentic_grpo.training.devices import Layout


def compile_dispatch(
    layout: Layout, program: tick.Program, state: tick.TrainState, *, num_ticks
):
    """Compiles ``num_ticks`` ticks ahead of time.

    Compiling ahead makes "one compilation per run" true by construction: a state of
    another shape or on other devices is an error, not a second compilation.

    Args:
      layout: where the state lies.
      program: what the tick is made of.
      state: arrays or shapes of a ``TrainState``.
      num_ticks: ticks per dispatch.

    Returns:
      (dispatch: (state) -> (state, stacked metrics, ``refusals.Refused``), that donates
      its state and has the program's ``as_text``; seconds).
    """
    started = time.perf_counter()
    compile_for = {"jit": _compile_jit, "pmap": _compile_pmap}[layout.parallelism]
    dispatch = compile_for(layout, program, layout.abstract(state), num_ticks)
    return dispatch, time.perf_counter() - started


def _compile_jit(layout, program, target, num_ticks):
    policy, environment = layout.spread(program.policy, program.environment)
    program = dataclasses.replace(program, policy=policy, environment=environment)
    run = functools.partial(
        tick.run_ticks, program, num_ticks=num_ticks, keep_refused=True
    )
    outputs = (layout.shardings(target), layout.everywhere, None)
    return jax.jit(run, out_shardings=outputs, donate_argnums=0).lower(target).compile()


def _compile_pmap(layout, program, target, num_ticks):
    """Around the ``pmap``, blocks get an axis of devices and lose it again."""
    devices = layout.mesh.size
    run = functools.partial(
        tick.run_ticks,
        program,
        num_ticks=num_ticks,
        axis_name="devices",
        keep_refused=True,
    )
    names = [field.name for field in dataclasses.fields(tick.TrainState)]
    axes = tick.TrainState(
        **{name: 0 if name in tick.PER_BLOCK else None for name in names}
    )
    mapped = jax.pmap(
        run,
        axis_name="devices",
        in_axes=(axes,),
        out_axes=(axes, None, 0),
        devices=list(layout.mesh.devices.flat),
        donate_argnums=0,
    )

    def change_blocks(state, reshape):
        trees = {name: getattr(state, name) for name in tick.PER_BLOCK}
        return dataclasses.replace(state, **jax.tree.map(reshape, trees))

    def split(state):
        return change_blocks(state, lambda x: x.reshape(devices, -1, *x.shape[1:]))

    def join(state):
        return change_blocks(state, lambda x: x.reshape(-1, *x.shape[2:]))

    shardings = layout.shardings(target)
    split = jax.jit(split, out_shardings=shardings, donate_argnums=0)
    join = jax.jit(join, out_shardings=shardings, donate_argnums=0)
    compiled = mapped.lower(jax.eval_shape(split, target)).compile()
    return _PerDevice(split, compiled, join)


@dataclasses.dataclass(frozen=True)
class _PerDevice:
    """A compiled ``pmap`` that takes and gives the logical state."""

    split: Callable
    compiled: jax.stages.Compiled
    join: Callable

    def __call__(self, state):
        state, metrics, refused = self.compiled(self.split(state))
        return self.join(state), metrics, refused

    def as_text(self) -> str | None:
        return self.compiled.as_text()
