"""What a step needs of memory, estimated before anything is compiled.

What a backward pass keeps of a token, in one block of the decoder, counted in floats:
6 H (norms and sums), 2 of queries, keys and values, 4 of the gated MLP, and 3 per head
and token that it attends to. XLA asked for a quarter more of small models (the read-out
included) and a tenth of 135M parameters, unrolled, in parts and scanned.
"""

import dataclasses
import math

import jax

from agentic_grpo.models.transformer import TransformerConfig
from experiments.config.checks import require


@dataclasses.dataclass(frozen=True, kw_only=True)
class Estimate:
    """Bytes.

    Attributes:
      parameters: trained and frozen ones, and a reference.
      optimizer: moments.
      gradients: while they are added up, twice where a step is taken in parts.
      activations: of one part of a step.
      cache: keys and values while sampling.
    """

    parameters: int
    optimizer: int
    gradients: int
    activations: int
    cache: int

    @property
    def total(self) -> int:
        return sum(vars(self).values())

    def __str__(self):
        parts = vars(self)
        told = ", ".join(f"{name} {size / 1e9:.1f}" for name, size in parts.items())
        return f"memory, estimated in GB: {told}"


def activation_bytes(decoder: TransformerConfig, *, rows: int, columns: int) -> int:
    """What a forward pass over rows of so many columns keeps for its backward pass."""
    size = decoder.dtype.itemsize
    fused = (decoder.num_heads + 2 * decoder.num_kv_heads) * decoder.head_size
    per_token = (
        6 * decoder.hidden_size
        + 2 * fused
        + 4 * decoder.mlp_size
        + 3 * decoder.num_heads * columns
    )
    tokens = rows * columns
    one_block = tokens * per_token * size
    if decoder.layers == "unrolled":
        return decoder.num_layers * one_block
    streams = decoder.num_layers * tokens * decoder.hidden_size * size
    return one_block + streams + _bytes_of_blocks(decoder)


def fewest_parts(decoder, *, rows: int, columns: int, limit: float) -> int:
    """The fewest equal parts of a batch whose activations stay below a limit in bytes.

    As many as there are rows, where even one is above it.
    """
    divisors = (parts for parts in range(1, rows + 1) if rows % parts == 0)
    for parts in divisors:
        if activation_bytes(decoder, rows=rows // parts, columns=columns) <= limit:
            return parts
    return rows


def estimate(decoder, program, shapes, packing) -> Estimate:
    """Of a whole run on one device.

    Args:
      decoder: its config.
      program: a ``tick.Program``.
      shapes: a ``tick.TrainState`` of shapes.
      packing: a ``models.packing.Packing`` or None.
    """
    learner, layout = shapes.learner, program.environment.spec.layout
    batch = program.num_blocks * program.update_slots * program.rollout.num_members
    parts = program.learner.num_microbatches
    rows, columns = batch // parts, layout.num_columns
    if packing is not None:
        rows, columns = packing.rows, packing.width
    in_parts = packing is not None or parts > 1
    sampled = (
        program.num_blocks * program.rollout.decode_slots * program.rollout.num_members
    )
    keys = decoder.num_layers * 2 * decoder.num_kv_heads * decoder.head_size
    width = int(layout.offsets[-1]) + 1 + layout.max_action_width
    trained = _bytes_of(learner.params)
    return Estimate(
        parameters=trained + _bytes_of((learner.frozen, learner.reference_params)),
        optimizer=_bytes_of(learner.optimizer_state),
        gradients=trained * (2 if in_parts else 1),
        activations=activation_bytes(decoder, rows=rows, columns=columns),
        cache=sampled * width * keys * decoder.dtype.itemsize,
    )


def _bytes_of(tree):
    return sum(
        math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree)
    )


def _bytes_of_blocks(decoder):
    fused = (decoder.num_heads + 2 * decoder.num_kv_heads) * decoder.head_size
    queries = decoder.num_heads * decoder.head_size
    matrices = fused + queries + 3 * decoder.mlp_size
    return (
        decoder.num_layers
        * decoder.hidden_size
        * matrices
        * decoder.param_dtype.itemsize
    )


def num_microbatches(config, decoder, spec, block) -> int:
    """As given, or as few as the memory for activations allows."""
    learner = config.learner
    if learner.num_microbatches:
        return learner.num_microbatches
    rule = f"at least 1 with model.name={config.model.name!r}, whose memory is unknown"
    require(decoder is not None, "learner.num_microbatches", 0, rule)
    return fewest_parts(
        decoder.config,
        rows=config.rollout.num_blocks * block.update_slots * config.rollout.group_size,
        columns=spec.layout.num_columns,
        limit=1e9 * learner.activation_gigabytes,
    )
