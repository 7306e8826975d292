"""What replayed groups and rows in flight are told with.

Everywhere ``row`` is one row [G, ...] of a ``SnapshotTable`` on the host.
"""

import numpy as np

from agentic_grpo.layout import StageKind
from agentic_grpo.records import AWAITED, EndReason
from scripts.viewing.story import Ending, Writing

REASONS = {
    EndReason.RUNNING: "still running",
    EndReason.SUBMITTED: "submitted",
    EndReason.OUT_OF_STAGES: "out of stages",
    EndReason.FAULT: "environment fault",
}

KINDS = {
    StageKind.ESTIMATE: "estimate of the verdict",
    StageKind.SKILL: "skill",
    StageKind.NONE: "no reward",
}


def writing(
    layout,
    reader,
    row,
    index,
    member,
    *,
    problem,
    log_probs,
    applied,
    corrected,
    log_probs_now=None,
    arrived=True,
) -> Writing | None:
    """What a member wrote in stage ``index``; None if it did not.

    Args:
      layout: of the episode.
      reader: see ``readers.reader_of``.
      row: of the table.
      index, member: which.
      problem: the environment's state behind the stage; None if it is not known.
      log_probs, log_probs_now: float [G, T], or None.
      applied, corrected: advantages, or None.
      arrived: the reward is in, and with it what was told.
    """
    if not row.acted[member, index]:
        return None
    spec, first = layout.stages[index], layout.offsets[index] + 1
    written = slice(first, first + spec.action_width)
    told = slice(written.stop, written.stop + spec.observation_width)
    is_action = row.action_mask[member, written]
    observed = row.tokens[member, told][row.token_mask[member, told]]
    has_reward = arrived and row.reward_mask[member, index]

    def total(values):
        return (
            None if values is None else float(values[member, written][is_action].sum())
        )

    return Writing(
        text=reader.spell(row.tokens[member, written][is_action]),
        told=reader.spell(observed) if arrived else "",
        executed=tuple(
            [] if problem is None else reader.describe_member(problem, 0, member)
        ),
        reward=float(row.reward[member, index]) if has_reward else None,
        log_prob=total(log_probs),
        log_prob_now=total(log_probs_now),
        num_tokens=int(is_action.sum()),
        applied=None if applied is None else float(applied),
        corrected=None if corrected is None else float(corrected),
    )


def endings(row, *, judged) -> tuple[Ending, ...]:
    """How each member ended; verdicts only if they are in."""
    return tuple(
        Ending(
            reason=REASONS[EndReason(int(row.end_reason[member]))],
            verdict=float(row.verdict[member]) if known else None,
            solved=bool(row.solved[member]) if known else None,
        )
        for member, known in enumerate(row.verdict_mask & judged)
    )


def statement(layout, reader, row) -> str:
    """The statement, spelled."""
    width = layout.prompt_width
    return reader.spell(row.tokens[0, :width][row.token_mask[0, :width]])


def tick_or_none(value) -> int | None:
    """A tick of the table; None for one that is not scheduled, or takes real time."""
    return None if value >= AWAITED else int(value)


def number_or_none(value) -> float | None:
    """None for what is not a number: it was never there."""
    return None if np.isnan(value) else float(value)
