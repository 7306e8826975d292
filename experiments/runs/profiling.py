"""Where the time of a tick goes: a profiler trace, and one page that reads it.

The parts of a program are given names (``labelled``) that XLA carries through to every
operation; a trace of the device then says which operation ran when, and adding it up by
name gives generation, environment, credit, forward and backward, optimizer, and what is
left: bookkeeping on the device, and the host. Labels change names, never values.
"""

import contextlib
import dataclasses
import functools
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.training import tick
from experiments.runs import hlo_costs
from experiments.runs.hlo_costs import BOOKKEEPING

#: Parts of a tick, in the order of the page; every label is a ``jax.named_scope``.
GENERATION, ENVIRONMENT, CREDIT = "generation", "environment", "credit"
FORWARD_BACKWARD, OPTIMIZER = "forward_backward", "optimizer"
LABELS = (GENERATION, ENVIRONMENT, CREDIT, FORWARD_BACKWARD, OPTIMIZER)
HOST = "host"

_TITLES = {
    FORWARD_BACKWARD: "forward and backward",
    BOOKKEEPING: "bookkeeping on the device",
    HOST: "host (device idle)",
}
_PEAK_SIZE = 2048


class _LabelledEnvironment:
    """An environment whose operations carry a label."""

    def __init__(self, environment):
        self.spec = environment.spec
        self.start = _scoped(ENVIRONMENT, environment.start)
        self.step = _scoped(ENVIRONMENT, environment.step)


def labelled(program: tick.Program) -> tick.Program:
    """The same program, its operations labelled by the part that they belong to."""
    rule, policy = program.credit_rule, program.policy
    return dataclasses.replace(
        program,
        environment=_LabelledEnvironment(program.environment),
        policy=policy._replace(
            sample=_scoped(GENERATION, policy.sample),
            score=_scoped(FORWARD_BACKWARD, policy.score),
            packed=policy.packed
            and policy.packed._replace(
                score=_scoped(FORWARD_BACKWARD, policy.packed.score)
            ),
        ),
        credit_rule=rule._replace(
            apply=_scoped(CREDIT, rule.apply), update=_scoped(CREDIT, rule.update)
        ),
        optimizer=program.optimizer._replace(
            update=_scoped(OPTIMIZER, program.optimizer.update)
        ),
        learner=dataclasses.replace(
            program.learner,
            objective=_scoped(FORWARD_BACKWARD, program.learner.objective),
        ),
    )


@contextlib.contextmanager
def names_kept():
    """Within it the compile cache tells programs apart by the names of operations, too.

    Else a labelled program is answered with its twin that has no labels.
    """
    before = jax.config.jax_compilation_cache_include_metadata_in_key
    jax.config.update("jax_compilation_cache_include_metadata_in_key", True)
    try:
        yield
    finally:
        jax.config.update("jax_compilation_cache_include_metadata_in_key", before)


def _scoped(label, function):
    @functools.wraps(function)
    def call(*arguments, **options):
        with jax.named_scope(label):
            return function(*arguments, **options)

    return call


@dataclasses.dataclass(frozen=True, kw_only=True)
class Breakdown:
    """What some dispatches took.

    Attributes:
      ticks: traced.
      wall_seconds: from the first dispatch to the end of the last, host included.
      seconds: {part: of wall time}; the parts sum to ``wall_seconds``.
      flops: {part: in matrix products, as executed}.
      written, trained: tokens that were sampled, and that had a gradient.
      peak_flops: per second, of a square matrix product in the same run.
    """

    ticks: int
    wall_seconds: float
    seconds: dict[str, float]
    flops: dict[str, float]
    written: float
    trained: float
    peak_flops: float

    def utilisation(self, *parts: str) -> float:
        """Executed matrix products of the parts over what their time could hold."""
        seconds = sum(self.seconds.get(part, 0.0) for part in parts)
        flops = sum(self.flops.get(part, 0.0) for part in parts)
        return flops / (seconds * self.peak_flops) if seconds else 0.0

    def share(self, part: str) -> float:
        """Of wall time, in [0, 1]."""
        return self.seconds.get(part, 0.0) / self.wall_seconds


