"""A row of a checkpoint's table, told as it stands."""

import jax
import numpy as np

from agentic_grpo.layout import StageKind
from agentic_grpo.records import AWAITED
from agentic_grpo.training import tick as tick_module
from scripts.viewing import readers, telling
from scripts.viewing.story import Stage, Story


def tell(
    program: tick_module.Program, state: tick_module.TrainState, number: int
) -> Story:
    """Tells one row of a checkpoint's table.

    Args:
      program: of the run.
      state: of the checkpoint.
      number: of the row, over all blocks.

    Raises:
      ValueError: there is no such row, or it is free.
    """
    row = _row(state, number)
    environment, tick = program.environment, int(state.tick)
    layout, reader = environment.spec.layout, readers.reader_of(environment)
    log_probs, _ = program.policy.score(
        state.learner.policy_params,
        row.tokens,
        row.token_mask,
        temperature=program.rollout.temperature,
    )
    return Story(
        title=f"row {number} of the table, in flight at tick {tick}",
        statement=telling.statement(layout, reader, row),
        level=environment.spec.levels[row.level],
        secrets=(),
        stages=tuple(
            _stage(layout, reader, row, index, state, np.asarray(log_probs))
            for index in range(layout.num_stages)
        ),
        endings=telling.endings(row, judged=bool(row.ready_at[-1] <= tick)),
        verdict_at=telling.tick_or_none(row.ready_at[-1]),
        services=(),
        awaited=_awaited(program, row, tick),
        notes=(
            f"As the checkpoint holds it, at learner step {int(state.learner.step)}: "
            "'applied' is what is still to be taken back (a skill's credit, which is "
            "kept, is not noted), 'now' the log-prob under the checkpoint's "
            "parameters. Rewards that are not in yet are not shown, and neither is "
            "what was executed: a row does not keep the environment's state.",
        ),
    )


def _row(state, number):
    """The row [G, ...] of this number, on the host."""
    table = jax.device_get(state.table)
    table = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), table)
    occupied = np.flatnonzero(table.occupied)
    if number not in occupied:
        flying = ", ".join(map(str, occupied)) or "none"
        raise ValueError(
            f"row={number} holds no episodes (a settled group is not kept); rows in"
            f" flight: {flying}. Without a row, a group is played anew"
        )
    return jax.tree.map(lambda x: x[number], table)


def _stage(layout, reader, row, index, state, log_probs_now) -> Stage:
    spec = layout.stages[index]
    written = bool(row.acted[:, index].any())
    is_noted = spec.kind is not StageKind.SKILL and row.paid[:, index].any()
    writings = [
        telling.writing(
            layout,
            reader,
            row,
            index,
            member,
            problem=None,
            log_probs=row.log_probs,
            log_probs_now=log_probs_now,
            applied=row.applied_advantage[member, index] if is_noted else None,
            corrected=None,
            arrived=row.ready_at[index] <= state.tick,
        )
        for member in range(len(row.tokens))
    ]
    return Stage(
        name=spec.name,
        kind=telling.KINDS[spec.kind],
        written_at=None,
        ready_at=telling.tick_or_none(row.ready_at[index]),
        version=int(row.version[index]) if written else None,
        age=int(state.learner.step - row.version[index]) if written else None,
        writings=tuple(writings),
    )


def _awaited(program, row, tick) -> tuple[str, ...]:
    """What has been scheduled and is not served; what has no tick yet."""
    names = [stage.name for stage in program.environment.spec.layout.stages]
    lines = []
    if row.generating:
        rest = names[int(row.acted.any(axis=0).sum()) :]
        lines.append(f"still writing: {', '.join(rest)}")
    for index, name in enumerate([*names, "verdict"]):
        if row.served[index] or not program.credit_rule.event_mask[index]:
            continue
        ready_at = telling.tick_or_none(row.ready_at[index])
        what = name if name == "verdict" else f"reward of {name}"
        if row.ready_at[index] == AWAITED:
            lines.append(f"{what}: when the judge has answered")
        elif ready_at is None and name == "verdict":
            lines.append("verdict: when all members have ended")
        elif ready_at is not None and ready_at > tick:
            lines.append(f"{what}: at tick {ready_at}, in {ready_at - tick}")
        elif ready_at is not None:
            lines.append(f"{what}: in since tick {ready_at}, not served yet")
    return tuple(lines)
