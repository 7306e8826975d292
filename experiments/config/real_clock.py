"""The real clock of a config: which clock, its seconds and bounds."""

import dataclasses
import pathlib

from agentic_grpo.envs.simulated_clock import SimulatedClock
from agentic_grpo.errors import Refused
from agentic_grpo.training import paths, tick
from agentic_grpo.training.real_clock.clock import RealClock
from agentic_grpo.training.real_clock.settings import RealClockSettings
from experiments.config.checks import choose, instantiate, require

PATH = "rollout.real_clock"
SIMULATED, REAL = "simulated", "real"
#: Two jobs of each work, and those of evaluation, fit a sandbox's 4,096.
LARGEST_QUEUE = 1024
_OWN = tuple(field.name for field in dataclasses.fields(RealClockSettings))


def fields() -> dict:
    """The fields of ``rollout.real_clock`` that are the clock's own."""
    return dataclasses.asdict(RealClockSettings())


def settings(config, program: tick.Program) -> RealClockSettings | None:
    """Of a run on the real clock; None: its clock is simulated.

    Raises:
      ValueError: names the field, its value and the rule.
    """
    known = dict.fromkeys((SIMULATED, REAL))
    choose("rollout.clock", config.rollout.clock, known)
    given = {name: config.rollout.real_clock[name] for name in _OWN}
    own = instantiate(PATH, RealClockSettings, given)
    replayed(config)
    if config.rollout.clock == SIMULATED:
        return None
    require(
        isinstance(program.environment, SimulatedClock),
        "rollout.clock",
        config.rollout.clock,
        f"{SIMULATED!r} with env.name={config.env.name!r}: its work is done on the "
        "device, in no time of its own",
    )
    require(
        not config.profile,
        "profile",
        config.profile,
        f"False with rollout.clock={REAL!r}: a tick is no single program there",
    )
    rule = f"at most {LARGEST_QUEUE}, what a sandbox can hold beside evaluation"
    require(own.queue <= LARGEST_QUEUE, f"{PATH}.queue", own.queue, rule)
    try:
        own.check_queue(RealClock.most_works(program))
    except Refused as error:
        raise error.under(PATH) from error
    return own


def replayed(config) -> pathlib.Path | None:
    """The journal that a run plays again; None: it asks the host.

    Raises:
      ValueError: there is no such file.
    """
    given = config.rollout.real_clock.replay
    if not given:
        return None
    path = paths.locate(given, f"{PATH}.replay")
    rule = "the journal.jsonl of a run; there is no such file"
    require(path.is_file(), f"{PATH}.replay", given, rule)
    return path