class Profiler:
    """Traces some dispatches of a run and writes ``profile.md`` beside the trace.

    A context manager: leaving it ends a trace that is still going on, as when the run
    is shorter than was to be traced.

    Args:
      folder: for the trace and the page.
      dispatch: a compiled executable, (state) -> (state, stacked metrics, ...).
      ticks_per_dispatch: of it.
      first: dispatches to let pass, which warm up.
      count: dispatches to trace.
    """

    def __init__(
        self, folder: pathlib.Path, dispatch, *, ticks_per_dispatch, first=1, count=2
    ):
        self._folder = folder
        self._compiled = dispatch
        self._ticks_per_dispatch = ticks_per_dispatch
        self._first, self._last = first, first + count
        self._calls = 0
        self._started = None
        self._metrics = []
        self._costs = hlo_costs.of_program(dispatch.as_text(), LABELS)
        self._peak = 0.0
        self.breakdown: Breakdown | None = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._started is not None:
            self._stop(self._metrics)

    def dispatch(self, state):
        """As the executable, for ``loop.Hooks``."""
        with jax.transfer_guard("allow"):
            if self._calls == self._last and self._started is not None:
                self._stop(state)
            if self._calls == self._first:
                jax.block_until_ready(state)
                self._start()
        self._calls += 1
        state, metrics, *rest = self._compiled(state)
        if self._started is not None:
            self._metrics.append(metrics)
        return state, metrics, *rest

    def _start(self):
        self._peak = peak_flops()
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        jax.profiler.start_trace(self._folder / "trace", profiler_options=options)
        self._started = time.perf_counter()

    def _stop(self, last):
        jax.block_until_ready(last)
        wall = time.perf_counter() - self._started
        self._started = None
        jax.profiler.stop_trace()
        seconds, flops = hlo_costs.attribute(
            _newest_trace(self._folder / "trace"), self._costs
        )
        seconds[HOST] = max(wall - sum(seconds.values()), 0.0)
        metrics = jax.device_get(self._metrics)
        self.breakdown = Breakdown(
            ticks=len(metrics) * self._ticks_per_dispatch,
            wall_seconds=wall,
            seconds=seconds,
            flops=flops,
            written=_total(metrics, "tokens_written"),
            trained=_total(metrics, "gradient_tokens"),
            peak_flops=max(self._peak, peak_flops()),  # one may meet a busy machine
        )
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "profile.md").write_text(page(self.breakdown))
        self._metrics = []


def _newest_trace(folder):
    return max(folder.rglob("*.xplane.pb"), key=lambda path: path.stat().st_mtime)


def _total(metrics, name):
    return float(sum(np.sum(m[name]) for m in metrics))


def peak_flops(repeats: int = 5) -> float:
    """Floating-point operations per second of a float32 matrix product of 2048^3."""
    square = jnp.ones((_PEAK_SIZE, _PEAK_SIZE), jnp.float32)
    product = jax.jit(jnp.matmul).lower(square, square).compile()
    best = np.inf
    for _ in range(1 + repeats):
        started = time.perf_counter()
        product(square, square).block_until_ready()
        best = min(best, time.perf_counter() - started)
    return 2.0 * _PEAK_SIZE**3 / best


@contextlib.contextmanager
def profiled(folder, dispatch, *, ticks_per_dispatch, enabled):
    """The ``dispatch`` of ``loop.Hooks``: traced where ``enabled``, else as it is."""
    if not enabled:
        yield dispatch
        return
    with Profiler(folder, dispatch, ticks_per_dispatch=ticks_per_dispatch) as profiler:
        yield profiler.dispatch


def page(breakdown: Breakdown) -> str:
    """The breakdown as one page of Markdown."""
    b = breakdown
    lines = [
        "# Profile",
        "",
        f"{b.ticks} ticks in {b.wall_seconds:.3f} s: {b.ticks / b.wall_seconds:.2f} "
        f"ticks/s, {b.written / b.wall_seconds:,.0f} tokens written and "
        f"{b.trained / b.wall_seconds:,.0f} tokens trained per second.",
        "",
        "| part | ms per tick | share | GFLOP per tick | FLOP utilisation |",
        "|---|---:|---:|---:|---:|",
    ]
    for part in (*LABELS, BOOKKEEPING, HOST):
        lines.append(
            f"| {_TITLES.get(part, part)} "
            f"| {1e3 * b.seconds.get(part, 0.0) / b.ticks:.2f} "
            f"| {100 * b.share(part):.1f}% "
            f"| {b.flops.get(part, 0.0) / b.ticks / 1e9:.3f} "
            f"| {100 * b.utilisation(part):.1f}% |"
        )
    model = GENERATION, FORWARD_BACKWARD, OPTIMIZER
    everything = (*LABELS, BOOKKEEPING, HOST)
    lines += [
        "",
        f"Peak: {b.peak_flops / 1e9:,.1f} GFLOP/s, a float32 matrix product of "
        f"{_PEAK_SIZE} x {_PEAK_SIZE} in this run. Of it, generation and learner use "
        f"{100 * b.utilisation(*model):.1f}%, the whole run "
        f"{100 * b.utilisation(*everything):.1f}%. FLOP are those of the matrix "
        "products that were executed, padding included; of tokens, only real ones "
        "count. The trace itself slows a tick of many small operations down.",
        "",
        "The trace is in `trace/`; TensorBoard and Perfetto open it.",
        "",
    ]
    return "\n".join(lines)
