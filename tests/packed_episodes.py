"""Random episodes of random lengths, and a tiny decoder that can pack them."""

import functools

import numpy as np

from agentic_grpo.layout import EpisodeLayout, StageKind, StageSpec
from agentic_grpo.models import packing, transformer
from agentic_grpo.models.policy import decoder_policy

V, END, MARKER = 13, 2, 3
CONFIG = transformer.TransformerConfig(
    vocabulary_size=V,
    num_layers=2,
    hidden_size=8,
    num_heads=2,
    num_kv_heads=1,
    head_size=4,
    mlp_size=12,
)
ROWS, WIDTH = 2, 20


def layout_of(*, blind):
    """Two stages; if ``blind`` the second does not see the first."""
    stages = tuple(
        StageSpec(
            name=name,
            kind=StageKind.NONE,
            action_width=width,
            observation_width=2,
            max_latency=0,
            marker=MARKER,
        )
        for name, width in (("draft", 3), ("final", 4))
    )
    visibility = [[True] * 3 for _ in range(3)]
    visibility[2][1] = not blind
    return EpisodeLayout(
        prompt_width=3, stages=stages, visibility=tuple(map(tuple, visibility))
    )


def draw_episodes(layout, rng, number=9):
    """Random texts of random lengths; the last episode is empty, the first is full."""
    shape = number, layout.num_columns
    tokens = rng.integers(4, V, shape).astype(np.int32)
    mask, action = np.zeros(shape, bool), np.zeros(shape, bool)
    for row in range(number - 1):
        full = row == 0
        mask[row, : 3 if full else rng.integers(1, 4)] = True
        for stage, offset in zip(layout.stages, layout.offsets, strict=True):
            if not full and rng.random() < 0.2:
                break  # never reached
            written = stage.action_width if full else rng.integers(1, 4)
            mask[row, offset] = True
            action[row, offset + 1 : offset + 1 + written] = True
            after = offset + 1 + stage.action_width
            mask[row, after : after + rng.integers(0, 3)] = True
            tokens[row, offset] = MARKER
    return tokens, mask | action, action


@functools.cache
def policy_of(blind):
    return decoder_policy(
        transformer.Transformer(CONFIG),
        layout_of(blind=blind),
        end_tokens=(END,),
        pad_token=0,
        packing=packing.Packing(rows=ROWS, width=WIDTH),
    )
