"""What the members of a group hold after writing a stage: route, draft, expenses."""

import dataclasses

import jax
import jax.numpy as jnp

from agentic_grpo import records
from agentic_grpo.envs.tool_workflow import texts, tools, vocabulary
from agentic_grpo.envs.tool_workflow.requests import CALLS_PER_PART
from agentic_grpo.envs.tool_workflow.state import Members


@records.record
class Written:
    """Members [N, G] after a stage.

    Attributes:
      members: with the text entered.
      submits: bool [N, G].
      refused: bool [N, G]; the text, or a call of it, was not understood.
    """

    members: Members
    submits: jax.Array
    refused: jax.Array


def newcomers(seed: jax.Array, num_parts: int) -> Members:
    """Members [N, G] that have done nothing yet; ``seed`` is uniform float [N, G]."""
    zeros = jnp.zeros(seed.shape, jnp.int32)
    absent = jnp.zeros((CALLS_PER_PART, tools.CALL_WIDTH), jnp.int32)
    absent = absent.at[:, 0].set(tools.ABSENT)
    shape = (*seed.shape, num_parts, *absent.shape)
    return Members(
        seed=seed,
        route=zeros + vocabulary.CACHE,
        draft=jnp.broadcast_to(absent, shape),
        parts_written=zeros,
        wasted=zeros,
        revealed=zeros.astype(bool),
        ended=zeros.astype(bool),
    )


def write_plan(members: Members, text: texts.Text) -> Written:
    """A text that names no route is a wasted call, and the cache is read."""
    route = texts.as_route(text)
    unnamed = route == texts.NO_ROUTE
    return Written(
        members=dataclasses.replace(
            members,
            route=jnp.where(unnamed, vocabulary.CACHE, route),
            wasted=members.wasted + unnamed,
        ),
        submits=jnp.zeros_like(unnamed),
        refused=unnamed,
    )


def write_part(members: Members, text: texts.Text) -> Written:
    """The next part; of an empty text, none of its calls are there."""
    calls = texts.as_calls(text, 0)
    refused = jnp.any(calls[..., 0] == tools.REFUSED, axis=-1)
    return Written(
        members=dataclasses.replace(
            _replace_part(members, calls, members.parts_written),
            parts_written=members.parts_written + 1,
        ),
        submits=jnp.zeros_like(refused),
        refused=refused,
    )


def write_revision(members: Members, text: texts.Text) -> Written:
    """``submit``, nothing, a route, or a part and its new calls; the last two cost 1.

    Any other text costs 1 as well, and changes nothing; so does a part that is not
    written yet.
    """
    submits, goes_on = texts.is_submission(text), text.length == 0
    route, part = texts.as_route(text), texts.as_part(text)
    names_route, names_part = route != texts.NO_ROUTE, part < members.parts_written
    calls = texts.as_calls(text, 1)
    revised = _replace_part(
        members, calls, jnp.where(names_part, part, vocabulary.MAX_PARTS)
    )
    refused_call = names_part & jnp.any(calls[..., 0] == tools.REFUSED, axis=-1)
    return Written(
        members=dataclasses.replace(
            revised,
            route=jnp.where(names_route, route, members.route),
            wasted=members.wasted + ~(submits | goes_on),
        ),
        submits=submits,
        refused=refused_call | ~(submits | goes_on | names_route | names_part),
    )


def choose(here: jax.Array, new, old):
    """``new`` for the members bool [N, G] that are here, else ``old``; pytrees."""

    def select(one, other):
        return jnp.where(here.reshape(here.shape + (1,) * (one.ndim - 2)), one, other)

    return jax.tree.map(select, new, old)


def _replace_part(members, calls, part) -> Members:
    """``calls`` as the part int32 [N, G] of the draft; too large a part is none."""
    parts = jnp.arange(members.draft.shape[2], dtype=jnp.int32)[None, None]
    here = (parts == part[..., None])[..., None, None]
    draft = jnp.where(here, calls[:, :, None], members.draft)
    return dataclasses.replace(members, draft=draft)
