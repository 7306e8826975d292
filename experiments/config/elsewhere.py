"""Environments and models from outside the repository: "my_package.my_env:make".

The function is imported by that name and called with the options of the config, pairs
(name, value); whatever is wrong is said under the field that names it.
"""

import importlib
from collections.abc import Callable
from typing import Any

from agentic_grpo.envs.base import EnvironmentSpec
from agentic_grpo.models.base import Policy
from experiments.config.checks import require
from experiments.config.setting import Setting


def is_elsewhere(name: str) -> bool:
    """Whether a name is that of a function to import."""
    return ":" in name


def environment(env) -> Setting:
    """What ``env.name`` makes: an environment, or (environment, scripted agent).

    Raises:
      ValueError: there is no such function, it refuses, or makes something else.
    """
    make = _load("env.name", env.name)
    made = _call("env", env, make)
    built, agent = made if isinstance(made, tuple) else (made, None)
    spec = getattr(built, "spec", None)
    require(
        (isinstance(spec, EnvironmentSpec) and agent is None) or callable(agent),
        "env.name",
        env.name,
        "a function that returns an environment (envs/README.md), or a pair of it and "
        f"its scripted agent; it returned {_kind(made)}",
    )
    require(
        isinstance(spec, EnvironmentSpec),
        "env.name",
        env.name,
        f"one whose environment has a spec; it made {_kind(built)}",
    )
    return Setting(environment=built, agent=agent, makers=(make,))


def policy(model, spec: EnvironmentSpec) -> tuple[Policy, Callable]:
    """(the policy that ``model.name`` makes of a spec, the function that makes it).

    Raises:
      ValueError: as ``environment``.
    """
    make = _load("model.name", model.name)
    made = _call("model", model, make, spec)
    require(
        isinstance(made, Policy),
        "model.name",
        model.name,
        "a function of an environment's spec that returns a models.base.Policy "
        f"(models/README.md); it returned {_kind(made)}",
    )
    return made, make


def _load(field, name) -> Callable:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{field}={name!r} must be module:function, both to be found from here or "
            f"on PYTHONPATH: {error}"
        ) from error
    require(callable(found), field, name, f"a function; it is {_kind(found)}")
    return found


def _call(group, fields, make, *arguments) -> Any:
    try:
        return make(*arguments, **dict(fields.options))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{group}.name={fields.name!r} with {group}.options={fields.options!r} is "
            f"refused: {error}"
        ) from error


def _kind(value):
    return f"a {type(value).__name__}"
