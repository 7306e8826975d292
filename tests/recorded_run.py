"""The toy run over recorded arrivals, which are the same for every layout.

Sampling from the policy would turn a rounding error into another token, and two runs
would part. Here the tokens depend on the tick and the lane alone, while the learner
still moves away from what "sampled" them.

As a program it is one process of a job: it trains on all devices of the job, and the
first process writes what came of it to the file that it is given.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import toy_environment as toy
import toy_program

from agentic_grpo.training import compiling, devices, leaves, processes

BLOCKS, TICKS, PER_DISPATCH = 8, 20, 2


def write_what_is_recorded(
    params, tokens, token_mask, stage, active, uniforms, *, temperature
):
    """The ``sample`` of a policy that looks at nothing but its uniforms."""
    del params, tokens, token_mask, temperature
    written = (uniforms * toy.VOCABULARY_SIZE).astype(jnp.int32)
    ended = jnp.cumsum(written == toy.END, axis=1) - (written == toy.END) > 0
    width = jnp.asarray(toy_program.environment().spec.layout.action_widths)[stage]
    within = jnp.arange(written.shape[1])[None, :] < width[:, None]
    mask = active[:, None] & within & ~ended
    return written, mask, jnp.where(mask, -jnp.log(toy.VOCABULARY_SIZE), 0.0)


def program():
    policy = toy_program.policy()._replace(sample=write_what_is_recorded)
    # trace(0) changes nothing and keeps the gradient, for the tests to look at
    optimizer = optax.chain(
        optax.trace(decay=0.0), optax.scale_by_adam(), optax.scale(-1.0)
    )
    return toy_program.program(policy=policy, optimizer=optimizer, num_blocks=BLOCKS)


def run(layout, program, ticks=TICKS):
    """(states after each dispatch, by the names of their leaves; metrics of all ticks
    stacked; the last state as it lies on the devices)."""
    state = devices.first_state(
        layout, program, toy_program.initial_params(), jax.random.key(0)
    )
    dispatch, _ = compiling.compile_dispatch(
        layout, program, state, num_ticks=PER_DISPATCH
    )
    states, metrics = [], []
    for _ in range(ticks // PER_DISPATCH):
        state, of_ticks, refused = dispatch(state)
        assert (leaves.to_host(refused.tick) == -1).all()
        states.append(on_host(state))
        metrics.append(jax.device_get(of_ticks))
    stacked = jax.tree.map(lambda *parts: np.concatenate(parts), *metrics)
    return states, stacked, state


def on_host(state) -> dict[str, np.ndarray]:
    return {
        name.removeprefix("state/"): np.asarray(leaves.to_host(leaves.to_array(leaf)))
        for name, leaf in leaves.named(state).items()
    }


def main(path):
    processes.join()
    layout = devices.make_layout(data=0, fsdp=2, num_blocks=BLOCKS)
    states, _, _ = run(layout, program())
    if processes.is_first_process():
        np.savez(path, **states[-1])


if __name__ == "__main__":
    main(sys.argv[1])
