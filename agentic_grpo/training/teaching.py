"""The critic inside a tick: it is asked before, and taught after, what settles now."""

import dataclasses
import functools

from agentic_grpo import blocks
from agentic_grpo.critic import learning
from agentic_grpo.ops.reductions import sum_over_devices
from agentic_grpo.training import serving


def forecaster_of(program, state):
    """The ``forecaster`` of ``serving.serve``: today's critic; None without one.

    Args:
      program: a ``tick.Program``.
      state: a ``tick.TrainState``.
    """
    if program.critic is None:
        return None
    return functools.partial(
        learning.forecast, program.critic, state.critic, state.learner.policy_params
    )


def teach_critic(program, state, served, accepted, *, axis_name=None):
    """The critic learns from what has settled, after it was asked about it.

    Args:
      program: a ``tick.Program``.
      state: a ``tick.TrainState``.
      served: of this tick.
      accepted: bool []; see ``learner.take_steps``.
      axis_name: of the devices that hold other blocks.

    Returns:
      (state, metrics); what a refused step leaves ready is learnt from when it is
      served again.
    """
    if program.critic is None:
        return state, {}
    events, spec = served.events, program.environment.spec
    known = serving.members_settled(served)
    names = [stage.name for stage in spec.layout.stages]
    report = learning.report(
        events.forecast, events.verdict, known & events.forecast_mask, names
    )
    num_blocks = served.slots.shape[0]
    taught = blocks.merge((events.verdict, known & accepted))
    critic, memory, metrics = learning.learn(
        program.critic,
        state.critic,
        state.memory,
        *blocks.unmerge((served.examples, *taught), num_blocks),
        key=state.key,
        tick=state.tick,
        first_block=blocks.first_here(num_blocks, axis_name),
        axis_name=axis_name,
    )
    state = dataclasses.replace(state, critic=critic, memory=memory)
    return state, sum_over_devices(report, axis_name) | metrics
