"""Suite environment: the simulated machine, and what the environment costs a tick.

The machine runs what a training tick gives it: programs of a scripted agent on the
suites of their groups. Beside it the same jobs run on ``plain_machine``, in Python and,
where there is an environment with Numba, compiled by it for all cores.
"""

import functools
import json
import pathlib
import subprocess
import tempfile

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.envs.code_execution.vm import interpreter
from agentic_grpo.lanes import RolloutSettings
from experiments.config.build import Experiment, build
from experiments.configs import default
from scripts.benchmarks import plain_machine, virtual_environments, workloads
from scripts.benchmarks.measuring import result, take_turns

REPEATS = 7
LANES = (64, 256, 1024, 4096)
PLAIN_JOBS = 4096
TICKS = 5
WORKER = pathlib.Path(__file__).parent / "workers" / "numba_machine.py"


def run(*, lanes=LANES, config=None, numba_folder: pathlib.Path | None = None) -> list:
    """Rows as in ``measuring.result``.

    Args:
      lanes: groups that the environment executes at once, ascending.
      config: of the tick; the default experiment if None.
      numba_folder: virtual environments of the benchmark; None skips Numba.
    """
    experiment = build(config or default.get_config())
    stages = [_played(experiment, count) for count in lanes]
    return [
        *_machine(experiment, stages[-1], numba_folder),
        *_throughput(experiment, lanes, stages),
        _share_of_tick(experiment),
    ]


def _machine(experiment, played, numba_folder):
    """Programs per second of the machine and of the same machine written plainly."""
    jobs = _jobs(experiment, played)
    few = [part[:PLAIN_JOBS].tolist() for part in jobs]
    compiled = jax.jit(interpreter.run).lower(*jobs).compile()
    batched, plain = take_turns(
        [lambda: compiled(*jobs), functools.partial(_run_plainly, *few)],
        repeats=REPEATS,
    )
    number = jobs[2].shape[0]
    speed, spread = batched.rate(number)
    plain_speed, _ = plain.rate(len(few[2]))
    name = f"programs executed, {number} jobs"
    rows = [
        result(
            "environment",
            name,
            speed,
            "programs/s",
            spread=spread,
            reference="the same machine in plain Python",
            reference_value=plain_speed,
        )
    ]
    python = numba_folder and virtual_environments.python_of("numba", numba_folder)
    if python is None:
        print("environment: no virtual environment with Numba, so it is left out")
        return rows
    return [
        *rows,
        result(
            "environment",
            f"{name}, beside Numba",
            speed,
            "programs/s",
            spread=spread,
            reference="the same machine compiled by Numba, all cores",
            reference_value=number / _numba_seconds(python, jobs),
        ),
    ]


def _run_plainly(programs, inputs, fuel):
    for program, (n, m), allowed in zip(programs, inputs, fuel, strict=True):
        plain_machine.run(program, n, m, allowed)


def _numba_seconds(python, jobs) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "jobs.npz"
        np.savez(path, programs=jobs[0], inputs=jobs[1], fuel=jobs[2])
        done = subprocess.run(
            [python, WORKER, path, str(REPEATS)],
            capture_output=True,
            text=True,
            check=True,
        )
    return json.loads(done.stdout)["seconds"]


def _played(experiment: Experiment, lanes: int):
    """Groups after the stage before the last, and what the agent writes in the last.

    Returns:
      The arguments of ``Environment.step``.
    """
    environment, agent = experiment.program.environment, experiment.agent
    members = experiment.program.rollout.num_members
    last = environment.spec.layout.num_stages - 1

    @jax.jit
    def play(key):
        keys = jax.random.split(key, lanes)
        start = environment.start(keys, split="train", num_members=members)
        state, acting = start.state, jnp.ones((lanes, members), bool)
        for stage in range(last + 1):
            at = jnp.full((lanes,), stage, jnp.int32)
            now = jax.vmap(jax.random.fold_in, (0, None))(keys, stage)
            arguments = state, at, *agent(state, at, now), acting, now
            if stage < last:
                state = environment.step(*arguments).state
        return arguments

    return play(jax.random.key(0))


def _jobs(experiment, played):
    """Jobs as a step makes them: each member's program on all tests of its group."""
    state = played[0]
    programs, tests = state.members.program, state.suites
    shape = *programs.shape[:2], tests.fuel.shape[1]
    programs = np.broadcast_to(programs[:, :, None], (*shape, programs.shape[2]))
    inputs = np.broadcast_to(tests.inputs[:, None], (*shape, 2))
    fuel = np.broadcast_to(tests.fuel[:, None], shape)
    return (
        programs.reshape(-1, programs.shape[3]),
        inputs.reshape(-1, 2),
        fuel.reshape(-1),
    )


def _throughput(experiment, lanes, stages):
    """A whole step of the environment, for growing numbers of lanes."""
    step = jax.jit(experiment.program.environment.step)
    timings = take_turns(
        [functools.partial(step, *arguments) for arguments in stages], repeats=REPEATS
    )
    speeds = [timing.rate(n) for n, timing in zip(lanes, timings, strict=True)]
    first = max(speed for speed, _ in speeds)
    return [
        result(
            "environment",
            f"environment step, {count} lanes",
            speed,
            "lanes/s",
            spread=spread,
            reference="the best of these numbers of lanes",
            reference_value=first,
        )
        for count, (speed, spread) in zip(lanes, speeds, strict=True)
    ]


def _share_of_tick(experiment):
    """What a tick's lanes cost the environment, as a share of the whole tick.

    Numerator: drawing problems for all slots and executing the last stage, which ends
    every episode and so costs the most. Denominator: the tick as it is trained.
    """
    program = experiment.program
    settings: RolloutSettings = program.rollout
    slots = settings.decode_slots * program.num_blocks
    step = jax.jit(program.environment.step)
    start = jax.jit(
        functools.partial(
            program.environment.start,
            split=settings.split,
            num_members=settings.num_members,
        )
    )
    arguments, keys = (
        _played(experiment, slots),
        jax.random.split(jax.random.key(1), slots),
    )
    tick = workloads.dispatch_of(program, num_ticks=TICKS)
    works, ticks = take_turns(
        [lambda: (start(keys), step(*arguments)), tick], repeats=REPEATS
    )
    return result(
        "environment",
        "environment_share_of_tick",
        100.0 * works.median / (ticks.median / TICKS),
        "percent",
        spread=works.spread + ticks.spread,
    )
