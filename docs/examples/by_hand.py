"""Agentic GRPO by hand: a stage reward that is in at once, a verdict that is late.

  python docs/examples/by_hand.py

Four arms. Arm 1 looks best to the visible tests; arm 2 is what the hidden ones want.
Early credit moves the policy to arm 1; the corrections bring it to arm 2.
"""

import collections

import jax
import jax.numpy as jnp

from agentic_grpo import ops

STAGE_REWARD = jnp.array([0.2, 0.9, 0.6, 0.1])
VERDICT = jnp.array([0.0, 0.0, 1.0, 0.0])
MEMBERS, DELAY, RATE = 16, 10, 0.5
PRESENT = jnp.ones(MEMBERS, bool)


@jax.jit
def step(logits, actions, snapshot, advantage):
    """One gradient step on what a group wrote: actions [G], the others [G] as well."""

    def loss(logits):
        log_probs = jax.nn.log_softmax(logits)[actions]
        credit = ops.token_credit(
            advantage[:, None], PRESENT[:, None], clip_low=0.8, clip_high=0.8
        )
        losses = ops.ppo_clip_loss(log_probs[:, None], snapshot[:, None], credit)
        return ops.token_mean(losses, PRESENT[:, None]).over()

    return logits - RATE * jax.grad(loss)(logits)


def advantages(rewards):
    return ops.group_advantages(rewards, PRESENT, divisor="none").advantage


def train(num_ticks, *, at_once=True, seed=0):
    """The chance of each arm after every tick, float [num_ticks, 4]."""
    logits, waiting, curve = jnp.zeros(4), collections.deque(), []
    for tick in range(num_ticks):
        key = jax.random.fold_in(jax.random.key(seed), tick)
        actions = jax.random.categorical(key, logits, shape=(MEMBERS,))
        snapshot = jax.nn.log_softmax(logits)[actions]  # stored at sampling
        spent = jnp.zeros(MEMBERS)
        if at_once:
            spent = advantages(STAGE_REWARD[actions])
            logits = step(logits, actions, snapshot, spent)
        waiting.append((actions, snapshot, spent))
        if len(waiting) > DELAY:  # a verdict arrives: correct what was spent on it
            actions, snapshot, spent = waiting.popleft()
            correction = advantages(VERDICT[actions]) - spent
            logits = step(logits, actions, snapshot, correction)
        curve.append(jax.nn.softmax(logits))
    return jnp.stack(curve)


if __name__ == "__main__":
    for name, at_once in (("waits", False), ("two phases", True)):
        curve = train(150, at_once=at_once)
        for tick in (DELAY, 50, 150):
            chances = ", ".join(f"{chance:.2f}" for chance in curve[tick - 1])
            print(f"{name:>10}, tick {tick:3d}: {chances}")
