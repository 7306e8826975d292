"""Latencies as fields of a config: an int, an int or none, a share."""

import dataclasses

from ml_collections import config_dict

from agentic_grpo.envs.latency import Latency
from experiments.config.checks import instantiate


def fields_of(latency: Latency) -> dict:
    """The fields of a latency; a ``maximum`` that is None is a constant latency."""
    return dataclasses.asdict(latency) | {"maximum": config_dict.placeholder(int)}


def of_stages(path, env) -> tuple[tuple[str, Latency], ...]:
    """The pairs (stage, (minimum, maximum, tail_probability)) of a config."""
    names = [field.name for field in dataclasses.fields(Latency)]
    found = []
    for stage, numbers in env.latency_of_stage:
        given = dict(zip(names, numbers, strict=False))
        where = f"{path}.latency_of_stage of {stage!r}"
        found.append((stage, instantiate(where, Latency, given)))
    return tuple(found)
