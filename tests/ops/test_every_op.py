"""One contract over every public function: eager = jit = vmap, bfloat16 close."""

import functools
import subprocess
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentic_grpo
from agentic_grpo import ops, records
from agentic_grpo.ops import credit

B, T, S, G, V, H = 2, 6, 3, 4, 9, 5
RNG = np.random.default_rng(0)
SEGMENTS = np.array([0, 1, 1, 2, 3, 3])


def floats(*shape):
    return jnp.asarray(RNG.normal(-1.0, 0.5, size=shape), jnp.float32)


def bools(*shape):
    return jnp.asarray(RNG.random(shape) < 0.8)


LOGS, OTHER, MASK = floats(B, T), floats(B, T), bools(B, T)
GROUP, MEMBERS = floats(G), jnp.ones(G, bool).at[1].set(False)
CREDIT = records.TokenCredit(
    advantage=floats(2, B, T),
    clip_low=jnp.full((2, B, T), 0.2),
    clip_high=jnp.full((2, B, T), 0.28),
    mask=bools(2, B, T),
)
ONE = jax.tree.map(lambda x: x[0], CREDIT)
STAGES = records.StageCredit(
    advantage=floats(2, B, G, S),
    mask=bools(2, B, G, S),
    clip_low=jnp.full((2, B, G, S), 0.2),
    clip_high=jnp.full((2, B, G, S), 0.2),
    applied_advantage=floats(B, G, S),
    paid=bools(B, G, S),
    divisor=jnp.ones((B, S)),
    zero_variance=bools(2, B, S),
)
FIXED = functools.partial

#: name -> (function of arrays alone, its arrays)
CASES = {
    "advantages_by_id": (
        ops.advantages_by_id,
        (GROUP, jnp.array([3, 3, 5, 3]), MEMBERS),
    ),
    "anchored": (FIXED(ops.anchored, anchor="proximal"), (LOGS, OTHER, MASK)),
    "centred_ranks": (ops.centred_ranks, (jnp.array([3.0, 1.0, 2.0, 2.0]), MEMBERS)),
    "chi_square": (ops.chi_square, (LOGS, MASK)),
    "cispo_loss": (ops.cispo_loss, (LOGS, OTHER, ONE)),
    "constant_divisor": (ops.constant_divisor(3.0), (LOGS, MASK)),
    "dropped_credit": (ops.dropped_credit, (MASK, ONE)),
    "dual_clip_loss": (ops.dual_clip_loss, (LOGS, OTHER, ONE)),
    "effective_sample_share": (ops.effective_sample_share, (LOGS, MASK)),
    "fill_stopped": (
        FIXED(ops.fill_stopped, fill="carry_forward", rewarded=np.ones(S, bool)),
        (floats(G, S), bools(G, S), jnp.arange(S)[None] < jnp.arange(G)[:, None]),
    ),
    "geometric_mean_ratios": (
        FIXED(ops.geometric_mean_ratios, segment_of_column=SEGMENTS),
        (LOGS, OTHER, MASK),
    ),
    "group_advantages": (ops.group_advantages, (GROUP, MEMBERS)),
    "group_baseline": (ops.group_baseline, (GROUP, MEMBERS)),
    "group_deviation": (ops.group_deviation, (GROUP, MEMBERS)),
    "gspo_loss": (
        FIXED(ops.gspo_loss, segment_of_column=SEGMENTS),
        (LOGS, OTHER, ONE),
    ),
    "importance_weights": (ops.importance_weights, (LOGS, OTHER, MASK)),
    "is_clipped": (ops.is_clipped, (jnp.exp(LOGS), ONE)),
    "has_zero_variance": (ops.has_zero_variance, (GROUP, MEMBERS)),
    "kl_estimates": (FIXED(ops.kl_estimates, estimator="k3"), (LOGS, OTHER, MASK)),
    "kl_loss": (
        lambda x, y, z, m: ops.kl_loss(x, y, m, estimator="k2", behaviour_log_probs=z),
        (LOGS, OTHER, LOGS, MASK),
    ),
    "kl_reward": (FIXED(ops.kl_reward, to_go=True), (LOGS, OTHER, MASK)),
    "log_ratios": (ops.log_ratios, (LOGS, OTHER, MASK)),
    "masked": (ops.masked, (LOGS, MASK)),
    "masked_mean": (ops.masked_mean, (LOGS, MASK)),
    "masked_sum": (ops.masked_sum, (LOGS, MASK)),
    "on_token_columns": (
        FIXED(ops.on_token_columns, segment_of_column=SEGMENTS),
        (floats(B, S),),
    ),
    "ppo_clip_loss": (ops.ppo_clip_loss, (LOGS, OTHER, ONE)),
    "product_ratios": (ops.product_ratios, (LOGS, OTHER, MASK)),
    "read_out": (ops.read_out, (floats(T, H), floats(V, H))),
    "reinforce_loss": (ops.reinforce_loss, (LOGS, OTHER, ONE)),
    "scale_by_batch": (ops.scale_by_batch, (LOGS, MASK)),
    "sequence_mean_token_mean": (ops.sequence_mean_token_mean, (LOGS, MASK)),
    "sequence_mean_token_sum": (ops.sequence_mean_token_sum, (LOGS, MASK)),
    "sequence_rejection": (
        FIXED(ops.sequence_rejection, low=0.9, high=1.1),
        (LOGS, OTHER, MASK),
    ),
    "stage_increments": (ops.stage_increments, (GROUP, MEMBERS)),
    "stage_returns": (FIXED(ops.stage_returns, discount=0.9), (GROUP, MEMBERS)),
    "token_credit": (
        FIXED(ops.token_credit, clip_low=0.2, clip_high=0.2),
        (LOGS, MASK),
    ),
    "token_log_probs": (
        FIXED(ops.token_log_probs, chunk_size=4),
        (floats(T, H), floats(V, H), jnp.arange(T)),
    ),
    "token_mean": (ops.token_mean, (LOGS, MASK)),
    "token_ratios": (ops.token_ratios, (LOGS, OTHER, MASK)),
    "two_phase_losses": (
        FIXED(ops.two_phase_losses, objective=ops.ppo_clip_loss),
        (LOGS, OTHER, CREDIT),
    ),
    "write_on_tokens": (
        lambda stages, mask: ops.write_on_tokens(stages, SEGMENTS, mask),
        (STAGES, bools(B, G, T)),
    ),
}
JITTED = {name: jax.jit(function) for name, (function, _) in CASES.items()}
#: Answers that are comparisons flip on rounding; a bare gather keeps its type.
NOT_IN_BFLOAT16 = {"sequence_rejection", "is_clipped", "on_token_columns"}


