"""From where runs stand to their summaries: the part that one run and several share."""

import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from agentic_grpo.training import devices, evaluation, loop, processes
from agentic_grpo.training import tick as tick_lib
from agentic_grpo.training.progress import Progress
from agentic_grpo.training.recording import Recording


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """How the runs of one program are computed.

    Attributes:
      compile: (state) -> (dispatch, evaluate) of ``loop.Hooks``, compiled.
      test: (params) -> metrics of the test problems, not yet read.
      split: as in ``loop.Hooks``.
    """

    compile: Callable[[Any], tuple[Callable, Callable]]
    test: Callable[[Any], dict]
    split: Callable[[Any], Sequence] = lambda tree: [tree]

    def read(self, metrics) -> list[dict[str, float]]:
        """Waits for an evaluation: the rates of each run."""
        return list(map(evaluation.read, self.split(jax.device_get(metrics))))


def machine_of_one(
    program: tick_lib.Program,
    layout: devices.Layout,
    *,
    curve: evaluation.EvaluationSettings,
    test: evaluation.EvaluationSettings,
    key,
    compile_dispatch: Callable[[Any], Callable],
    waits: bool = False,
) -> Machine:
    """One run, wherever its layout puts it.

    Args:
      program: what the tick is made of.
      layout: where the state lies.
      curve: the evaluation of the learning curve.
      test: the one before and after.
      key: of both.
      compile_dispatch: (state) -> the ``dispatch`` of ``loop.Hooks``.
      waits: for each evaluation, before the next dispatch: the host of both serves one
        at a time.
    """
    policy, environment = layout.spread(program.policy, program.environment)
    key = layout.place_everywhere(key)

    def evaluator(settings):
        def compute(params, key):
            return evaluation.evaluate(policy, params, environment, key, settings)

        return jax.jit(compute, out_shardings=layout.everywhere)

    evaluate_curve, evaluate_test = evaluator(curve), evaluator(test)

    def compile_tick(state):
        dispatch = compile_dispatch(state)
        evaluate = evaluate_curve.lower(state.learner.policy_params, key).compile()
        wait = jax.block_until_ready if waits else lambda rates: rates
        return dispatch, lambda params: wait(evaluate(params, key))

    return Machine(compile=compile_tick, test=lambda params: evaluate_test(params, key))


def go_on(
    recording: Recording,
    machine: Machine,
    settings: loop.LoopSettings,
    progress: Progress,
    stop_requested: threading.Event,
    *,
    target,
    begin: Callable[[], Any],
) -> dict | None:
    """One run, from its newest checkpoint or from its first state, to its summary.

    Args:
      recording: of the run.
      machine: computes.
      settings: of the loop.
      progress: is told.
      stop_requested: set where it should stop, in any process.
      target: as of ``Checkpoints.restore``.
      begin: () -> the first state; None in all processes if it was asked to stop.

    Returns:
      The summary; None if it was asked to stop, and in all processes but the first.

    Raises:
      NonFiniteError, CheckpointError: as ``train``; or no checkpoint is intact.
      ValueError: the checkpoints are of other settings, or gone.
    """
    state = recording.restore(target)
    if state is None:
        state = begin()
    else:
        progress.message(f"goes on from tick {int(state.tick)}")
    if state is None:
        return None

    def stop():
        return processes.any_process(stop_requested.is_set())

    summaries = train(state, machine, settings, {"": recording}, progress, stop)
    return summaries[0] if summaries else None


def train(
    state,
    machine: Machine,
    settings: loop.LoopSettings,
    recordings: dict[str, Recording],
    progress: Progress,
    stop: Callable[[], bool],
) -> list[dict | None] | None:
    """Tests the base models, trains, tests again and writes the summaries.

    Args:
      state: of all runs, which stand at the same tick; donated.
      machine: computes.
      settings: of the loop.
      recordings: of each run, by what messages call it.
      progress: is told.
      stop: () -> whether to end; asked where everything can be saved.

    Returns:
      The summary of each run, None in all processes but the first; or None, if it was
      asked to stop before the end.

    Raises:
      NonFiniteError: runs diverged; the others have their summaries.
      CheckpointError: a checkpoint cannot be written.
    """
    runs = list(recordings.values())
    if any(run.before is None for run in runs):
        _test_base_models(state, machine, runs, progress)
    for run, own in zip(runs, machine.split(state), strict=True):
        run.begin(own)
    tick = int(np.ravel(jax.device_get(state.tick))[0])
    if stop():
        return _stopped(tick, settings, runs, progress)
    dispatch, evaluate = machine.compile(state)
    if tick == 0 and not stop():
        rates = machine.read(evaluate(state.learner.policy_params))
        _write_first_lines(rates, runs, progress)
    hooks = loop.Hooks(
        dispatch=dispatch,
        evaluate=evaluate,
        stop=stop,
        outlets=[run.outlet(name) for name, run in recordings.items()],
        split=machine.split,
        show=lambda tick, lines: progress.update(tick, _average(lines)),
    )
    progress.begin(tick)
    state, finished, diverged = loop.train(state, settings, hooks)
    summaries = None
    if finished:
        after = machine.read(machine.test(state.learner.policy_params))
        going = [index for index in range(len(runs)) if index not in diverged]
        summaries = [runs[index].finish(after[index]) for index in going]
        _tell(runs, after, going, progress)
        _tell_who_was_idle(state, [runs[index] for index in going], going, progress)
    else:
        tick = int(np.ravel(jax.device_get(state.tick))[0])
        _stopped(tick, settings, runs, progress)
    if diverged:
        raise loop.NonFiniteError(" ".join(map(str, diverged.values())))
    return summaries


def _test_base_models(state, machine, runs, progress):
    rates = machine.read(machine.test(state.learner.policy_params))
    for run, own in zip(runs, rates, strict=True):
        run.before = own
    solved = ", ".join(f"{own['solve_rate']:.3f}" for own in rates)
    progress.message(f"base model solves {solved} of the test problems")


def _write_first_lines(rates, runs, progress):
    lines = [{f"eval/{name}": rate for name, rate in own.items()} for own in rates]
    for run, line in zip(runs, lines, strict=True):
        run.write(0, line)
    progress.update(0, _average(lines))


def _average(lines):
    """What is shown of several runs: the mean of what all of them have."""
    names = set.intersection(*map(set, lines))
    return {name: float(np.mean([line[name] for line in lines])) for name in names}


def _tell(runs, after, going, progress):
    for index in going:
        before, rates = runs[index].before, after[index]
        problems = runs[index].settings["evaluation"]["test_problems"]
        progress.message(
            f"solve rate on {problems} test problems: {before['solve_rate']:.3f} "
            f"before, {rates['solve_rate']:.3f} after"
        )


def _tell_who_was_idle(state, runs, going, progress):
    """A run that learnt nothing from start to end looks like one that did."""
    steps = np.atleast_1d(jax.device_get(state.learner.step))
    ticks = int(np.ravel(jax.device_get(state.tick))[0])
    for run, index in zip(runs, going, strict=True):
        if steps[index] == 0:
            progress.message(
                f"{run.folder}: the learner took no step in {ticks} ticks: nothing "
                "that came in told a group's members apart (*/zero_variance_share, "
                "lanes_without_row), or no gradient was finite (not_finite)"
            )


def _stopped(tick, settings, runs, progress):
    folders = ", ".join(str(run.folder) for run in runs)
    progress.message(
        f"stopped at tick {tick} of {settings.num_ticks}, all of it saved in "
        f"{folders}; the same command goes on from there"
    )
