"""The decoder as a policy over the columns of one episode layout."""

import functools

import jax.numpy as jnp
import numpy as np

from agentic_grpo.models import decoding
from agentic_grpo.models import packing as packing_lib
from agentic_grpo.models.base import PackedScore, Policy


def decoder_policy(
    model,
    layout,
    *,
    end_tokens,
    pad_token,
    chunk_size=None,
    packing=None,
    prompt_once=False,
) -> Policy:
    """Binds a ``Transformer`` to a layout.

    Args:
      model: the decoder.
      layout: a ``layout.EpisodeLayout``.
      end_tokens: ints; each ends what the agent writes in a stage.
      pad_token: fills what is not written.
      chunk_size: vocabulary entries whose logits exist at one time when scoring; None:
        chosen so that memory stays bounded.
      packing: a ``packing.Packing``; None: rows are never packed.
      prompt_once: while sampling, the prompt of a group is read once, not once per
        member: the same to float tolerance, and cheaper the longer the prompt is.

    Returns:
      ``models.base.Policy``.
    """
    prefix_width = int(layout.offsets[-1]) + 1
    action_columns = np.flatnonzero(layout.holds_actions)

    def sample(
        params,
        tokens,
        token_mask,
        stage,
        active,
        uniforms,
        *,
        temperature,
        group_size=1,
    ):
        marker_column = jnp.asarray(layout.offsets)[stage]
        actions = decoding.sample_actions(
            model,
            params,
            tokens,
            token_mask,
            jnp.asarray(layout.column_visibility)[marker_column],
            marker_column,
            jnp.asarray(layout.action_widths)[stage],
            active,
            uniforms,
            column_visibility=layout.column_visibility,
            max_actions=layout.max_action_width,
            prefix_width=prefix_width,
            end_tokens=end_tokens,
            pad_token=pad_token,
            temperature=temperature,
            group_size=group_size,
            shared_width=layout.prompt_width,
        )
        return actions.tokens, actions.mask, actions.log_probs

    def score(params, tokens, token_mask, *, temperature):
        return decoding.score(
            model,
            params,
            tokens,
            token_mask,
            layout.column_visibility,
            temperature=temperature,
            chunk_size=chunk_size,
            columns=action_columns,
        )

    def hidden(params, tokens, token_mask, *, columns):
        visible = jnp.asarray(layout.column_visibility)[None]
        return model.hidden(
            params,
            tokens,
            decoding.token_positions(token_mask),
            visible & token_mask[:, None, :],
            columns=columns,
        )

    return Policy(
        init=model.init,
        sample=sample,
        score=score,
        packed=packing and _packed(model, layout, packing, chunk_size),
        hidden=hidden,
        prompt_once=prompt_once,
        adapt=model.init_adapter if model.adapter else None,
    )


def _packed(model, layout, packing, chunk_size) -> PackedScore:
    def score(params, tokens, plan, part, *, temperature):
        return packing_lib.score(
            model,
            params,
            tokens,
            plan,
            part,
            layout.column_visibility,
            packing,
            temperature=temperature,
            chunk_size=chunk_size,
        )

    return PackedScore(
        plan=functools.partial(packing_lib.plan, packing=packing),
        is_here=functools.partial(packing_lib.is_here, packing=packing),
        score=score,
    )
