"""One group of episodes as a person would tell it: records between replay and pages."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Service:
    """One time that the learner was given credit for a stage, or for all of them.

    Attributes:
      tick: when.
      events: names of what was ready: stage rewards, "verdict".
      staleness: learner steps since each stage served here was sampled, by name.
    """

    tick: int
    events: tuple[str, ...]
    staleness: dict[str, int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Writing:
    """What one member wrote in one stage, and what came of it.

    Attributes:
      text: what was written, spelled.
      told: what the environment answered, spelled.
      executed: what the environment did with it, a line each.
      reward: None where there is none.
      log_prob: of the whole text, when it was sampled; None for a scripted agent.
      log_prob_now: of the same text under the checkpoint's parameters, if they differ.
      num_tokens: that the member wrote.
      applied: advantage of the immediate phase; None if it was never served.
      corrected: advantage of the correction phase; None if it was never served.
    """

    text: str
    told: str
    executed: tuple[str, ...]
    reward: float | None
    log_prob: float | None
    log_prob_now: float | None
    num_tokens: int
    applied: float | None
    corrected: float | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of the group.

    Attributes:
      name, kind: of the workflow.
      written_at: tick; None if no member came so far, or the tick is not known.
      ready_at: tick at which its rewards are in; None if there are none.
      version: learner step that sampled it; None if it was not written.
      age: learner steps since then, of a group in flight; None of one that is over.
      writings: one per member; None where the member did not write.
    """

    name: str
    kind: str
    written_at: int | None
    ready_at: int | None
    version: int | None
    age: int | None
    writings: tuple[Writing | None, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ending:
    """How the episode of one member ended.

    Attributes:
      reason: of ``records.EndReason``, in words.
      verdict: None while it is not there.
      solved: None while it is not there.
    """

    reason: str
    verdict: float | None
    solved: bool | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Story:
    """One group.

    Attributes:
      title: whose episodes, of which problem.
      statement: spelled.
      level: name.
      secrets: what the members are not told, a line each.
      stages: in order.
      endings: one per member.
      verdict_at: tick; None while it is not known.
      services: in the order of time.
      awaited: what an episode in flight still waits for, a line each.
      notes: how to read it, and what it is not; a line each.
    """

    title: str
    statement: str
    level: str
    secrets: tuple[str, ...]
    stages: tuple[Stage, ...]
    endings: tuple[Ending, ...]
    verdict_at: int | None
    services: tuple[Service, ...]
    awaited: tuple[str, ...]
    notes: tuple[str, ...]
