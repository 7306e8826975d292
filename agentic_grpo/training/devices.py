"""Where a run lives: blocks of lanes over the devices of a mesh.

The mesh has two axes. Blocks of lanes are split over both, so a group never straddles
devices; the matrices of the learner (parameters, moments, reference) are split over
``fsdp`` and gathered where they are used. What travels between dispatches, and into a
checkpoint, is the *logical* state: one array per field, the same for every layout.

How a tick is compiled for them is in ``compiling``.
"""

import contextlib
import dataclasses
import os

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from agentic_grpo.errors import require, require_choice
from agentic_grpo.training import host, leaves, tick

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

        def of_field(name):
            tree = getattr(state, name)
            if name == "learner":
                return jax.tree.map(self._of_weights, tree)
            sharding = self.blocks if name in tick.PER_BLOCK else self.everywhere
            return jax.tree.map(lambda _: sharding, tree)

        names = [field.name for field in dataclasses.fields(state)]
        return tick.TrainState(**{name: of_field(name) for name in names})

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
        there are and as share the blocks evenly, divided by ``fsdp``.
      fsdp: devices that hold different blocks and share one copy of the weights.
      num_blocks: B of the whole run.

    Raises:
      ValueError: names the field ``devices.*``, the numbers and the rule.
    """
    require_choice("devices.parallelism", parallelism, PARALLELISMS)
    for name, size, least in (("data", data, 0), ("fsdp", fsdp, 1)):
        require(size >= least, f"devices.{name}", size, f"at least {least}")
    processes, present = jax.process_count(), len(jax.devices())
    if data == 0:
        data = present // fsdp if processes > 1 else _share(present, fsdp, num_blocks)
    wanted = data * fsdp
    numbers = f"devices.data={data} x devices.fsdp={fsdp} = {wanted}"
    if parallelism == "pmap":
        rule = "1 with devices.parallelism='pmap', whose devices each hold all weights"
        require(fsdp == 1, "devices.fsdp", fsdp, rule)
        rule = f"'jit' in a job of {processes} processes"
        require(processes == 1, "devices.parallelism", parallelism, rule)
    if wanted > present:
        raise ValueError(f"{numbers} must be at most the number of devices, {present}")
    if processes > 1 and wanted != present:
        raise ValueError(
            f"{numbers} must be the number of devices of all {processes} processes, "
            f"{present}"
        )
    require(
        num_blocks % wanted == 0,
        "rollout.num_blocks",
        num_blocks,
        f"a multiple of the number of devices, {numbers}, of {present} present",
    )
    mesh = jax.make_mesh(
        (data, fsdp), AXES, (AxisType.Auto,) * 2, devices=jax.devices()[:wanted]
    )
    return Layout(mesh, parallelism)


def _share(present, fsdp, num_blocks):
    """The most copies of the weights, of ``fsdp`` devices, that share all blocks."""
    possible = range(1, present // fsdp + 1)
    return max((n for n in possible if num_blocks % (n * fsdp) == 0), default=1)


def split_cpu(*, data=1, fsdp=1, num_blocks=1) -> None:
    """Makes the CPU as many devices as a layout wants; to be called before JAX starts.

    So every layout can be tried without an accelerator. Does nothing where the
    environment says how many devices there are, nor to accelerators; numbers that do
    not fit are left for ``make_layout`` to refuse.

    Args:
      data: as in ``make_layout``; 0: as many as there are processors.
      fsdp: as there.
      num_blocks: as there.
    """
    told = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    number = jax.config.jax_num_cpu_devices  # type: ignore[attr-defined]  # not in stub
    told = told or number > 0
    if told or data < 0 or fsdp < 1:
        return
    data = data or _share(host.cpu_threads(), fsdp, num_blocks)
    if data * fsdp > 1 and num_blocks % (data * fsdp) == 0:
        with contextlib.suppress(RuntimeError):  # JAX has started, with what there is
            jax.config.update("jax_num_cpu_devices", data * fsdp)


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
