"""The base model of a run: pre-trained, or taken from a cache that runs share.

Runs that differ only in what comes after the warm start begin from the same
parameters. A base model is kept under a hash of everything that it depends on:
environment, scripted agent, model, warm start, seed, package versions, and the source
code of all of these.
"""

import functools
import hashlib
import importlib.metadata
import json
import math
import pathlib
import sys
import threading
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from agentic_grpo.training import leaves, locks, warm_start
from agentic_grpo.training.loop import NonFiniteError
from agentic_grpo.training.progress import duration
from experiments.config.build import Experiment
from experiments.runs import starting

#: Fields of an environment that say when something is known, not what. The warm start
#: has no clock, so base models are shared by latencies.
TIMING_FIELDS = ("stage_latency", "latency_of_stage", "verdict_latency")

#: Code that a base model depends on, besides that of its environment and agent.
SOURCES = (
    "agentic_grpo/envs/*.py",
    "agentic_grpo/models/*.py",
    "agentic_grpo/models/pretrained/*.py",
    "agentic_grpo/texts/*.py",
    "agentic_grpo/ops/reductions.py",
    "agentic_grpo/records.py",
    "agentic_grpo/layout.py",
    "agentic_grpo/episodes.py",
    "agentic_grpo/training/warm_start.py",
    "agentic_grpo/training/streams.py",
)

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy")


def first_params(
    experiment: Experiment,
    config: ConfigDict,
    cache: pathlib.Path | None,
    progress,
    stop_requested: threading.Event,
):
    """Parameters after the warm start; None if it was asked to stop before its end.

    Args:
      experiment: as built from the config.
      config: of the run.
      cache: folder of base models; None pre-trains and keeps nothing. Any number of
        runs may use it at the same time: the first pre-trains, the others wait for it.
      progress: its ``message`` is told how the warm start goes.
      stop_requested: set where it should stop.

    Raises:
      NonFiniteError: the warm start diverged; nothing was kept.
      ValueError: a file of the cache cannot be read.
    """
    if config.init_from:
        return starting.first_params(config.init_from, experiment, progress)
    if cache is None or not experiment.warm_start.num_steps:
        return _pretrain(experiment, progress, stop_requested)
    path = cache / f"{key(experiment, config)}.npz"
    cache.mkdir(parents=True, exist_ok=True)
    wait = _Waiting(progress, stop_requested)
    with locks.in_turn(path.with_suffix(".lock"), wait) as ours:
        if not ours:
            return None
        if not path.exists():
            params = _pretrain(experiment, progress, stop_requested)
            if params is None:
                return None
            leaves.dump(params, path)
    progress.message(f"base model: {path}")
    return _read(path, experiment)


class _Waiting:
    """What is done while another run pre-trains: it is told once."""

    def __init__(self, progress, stop_requested):
        self._progress, self._stop_requested = progress, stop_requested
        self._told = False

    def __call__(self) -> bool:
        if not self._told:
            self._told = True
            self._progress.message(
                "waits for another run that pre-trains this base model"
            )
        return self._stop_requested.is_set()


