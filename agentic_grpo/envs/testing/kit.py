"""All checks of the contract, run on one environment."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from agentic_grpo.envs import base
from agentic_grpo.envs.testing import checks, playing
from agentic_grpo.errors import Violation, require_none

#: What is checked, in this order.
CHECKS = {
    "layout": "the static description holds together",
    "compiles_once": "start and step trace under jit, once each",
    "shapes": "shapes and types are those that envs.base says",
    "deterministic": "the same keys and texts give the same episodes, traced anew too",
    "one_by_one": "a batch, its lanes at different stages, equals its lanes one by one",
    "masks": "real tokens on a prefix of their columns, and nothing else is read",
    "rewards": "rewards and verdicts are finite and in [0, 1]",
    "ends": "terminated and truncated are kept apart, and everybody ends",
    "latencies": "answers come within the declared number of ticks",
    "invalid_tokens": "ids that are no tokens have an outcome as well",
    "splits": "no problem is in two splits",
    "agent": "the scripted agent writes real tokens on a prefix of the stage's columns",
}


def check_environment(environment: base.Environment, **options) -> None:
    """Raises a ContractError that lists what ``violations`` finds, if it finds any."""
    require_none(type(environment).__name__, violations(environment, **options))


def violations(
    environment: base.Environment,
    *,
    splits: Sequence[str] = ("train", "validation", "test"),
    identify: Callable[[base.Start], Any] | None = None,
    agent: base.ScriptedAgent | None = None,
    num_lanes: int = 6,
    num_members: int = 3,
    num_problems: int = 64,
    seed: int = 0,
) -> list[Violation]:
    """Everything in which an environment breaks the contract of ``envs.base``.

    Members write noise: words of the vocabulary, ids that are no tokens, and texts of
    any length. A few compilations are most of the time it takes.

    Args:
      environment: an ``envs.base.Environment``.
      splits: its splits; the first is the one that is played.
      identify: ``Start`` -> array [N, ...]; equal rows mean the same problem. The
        statement, if None: right unless a statement hides something.
      agent: a scripted agent of the environment, checked as well.
      num_lanes: N.
      num_members: G.
      num_problems: drawn of each split.
      seed: of all that is random here.

    Returns:
      The violations, in the order of ``CHECKS``; each message once.
    """
    examination = _Examination(environment, splits[0], num_lanes, num_members, seed)
    found = list(_named("layout", checks.layout(environment.spec)))
    if found:
        return found  # nothing can be played
    try:
        examination.play()
    except Exception as error:  # whatever a foreign environment raises
        reason = f"{type(error).__name__}: {str(error).splitlines()[0][:300]}"
        return [Violation("compiles_once", f"it cannot be played under jit: {reason}")]
    malformed = list(_named("shapes", examination.shapes()))
    if malformed:
        return malformed  # the other checks compare values, field by field
    found += examination.report()
    if len(splits) > 1:
        identify = identify or _statement
        found += _named("splits", _common(environment, splits, identify, num_problems))
    if agent is not None:
        found += _named("agent", examination.agent(agent))
    return list(dict.fromkeys(found))


class _Examination:
    """Plays an environment in every way that the checks compare."""

    def __init__(self, environment, split, num_lanes, num_members, seed):
        self._environment, self._spec = environment, environment.spec
        self._split, self._num_members = split, num_members
        self._keys = jax.random.split(jax.random.key(seed), num_lanes)
        sizes = environment.spec, num_lanes, num_members, seed
        self._noise, self._wild = playing.noise(*sizes), playing.wild(*sizes)
        self._player = self._new_player()

    def play(self):
        play, keys = self._player.play, self._keys
        self._plain = play(keys, self._noise)
        self._strange = play(keys, self._wild)
        self._again = play(keys, self._noise)
        self._padded = play(keys, playing.with_other_padding(self._noise, 1))
        self._retraced = self._new_player().play(keys, self._noise)
        delays = np.arange(len(keys), dtype=np.int32) % 2
        self._staggered = play(keys, self._noise, delays=delays)
        alone = self._new_player()
        self._alone = [
            alone.play(keys[lane : lane + 1], playing.lanes_of(self._noise, [lane]))
            for lane in range(len(keys))
        ]

    def shapes(self) -> Iterator[str]:
        start, result = self._plain.start, self._plain.results[0]
        return checks.shapes(self._spec, start, result, self._num_members)

    def report(self) -> Iterator[Violation]:
        """All other checks of what was played."""
        spec, plain = self._spec, self._plain
        yield from _named("compiles_once", _traced_once(self._player.traces))
        for other in (self._again, self._retraced):
            yield from _named("deterministic", checks.equal(spec, plain, other))
        for lane, alone in enumerate(self._alone):
            of_lane = _lane(self._staggered, lane)
            yield from _named("one_by_one", checks.equal(spec, alone, of_lane))
        yield from _named("masks", checks.prompts(spec, plain.start))
        yield from _named("masks", checks.masks(spec, plain))
        for message in checks.equal(spec, plain, self._padded):
            yield Violation("masks", f"tokens outside the mask are read: {message}")
        for name in ("rewards", "ends", "latencies"):
            check = getattr(checks, name)
            yield from _named(name, check(spec, plain))
        for check in (checks.masks, checks.rewards, checks.ends, checks.latencies):
            yield from _named("invalid_tokens", check(spec, self._strange))

    def agent(self, agent) -> Iterator[str]:
        """Plays the agent; sentences about what it writes, and what comes of it."""
        spec, written = self._spec, []
        write = jax.jit(lambda *arguments: agent(*arguments))

        def watched(state, stage, keys):
            tokens, mask = jax.device_get(write(state, stage, keys))
            written.append((int(stage[0]), tokens, mask))
            return tokens, mask

        recording = self._player.play(self._keys, self._noise, agent=watched)
        for stage, tokens, mask in written:
            yield from checks.writes(spec, stage, tokens, mask)
        for check in (checks.masks, checks.rewards, checks.ends, checks.latencies):
            yield from check(spec, recording)

    def _new_player(self):
        return playing.Player(
            self._environment, split=self._split, num_members=self._num_members
        )


def _named(check, messages) -> Iterator[Violation]:
    return (Violation(check, message) for message in messages)


def _traced_once(traces) -> Iterator[str]:
    for name, count in traces.items():
        if count > 1:
            yield (
                f"{name} was traced {count} times: the state that it returns differs in"
                " shape, type or structure from the one that it was given"
            )


def _common(environment, splits, identify, num_problems) -> Iterator[str]:
    """Problems that two splits share; with equal keys, which an ignored split shows."""
    seen: dict[bytes, str] = {}
    for split in splits:
        draw = functools.partial(environment.start, split=split, num_members=1)
        start = jax.jit(draw)(jax.random.split(jax.random.key(0), num_problems))
        rows = np.asarray(identify(start)).reshape(num_problems, -1)
        for row in {row.tobytes() for row in rows}:
            if seen.setdefault(row, split) != split:
                yield f"{seen[row]} and {split} share a problem"


def _statement(start: base.Start):
    return np.where(start.prompt_mask, start.prompt_tokens, -1)


def _lane(recording: playing.Recording, lane: int) -> playing.Recording:
    """One lane of a recording, its axis kept."""

    def select(tree):
        return jax.tree.map(lambda x: np.asarray(x)[lane : lane + 1], tree)

    return playing.Recording(
        start=select(recording.start),
        acting=recording.acting[:, lane : lane + 1],
        results=tuple(map(select, recording.results)),
    )
