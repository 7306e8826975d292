"""How many snapshot rows and update slots a block of lanes needs.

A row is held from the start of a group until its last event has been served. Too few
rows make lanes wait, and then the number of episodes depends on what serves them: the
defaults are bounds that hold for every credit rule, also when all lanes run in step.
"""

import dataclasses
import math

import numpy as np

from agentic_grpo.envs.base import EnvironmentSpec
from agentic_grpo.errors import require


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockSizes:
    """What a block of lanes holds; see ``tick.Program``."""

    num_lanes: int
    decode_slots: int
    num_rows: int
    update_slots: int


def block_sizes(
    spec: EnvironmentSpec,
    *,
    num_lanes: int,
    decode_slots: int,
    stage_deadline: int,
    verdict_deadline: int,
    num_blocks: int = 1,
    num_rows: int = 0,
    update_slots: int = 0,
) -> BlockSizes:
    """Sizes per block, with the defaults that latencies and arrivals ask for.

    Args:
      spec: of the environment.
      num_lanes, decode_slots: of all blocks together.
      stage_deadline, verdict_deadline: see ``lanes.RolloutSettings``.
      num_blocks: B.
      num_rows: per block; 0: as many as the latencies can need.
      update_slots: per block; 0: as many as can become ready in a tick.

    Raises:
      Refused: names the argument, its value and the rule.
    """
    require(
        decode_slots <= num_lanes,
        "decode_slots",
        decode_slots,
        f"at most num_lanes={num_lanes}",
    )
    for field, value in (("num_lanes", num_lanes), ("decode_slots", decode_slots)):
        require(
            value % num_blocks == 0,
            field,
            value,
            f"a multiple of num_blocks={num_blocks}",
        )
    lanes, slots = num_lanes // num_blocks, decode_slots // num_blocks
    needed = rows_needed(
        spec,
        num_lanes=lanes,
        decode_slots=slots,
        stage_deadline=stage_deadline,
        verdict_deadline=verdict_deadline,
    )
    require(
        num_rows == 0 or num_rows >= needed,
        "num_rows",
        num_rows,
        f"at least {needed} per block, with which none of its {lanes} lanes ever waits "
        "for a row, or 0 for just that",
    )
    least_served, served = slots_needed(spec, decode_slots=slots)
    require(
        update_slots == 0 or update_slots >= least_served,
        "update_slots",
        update_slots,
        f"at least {least_served} per block, the rows that become ready per tick "
        f"({slots} stages, and a verdict per {spec.layout.num_stages} stages), or 0 "
        f"for the most that can ({served})",
    )
    return BlockSizes(
        num_lanes=lanes,
        decode_slots=slots,
        num_rows=num_rows or needed,
        update_slots=update_slots or served,
    )


def trained_tokens_per_row(
    spec: EnvironmentSpec,
    sizes: BlockSizes,
    *,
    num_members: int,
    tokens_per_tick: float = 0.0,
) -> float:
    """What ``ops.constant_divisor`` divides the loss of a row by.

    Args:
      spec: of the environment.
      sizes: of a block.
      num_members: G.
      tokens_per_tick: of a block; 0: the action columns that its lanes write per tick,
        on average over stages. The same for every credit rule, so that rules differ by
        their credit alone.
    """
    episodes = sizes.decode_slots * num_members
    written = episodes * float(np.mean(spec.layout.action_widths))
    return (tokens_per_tick or written) / (sizes.update_slots * num_members)


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
