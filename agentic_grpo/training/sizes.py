"""How many snapshot rows and update slots a block of lanes needs.

A row is held from the start of a group until its last event has been served. Too few
rows make lanes wait, and then the number of episodes depends on what serves them: the
defaults are bounds that hold for every credit rule, also when all lanes run in step.
"""

import math

from agentic_grpo.envs.base import EnvironmentSpec


def slots_needed(spec: EnvironmentSpec, *, decode_slots: int) -> tuple[int, int]:
    """Rows with ready events per tick and block: (on average at least, at most).

    Every stage written brings a reward, and every ``min_stages`` at the earliest a
    verdict.
    """
    stages = spec.layout.num_stages
    least = decode_slots + math.ceil(decode_slots / stages)
    most = decode_slots + math.ceil(decode_slots / min(spec.min_stages, stages))
    return least, most


def rows_needed(
    spec: EnvironmentSpec,
    *,
    num_lanes: int,
    decode_slots: int,
    stage_deadline: int,
    verdict_deadline: int,
) -> int:
    """Snapshot rows of a block with which no lane ever waits for one.

    P lanes that write hold a row each. A group that has ended holds its row for W
    ticks: until the later of its verdict and its last stage reward is in, and then
    until it is served, behind a burst of at most all lanes. In W ticks at most

        min(D W, P ceil(W / m), (D W + P (m - 1)) / m)

    groups end: D write per tick, a lane ends every m = ``min_stages`` ticks at most,
    and an end takes m stages, up to m - 1 of which each lane had behind it.

    Args:
      spec: of the environment.
      num_lanes: P.
      decode_slots: D.
      stage_deadline, verdict_deadline: see ``lanes.RolloutSettings``.
    """
    lanes, slots = num_lanes, decode_slots
    stages = min(spec.min_stages, spec.layout.num_stages)
    slowest_stage = max(stage.max_latency for stage in spec.layout.stages)
    wait = max(
        min(spec.max_verdict_latency, verdict_deadline),
        min(slowest_stage, stage_deadline),
    )
    window = wait + 1 + math.ceil(lanes / slots)
    ending = min(
        slots * window,
        lanes * math.ceil(window / stages),
        (slots * window + lanes * (stages - 1)) // stages,
    )
    return lanes + ending