def test_every_public_function_is_covered():
    records_and_rooms = {
        name
        for name in ops.__all__
        if isinstance(getattr(ops, name), type | types.ModuleType)
    }
    assert set(CASES) == set(ops.__all__) - records_and_rooms
    assert set(ops.__all__) < set(agentic_grpo.__all__)
    assert all(hasattr(agentic_grpo, name) for name in agentic_grpo.__all__)


@pytest.mark.parametrize("name", CASES)
def test_eager_jit_and_vmap_agree(name):
    function, arguments = CASES[name]
    with jax.numpy_dtype_promotion("strict"):
        eager = function(*arguments)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)
    jax.tree.map(close, JITTED[name](*arguments), eager)
    twice = jax.tree.map(lambda x: jnp.stack([x, x]), arguments)
    both = jax.jit(jax.vmap(function))(*twice)
    jax.tree.map(lambda x, y: close(x[1], y), both, eager)
    for leaf in jax.tree.leaves(eager):
        assert leaf.dtype in (jnp.float32, jnp.bool_)


@pytest.mark.parametrize("name", sorted(set(CASES) - NOT_IN_BFLOAT16))
def test_bfloat16_inputs_are_accumulated_in_float32(name):
    """The answer is that of the rounded inputs, to float32 accuracy."""
    arguments = CASES[name][1]

    def narrow(x):
        return x.astype(jnp.bfloat16) if x.dtype == jnp.float32 else x

    rounded = jax.tree.map(narrow, arguments)
    widened = jax.tree.map(lambda x, y: x.astype(y.dtype), rounded, arguments)
    got, expected = JITTED[name](*rounded), JITTED[name](*widened)
    for ours, theirs in zip(*map(jax.tree.leaves, (got, expected)), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(
            np.asarray(ours, np.float32), theirs, rtol=2e-2, atol=2e-3
        )


@pytest.mark.parametrize("name", ["agentic", "calibrated", "state_groups"])
def test_credit_rules_accept_bfloat16_and_do_not_retrace(name, make_events):
    """Same shapes, same types: the second tick must not compile again."""
    kinds = ("estimate", "none", "none", "estimate")
    rule = getattr(credit, name)(kinds)
    traces = []

    @jax.jit
    def tick(state, events):
        traces.append(None)
        return rule.apply(state, events), rule.update(state, events)[0]

    events = make_events(1)
    served, state = tick(rule.init(), events)
    tick(state, events)
    assert len(traces) == 1
    narrow = jax.tree.map(
        lambda x: x.astype(jnp.bfloat16) if x.dtype == jnp.float32 else x, events
    )
    rounded, _ = tick(state, narrow)
    np.testing.assert_allclose(rounded.advantage, served.advantage, atol=0.05)


def test_importing_the_front_door_touches_no_device():
    """Arrays made at import would start a backend before it can be configured."""
    program = (
        "import agentic_grpo, jax; jax.config.update('jax_num_cpu_devices', 3);"
        "print(len(jax.devices('cpu')))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "3"
