"""The base model of a run: pre-trained, or taken from a cache that runs share.

Runs that differ only in what comes after the warm start begin from the same
parameters. A base model is kept under a hash of everything that it depends on:
environment, scripted agent, model, warm start, seed, package versions, and the source
code of all of these.
"""

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import pathlib

import jax
import numpy as np
from absl import logging
from ml_collections import ConfigDict

import agentic_grpo
from agentic_grpo.training import leaves, warm_start
from experiments.config.build import Experiment

#: Fields of an environment that say when something is known, not what. The warm start
#: has no clock, so base models are shared by latencies.
TIMING_FIELDS = ("stage_latency", "latency_of_stage", "verdict_latency")

#: Code that a base model depends on, besides that of its environment.
SOURCES = (
    "envs/*.py",
    "models/*.py",
    "ops/reductions.py",
    "records.py",
    "episodes.py",
    "training/warm_start.py",
)

PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy")


def first_params(
    experiment: Experiment, config: ConfigDict, cache: pathlib.Path | None, progress
):
    """Parameters after the warm start.

    Args:
      experiment: as built from the config.
      config: of the run.
      cache: folder of base models; None pre-trains and keeps nothing. Any number of
        runs may use it at the same time: the first pre-trains, the others wait for it.
      progress: its ``message`` is told how the warm start goes.

    Raises:
      ValueError: a file of the cache cannot be read.
    """
    if cache is None:
        return _pretrain(experiment, progress)
    path = cache / f"{key(config)}.npz"
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(path, progress):
        if not path.exists():
            leaves.dump(_pretrain(experiment, progress), path)
    progress.message(f"base model: {path}")
    return _read(path, experiment)


def key(config: ConfigDict) -> str:
    """What a base model is kept under: a hash of all that it depends on."""
    env, agent = json.loads(config.env.to_json()), json.loads(config.agent.to_json())
    name = config.env.name
    fields = {k: v for k, v in env[name].items() if k not in TIMING_FIELDS}
    content = {
        "env": {name: fields},
        "agent": agent[name],
        "model": json.loads(config.model.to_json()),
        "warm_start": json.loads(config.warm_start.to_json()),
        "seed": config.seed,
        "packages": {p: importlib.metadata.version(p) for p in PACKAGES},
        "sources": _hash_of_sources(name),
    }
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


@functools.cache
def _hash_of_sources(environment_name):
    root = pathlib.Path(agentic_grpo.__file__).parent
    digest = hashlib.sha256()
    for pattern in (*SOURCES, f"envs/{environment_name}/**/*.py"):
        for path in sorted(root.glob(pattern)):
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _pretrain(experiment: Experiment, progress):
    program, settings = experiment.program, experiment.warm_start
    params = jax.jit(program.policy.init)(experiment.init_key)
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
    carry = warm_start.init(params, settings)
    for done in range(0, settings.num_steps, settings.steps_per_dispatch):
        carry, losses = step(carry, experiment.warm_start_key)
        progress.message(
            f"warm start: {done + settings.steps_per_dispatch}/{settings.num_steps} "
            f"steps, {float(losses[-1]):.3f} nats per token"
        )
    return carry[0]


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
    return jax.device_put(jax.tree.unflatten(jax.tree.structure(shapes), arrays))


@contextlib.contextmanager
def _locked(path, progress):
    """Others that want the same file wait here until it is written.

    Where the file system has no locks they do not wait; they pre-train the same model
    once more, which costs time and nothing else.
    """
    try:
        import fcntl
    except ImportError:  # no such thing on this system
        yield
        return
    with open(path.with_suffix(".lock"), "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.message("waits for another run that pre-trains this base model")
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            logging.warning("%s cannot be locked: %s", path, os.strerror(error.errno))
        yield
