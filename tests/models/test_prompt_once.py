"""The prompt of a group, read once, changes no token, no score and no gradient."""

import functools

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from packed_episodes import CONFIG, END, draw_episodes, layout_of

from agentic_grpo.models import packing, transformer
from agentic_grpo.models.policy import decoder_policy

G = 3
LAYOUT = layout_of(blind=False)
P = LAYOUT.prompt_width


def policy_of(*, layout=LAYOUT, rows=1):
    grouped = packing.Packing(rows=rows, width=1, group_size=G, shared_width=P)
    folded = grouped.folded_columns(layout.num_columns)
    return decoder_policy(
        transformer.Transformer(CONFIG),
        layout,
        end_tokens=(END,),
        pad_token=0,
        packing=packing.Packing(
            rows=rows, width=folded + 5, group_size=G, shared_width=P
        ),
        prompt_once=True,
    )


def draw_groups(layout=LAYOUT):
    """Episodes of which G neighbours have the same prompt; one group is empty."""
    tokens, mask, action = draw_episodes(layout, np.random.default_rng(0), 12)
    for first in range(0, 12, G):
        tokens[first : first + G, :P] = tokens[first, :P]
        mask[first : first + G, :P] = mask[first, :P]
    mask[3:6] = action[3:6] = False
    mask[-1], action[-1] = mask[0], action[0]
    mask[9:12, :P] = mask[9, :P]
    return tokens, mask, action


@pytest.mark.parametrize("blind", [False, True])
def test_packed_groups_equal_unpacked_values_and_gradients(blind):
    # A member that sees another, or whose positions go on from it, differs.
    layout = layout_of(blind=blind)
    policy = policy_of(layout=layout)
    tokens, mask, action = draw_groups(layout)
    # the tokens of one member in a group that nobody trains are not wanted
    wanted = mask.copy()
    wanted[1] = False
    trained = action & wanted
    params = policy.init(jax.random.key(0))
    plan = policy.packed.plan(jnp.asarray(wanted))
    weights = np.random.default_rng(1).normal(size=(2, *tokens.shape)) * trained

    def total(scores):
        return jnp.sum(weights[0] * scores[0] + weights[1] * scores[1]), scores

    @jax.jit
    def unpacked(params):
        return total(policy.score(params, tokens, mask, temperature=1.0))

    @jax.jit
    def packed(params):
        parts = [
            policy.packed.score(params, tokens, plan, part, temperature=1.0)
            for part in range(4)
        ]
        return total(tuple(map(sum, zip(*parts, strict=True))))

    gradient = functools.partial(jax.value_and_grad, has_aux=True)
    (_, expected), expected_gradient = gradient(unpacked)(params)
    (_, got), got_gradient = gradient(packed)(params)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one * trained, other * trained, rtol=1e-6, atol=1e-6)
    got, _ = jax.flatten_util.ravel_pytree(got_gradient)
    expected, _ = jax.flatten_util.ravel_pytree(expected_gradient)
    assert np.linalg.norm(got - expected) <= 1e-6 * np.linalg.norm(expected)


def test_a_prompt_stands_in_a_row_once():
    policy = policy_of()
    _, mask, _ = draw_groups()
    plan = policy.packed.plan(jnp.asarray(mask))
    prompts = mask[::G, :P].sum(axis=1)
    own = mask[:, P:].reshape(len(prompts), -1).sum(axis=1)
    np.testing.assert_array_equal(plan.length, prompts + own)
    here = sum(policy.packed.is_here(plan, part).astype(int) for part in range(4))
    np.testing.assert_array_equal(here, np.repeat(plan.length > 0, G))


@pytest.mark.parametrize("stage", [0, 1])
def test_a_shared_prompt_writes_the_same_tokens(stage):
    tokens, mask, _ = draw_groups()
    offset = LAYOUT.offsets[stage]
    mask = mask.copy()
    mask[:, offset + 1 :] = False
    mask[:, offset] = True
    mask[:, 0] = True
    uniforms = np.random.default_rng(3).random((12, LAYOUT.max_action_width))

    policy = policy_of()

    def sample(group_size):
        params = policy.init(jax.random.key(0))
        return jax.jit(
            functools.partial(policy.sample, temperature=1.0, group_size=group_size)
        )(
            params,
            jnp.asarray(tokens),
            jnp.asarray(mask),
            jnp.full(12, stage, jnp.int32),
            jnp.ones(12, bool),
            jnp.asarray(uniforms, jnp.float32),
        )

    expected, got = sample(1), sample(G)
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_array_equal(got[1], expected[1])
    np.testing.assert_allclose(got[2], expected[2], rtol=1e-5, atol=1e-6)


def test_the_prompt_is_read_in_one_row_of_each_group():
    rows = []

    class Counting(transformer.Transformer):
        def prefill(self, params, tokens, *arguments, **options):
            rows.append(tokens.shape)
            return super().prefill(params, tokens, *arguments, **options)

    policy = decoder_policy(
        Counting(CONFIG), LAYOUT, end_tokens=(END,), pad_token=0, prompt_once=True
    )
    tokens, mask, _ = draw_groups()
    jax.eval_shape(
        functools.partial(policy.sample, temperature=1.0, group_size=G),
        policy.init(jax.random.key(0)),
        tokens,
        mask,
        np.zeros(12, np.int32),
        np.ones(12, bool),
        np.zeros((12, LAYOUT.max_action_width), np.float32),
    )
    rest = int(LAYOUT.offsets[-1]) + 1 - P
    assert rows == [(12 // G, P), (12, rest)]
