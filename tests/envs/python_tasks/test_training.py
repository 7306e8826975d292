"""The unchanged tick trains on Python tasks, and a dead sandbox does not end it."""

import functools

import jax
import numpy as np
import pytest
import toy_program

from agentic_grpo.envs import simulated_clock
from agentic_grpo.envs.latency import Latency
from agentic_grpo.models.policy import decoder_policy
from agentic_grpo.models.transformer import Transformer, TransformerConfig
from agentic_grpo.ops import credit
from agentic_grpo.training import tick, tick_metrics

TICKS = 5


@pytest.mark.slow
def test_the_tick_trains_on_programs_and_outlives_their_sandbox(make, pool):
    tasks = make(stages=("code", "debug"), program_width=8, feedback_width=8)
    environment = simulated_clock.on_simulated_clock(
        tasks,
        stage_latencies=[Latency(minimum=1)] * 2,
        verdict_latency=Latency(minimum=1),
    )
    spec = environment.spec
    config = TransformerConfig(
        vocabulary_size=spec.vocabulary_size,
        num_layers=1,
        hidden_size=16,
        num_heads=2,
        num_kv_heads=1,
        head_size=8,
        mlp_size=32,
    )
    policy = decoder_policy(
        Transformer(config),
        spec.layout,
        end_tokens=spec.end_tokens,
        pad_token=spec.pad_token,
    )
    rule = credit.agentic(spec.layout.kinds)
    program = toy_program.program(
        rule, environment=environment, policy=policy, num_blocks=1
    )
    params = jax.jit(policy.init)(jax.random.key(0))
    start = tick.init(program, params, jax.random.key(1))
    run = jax.jit(functools.partial(tick.run_ticks, program, num_ticks=TICKS))
    state, metrics = run(start)
    asked = len(pool.submitted)
    assert asked > 20 and int(np.sum(metrics["members_at_fault"])) == 0
    assert tick_metrics.summarise(metrics)["verdict"] == 0.0  # noise, and judged

    again, _ = run(start)
    jax.tree.map(np.testing.assert_array_equal, *map(_data, (state, again)))
    assert len(pool.submitted) == asked  # remembered

    pool.broken = RuntimeError("sandbox died")
    other = tick.init(program, params, jax.random.key(2))
    _, metrics = run(other)
    assert int(np.sum(metrics["members_at_fault"])) > 0


def _data(state):
    """The leaves as arrays; keys as their data."""
    return [
        jax.random.key_data(leaf)
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        else leaf
        for leaf in jax.tree.leaves(state)
    ]
