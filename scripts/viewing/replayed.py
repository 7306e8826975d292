"""One group, played anew and told with its credit."""

import jax
import numpy as np

from agentic_grpo import episodes
from agentic_grpo.records import CORRECTION, IMMEDIATE
from agentic_grpo.training import tick as tick_module
from scripts.viewing import clock, readers, telling
from scripts.viewing.story import Service, Stage, Story


def actor(program, params, *, greedy=False):
    """The ``act`` that samples from the policy with these parameters."""
    temperature = 0.0 if greedy else program.rollout.temperature
    return episodes.sample_with(program.policy, params, temperature=temperature)


def tell(
    program: tick_module.Program,
    act,
    credit_state,
    key,
    *,
    title,
    first_step=0,
    split="test",
    is_scripted=False,
) -> Story:
    """Plays one group anew and tells it, credit and all.

    Args:
      program: of the run.
      act: see ``episodes.play_stage``.
      credit_state: moments of the run's credit rule.
      key: of the group.
      title: of the story.
      first_step: learner step of the parameters.
      split: of the environment's problems.
      is_scripted: the log-probs mean nothing.
    """
    moments = clock.play(
        program, act, credit_state, key, first_step=first_step, split=split
    )
    environment = program.environment
    layout, reader = environment.spec.layout, readers.reader_of(environment)
    row = jax.tree.map(lambda x: x[0], moments[-1].row)
    log_probs = None if is_scripted else row.log_probs
    return Story(
        title=title,
        statement=telling.statement(layout, reader, row),
        level=environment.spec.levels[row.level],
        secrets=tuple(reader.describe_problem(moments[0].problem, 0)),
        stages=tuple(
            _stage(layout, reader, row, index, moments, log_probs)
            for index in range(layout.num_stages)
        ),
        endings=telling.endings(row, judged=True),
        verdict_at=telling.tick_or_none(row.ready_at[-1]),
        services=_services(layout, moments, first_step),
        awaited=(),
        notes=(
            "Played anew from fixed parameters: no learner step comes in between, and "
            "the credit rule's moments stay as they were. Ticks count from the start "
            "of this group; staleness counts one learner step per tick, the most there "
            "can be.",
        ),
    )


def _stage(layout, reader, row, index, moments, log_probs) -> Stage:
    spec = layout.stages[index]
    when = next((m for m in moments if m.written == index), None)
    applied, corrected = (_paid(moments, phase) for phase in (IMMEDIATE, CORRECTION))
    writings = [
        telling.writing(
            layout,
            reader,
            row,
            index,
            member,
            problem=None if when is None else when.problem,
            log_probs=log_probs,
            applied=telling.number_or_none(applied[member, index]),
            corrected=telling.number_or_none(corrected[member, index]),
        )
        for member in range(len(row.tokens))
    ]
    return Stage(
        name=spec.name,
        kind=telling.KINDS[spec.kind],
        written_at=None if when is None else when.tick,
        ready_at=telling.tick_or_none(row.ready_at[index]),
        version=None if when is None else int(row.version[index]),
        age=None,
        writings=tuple(writings),
    )


def _paid(moments, phase) -> np.ndarray:
    """float [G, S]: the advantage of a phase over all services; NaN where none was."""
    mask = np.stack([m.mask[phase] for m in moments])
    advantage = np.stack([m.advantage[phase] for m in moments])
    total = np.sum(np.where(mask, advantage, 0.0), axis=0)
    return np.where(mask.any(axis=0), total, np.nan)


def _services(layout, moments, first_step) -> tuple[Service, ...]:
    names = [*(stage.name for stage in layout.stages), "verdict"]
    services = []
    for moment in moments:
        if not moment.ready.any():
            continue
        served = moment.mask.any(axis=(0, 1))
        version = moment.row.version[0]
        services.append(
            Service(
                tick=moment.tick,
                events=tuple(
                    name
                    for name, is_ready in zip(names, moment.ready, strict=True)
                    if is_ready
                ),
                staleness={
                    names[stage]: int(first_step + moment.tick - version[stage])
                    for stage in np.flatnonzero(served)
                },
            )
        )
    return tuple(services)
