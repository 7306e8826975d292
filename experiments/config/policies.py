"""The policy of a run: a decoder of ours, packed or not, or one from elsewhere."""

import dataclasses
from collections.abc import Callable

from agentic_grpo.models.base import Policy
from agentic_grpo.models.packing import Packing
from agentic_grpo.models.policy import decoder_policy
from agentic_grpo.models.transformer import Transformer
from experiments.config import elsewhere, model
from experiments.config.checks import choose, require


def decoder_of(config, spec, published) -> Transformer | None:
    """The model; None where it comes from outside the repository."""
    if elsewhere.is_elsewhere(config.model.name):
        model.require_elsewhere_fits(config)
        return None
    choose("model.name", config.model.name, {"transformer": None})
    rule = "(): they are those of a model.name like my_package.my_model:make"
    require(config.model.options == (), "model.options", config.model.options, rule)
    sizes = model.transformer_config(
        config, published, vocabulary_size=spec.vocabulary_size
    )
    return Transformer(sizes, model.adapter(config))


def policy_of(config, spec, decoder) -> tuple[Policy, tuple[Callable, ...]]:
    """(the policy, whatever makes it from outside the repository)."""
    if decoder is None:
        policy, make = elsewhere.policy(config.model, spec)
        return policy, (make,)
    policy = decoder_policy(
        decoder,
        spec.layout,
        end_tokens=spec.end_tokens,
        pad_token=spec.pad_token,
        chunk_size=config.model.chunk_size or None,
        packing=packing_of(config, spec.layout),
        prompt_once=config.model.prompt_once,
    )
    return policy, ()


def packing_of(config, layout) -> Packing | None:
    """Packed rows as wide as two whole episodes, so that little stays empty.

    Or as one whole group, where its members share their prompt.
    """
    learner = config.learner
    rows = learner.packed_rows
    if not rows:
        return None
    require(
        learner.num_microbatches == 1,
        "learner.num_microbatches",
        learner.num_microbatches,
        f"1 with learner.packed_rows={rows}: those are taken in parts",
    )
    width = 2 * layout.num_columns
    if not config.model.prompt_once:
        return Packing(rows=rows, width=width)
    grouped = Packing(
        rows=rows,
        width=width,
        group_size=config.rollout.group_size,
        shared_width=layout.prompt_width,
    )
    folded = grouped.folded_columns(layout.num_columns)
    return dataclasses.replace(grouped, width=max(width, folded))