def key(experiment: Experiment, config: ConfigDict) -> str:
    """What a base model is kept under: a hash of all that it depends on.

    Raises:
      ValueError: the code of the environment or of the agent cannot be read.
    """
    env, agent = json.loads(config.env.to_json()), json.loads(config.agent.to_json())
    name = config.env.name
    of_name = env.get(name, {"options": env["options"]})
    fields = {k: v for k, v in of_name.items() if k not in TIMING_FIELDS}
    makers = {type(experiment.program.environment), type(experiment.agent)}
    makers |= set(experiment.makers)
    published = experiment.published
    content = {
        "env": {name: fields},
        "agent": agent.get(name),
        "model": json.loads(config.model.to_json()),
        "warm_start": json.loads(config.warm_start.to_json()),
        "seed": config.seed,
        "packages": {p: importlib.metadata.version(p) for p in PACKAGES},
        "read": [experiment.digest(), published and published.digest],
        "sources": _hash_of(_shared_sources() | _sources_of(*makers - {type(None)})),
    }
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _hash_of(sources):
    """Of {name: file}; by name, so that it does not matter where they lie."""
    digest = hashlib.sha256()
    for name, path in sorted(sources.items()):
        digest.update(name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _shared_sources() -> dict[str, pathlib.Path]:
    return {
        path.relative_to(ROOT).as_posix(): path
        for pattern in SOURCES
        for path in ROOT.glob(pattern)
    }


@functools.cache
def _sources_of(*makers: Callable) -> dict[str, pathlib.Path]:
    """The code that makers come from: all of their package, or their one module.

    Wherever it lies: an environment need not be one of this repository.
    """
    sources = {}
    for maker in makers:
        module = sys.modules[maker.__module__]
        if getattr(module, "__file__", None) is None:
            raise ValueError(
                f"{maker.__name__} has no source file, by which its base model could "
                "be told from those of its former selves; leave out --warm_start_cache"
            )
        package = module.__package__ or ""
        folders = getattr(sys.modules.get(package), "__path__", ())
        for folder in map(pathlib.Path, folders):
            for path in folder.rglob("*.py"):
                sources[f"{package}/{path.relative_to(folder).as_posix()}"] = path
        sources[maker.__module__] = pathlib.Path(module.__file__)
    return sources


def _pretrain(experiment: Experiment, progress, stop_requested):
    program, settings = experiment.program, experiment.warm_start
    params = _untrained(experiment, progress)
    if not settings.num_steps:
        return params
    step = jax.jit(
        functools.partial(
            warm_start.run_steps,
            program.policy,
            experiment.agent,
            program.environment,
            settings,
        ),
        donate_argnums=0,
    )
    carry, started = warm_start.init(params, settings), time.monotonic()
    for done in range(0, settings.num_steps, settings.steps_per_dispatch):
        if stop_requested.is_set():
            progress.message(
                f"stopped in the warm start after {done} of {settings.num_steps} "
                "steps. Nothing of it is saved: the same command begins it anew, and "
                f"needs these {duration(time.monotonic() - started)} again"
            )
            return None
        carry, losses = step(carry, experiment.warm_start_key)
        steps, loss = done + settings.steps_per_dispatch, float(losses[-1])
        progress.message(
            f"warm start: {steps}/{settings.num_steps} steps, {loss:.3f} nats per token"
        )
        _require(math.isfinite(loss), settings, f"the loss is {loss} at step {steps}")
    wrong = [
        name
        for name, leaf in leaves.named(carry[0]).items()
        if not jnp.isfinite(leaf).all()
    ]
    _require(not wrong, settings, f"{', '.join(wrong[:3])} at the end")
    return carry[0]


def _untrained(experiment, progress):
    """What the warm start begins with: published parameters, or drawn ones."""
    published = experiment.published
    if published is None:
        return jax.jit(experiment.program.policy.init)(experiment.init_key)
    progress.message(f"base model: {published.path}")
    return published.weights.read()


def _require(finite, settings, what):
    """No run begins with parameters that no step can mend, and none is kept."""
    if not finite:
        raise NonFiniteError(
            f"the warm start diverged with warm_start.learning_rate="
            f"{settings.learning_rate}: not finite: {what}. Nothing of it is kept; "
            "take a lower rate."
        )


def _read(path, experiment):
    shapes = jax.eval_shape(experiment.program.policy.init, experiment.init_key)
    named = leaves.named(shapes)
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = [
                np.asarray(file[name], leaf.dtype).reshape(leaf.shape)
                for name, leaf in named.items()
            ]
    except Exception as error:  # a damaged archive surfaces as any of them
        raise ValueError(
            f"{path} is no base model that can be read ({error}); delete it, and the "
            "next run pre-trains it again"
        ) from error
    if not all(np.isfinite(array.astype(np.float32)).all() for array in arrays):
        raise ValueError(
            f"{path} is no base model: numbers in it are not finite; delete it, and "
            "the next run pre-trains it again"
        )
    return jax.device_put(jax.tree.unflatten(jax.tree.structure(shapes), arrays))
