"""Where a run lives: blocks of lanes over the devices of a mesh, by jit or by pmap.

The mesh has two axes. Blocks of lanes are split over both, so a group never straddles
devices; the matrices of the learner (parameters, moments, reference) are split over
``fsdp`` and gathered where they are used. What travels between dispatches, and into a
checkpoint, is the *logical* state: one array per field, the same for every layout.

Under ``jit`` the compiler splits one program by the shardings of its arguments. Under
``pmap`` every device runs the program on its own blocks and sums what must be summed.
"""

import dataclasses
import functools
import time

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from agentic_grpo.training import leaves, tick

PARALLELISMS = ("jit", "pmap")
AXES = ("data", "fsdp")


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a run is spread over devices; made by ``make_layout``.

    Attributes:
      mesh: axes ``data`` and ``fsdp``.
      parallelism: one of ``PARALLELISMS``.
    """

    mesh: Mesh
    parallelism: str

    @property
    def blocks(self) -> NamedSharding:
        """Of arrays whose leading axis is split over all devices."""
        return NamedSharding(self.mesh, PartitionSpec(AXES))

    @property
    def everywhere(self) -> NamedSharding:
        """Of arrays that every device holds whole."""
        return NamedSharding(self.mesh, PartitionSpec())

    def shardings(self, state: tick.TrainState) -> tick.TrainState:
        """The sharding of each leaf of a state, or of its shapes."""

        def all_of(tree, sharding):
            return jax.tree.map(lambda _: sharding, tree)

        return tick.TrainState(
            learner=jax.tree.map(self._of_weights, state.learner),
            table=all_of(state.table, self.blocks),
            lanes=all_of(state.lanes, self.blocks),
            credit=all_of(state.credit, self.everywhere),
            key=self.everywhere,
            tick=self.everywhere,
        )

    def abstract(self, shapes: tick.TrainState) -> tick.TrainState:
        """Shapes with their shardings: what a checkpoint is restored into."""
        return jax.tree.map(
            lambda leaf, sharding: jax.ShapeDtypeStruct(
                leaf.shape, leaf.dtype, sharding=sharding
            ),
            shapes,
            self.shardings(shapes),
        )

    def place_everywhere(self, tree):
        """A tree that every process holds, as arrays that every device holds whole."""
        return jax.tree.map(lambda leaf: leaves.place(leaf, self.everywhere), tree)

    def spread(self, policy, environment):
        """The same policy and environment, told to use the devices under ``jit``.

        Rows and lanes are split over the devices wherever their number allows it, and
        weights are gathered first, so that what is computed follows the data.
        """
        if self.mesh.size == 1:
            return policy, environment
        policy = policy._replace(
            sample=self._with_whole_weights(policy.sample),
            score=self._with_whole_weights(policy.score),
        )
        return policy, _SpreadEnvironment(environment, self._split)

    def _with_whole_weights(self, function):
        def of_split_rows(params, *arrays, **options):
            params = jax.lax.with_sharding_constraint(params, self.everywhere)
            return function(params, *map(self._split, arrays), **options)

        return of_split_rows

    def _split(self, tree):
        """Splits leading axes that the number of devices divides; traced code only."""

        def split(array):
            if array.shape[0] % self.mesh.size:
                return array
            return jax.lax.with_sharding_constraint(array, self.blocks)

        return jax.tree.map(split, tree)

    def _of_weights(self, leaf):
        """A matrix is split along its longest axis that ``fsdp`` divides."""
        fsdp = self.mesh.shape["fsdp"]
        fitting = [axis for axis, size in enumerate(leaf.shape) if size % fsdp == 0]
        if fsdp == 1 or len(leaf.shape) < 2 or not fitting:
            return self.everywhere
        longest = max(fitting, key=lambda axis: leaf.shape[axis])
        return NamedSharding(self.mesh, PartitionSpec(*[None] * longest, "fsdp"))


class _SpreadEnvironment:
    """An environment whose arguments are split over the devices."""

    def __init__(self, environment, split):
        self.spec = environment.spec
        self._environment = environment
        self._split = split

    def start(self, keys, **options):
        return self._environment.start(self._split(keys), **options)

    def step(self, *arguments):
        return self._environment.step(*map(self._split, arguments))


def make_layout(*, parallelism="jit", data=1, fsdp=1, num_blocks=1) -> Layout:
    """A layout over the first ``data * fsdp`` devices.

    Args:
      parallelism: one of ``PARALLELISMS``.
      data: devices that hold different blocks and the same weights; 0: as many as
        there are, divided by ``fsdp``.
      fsdp: devices that hold different blocks and share one copy of the weights.
      num_blocks: B of the whole run.

    Raises:
      ValueError: names the field ``devices.*``, the numbers and the rule.
    """
    if parallelism not in PARALLELISMS:
        raise ValueError(
            f"devices.parallelism={parallelism!r} must be one of "
            f"{', '.join(PARALLELISMS)}"
        )
    for name, size, least in (("data", data, 0), ("fsdp", fsdp, 1)):
        if size < least:
            raise ValueError(f"devices.{name}={size} must be at least {least}")
    processes, present = jax.process_count(), len(jax.devices())
    if data == 0:
        data = max(present // fsdp, 1)
    wanted = data * fsdp
    numbers = f"devices.data={data} x devices.fsdp={fsdp} = {wanted}"
    if parallelism == "pmap" and fsdp > 1:
        raise ValueError(
            f"devices.fsdp={fsdp} must be 1 with devices.parallelism='pmap', whose "
            "devices each hold all weights"
        )
    if parallelism == "pmap" and processes > 1:
        raise ValueError(
            f"devices.parallelism='pmap' must be 'jit' in a job of {processes} "
            "processes"
        )
    if wanted > present:
        raise ValueError(f"{numbers} must be at most the number of devices, {present}")
    if processes > 1 and wanted != present:
        raise ValueError(
            f"{numbers} must be the number of devices of all {processes} processes, "
            f"{present}"
        )
    if num_blocks % wanted:
        raise ValueError(
            f"rollout.num_blocks={num_blocks} must be a multiple of the number of "
            f"devices, {numbers}, of {present} present"
        )
    mesh = jax.make_mesh(
        (data, fsdp), AXES, (AxisType.Auto,) * 2, devices=jax.devices()[:wanted]
    )
    return Layout(mesh, parallelism)


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
      (dispatch: (state) -> (state, stacked metrics, ``tick.Refused``), which donates
      its state; seconds).
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
    axes = tick.TrainState(
        learner=None, table=0, lanes=0, credit=None, key=None, tick=None
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
        table, lanes = jax.tree.map(reshape, (state.table, state.lanes))
        return dataclasses.replace(state, table=table, lanes=lanes)

    def split(state):
        return change_blocks(state, lambda x: x.reshape(devices, -1, *x.shape[1:]))

    def join(state):
        return change_blocks(state, lambda x: x.reshape(-1, *x.shape[2:]))

    shardings = layout.shardings(target)
    split = jax.jit(split, out_shardings=shardings, donate_argnums=0)
    join = jax.jit(join, out_shardings=shardings, donate_argnums=0)
    compiled = mapped.lower(jax.eval_shape(split, target)).compile()

    def dispatch(state):
        state, metrics, refused = compiled(split(state))
        return join(state), metrics, refused

    return dispatch


def first_state(layout: Layout, program: tick.Program, params, key) -> tick.TrainState:
    """The state before the first tick, placed.

    Args:
      layout: where to.
      program: what the tick is made of.
      params: of process 0; those of other processes are not used.
      key: of the run, equal in all processes.
    """
    if jax.process_count() > 1:
        params = multihost_utils.broadcast_one_to_all(params)
    params, key = layout.place_everywhere((params, key))

    def init(params, key):
        # A leaf that is only passed on would share its buffer with the caller's.
        return tick.init(program, jax.tree.map(jnp.copy, params), key)

    shardings = layout.shardings(jax.eval_shape(init, params, key))
    return jax.jit(init, out_shardings=shardings)(params, key)
