"""The bandit of ``by_hand`` with a credit rule, which keeps the books.

  python docs/examples/with_a_credit_rule.py

A rule knows what was spent on whom, and takes it back; another rule is another name.
"""

import collections

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo import ops
from agentic_grpo.records import StageEvents

STAGE_REWARD = jnp.array([0.2, 0.9, 0.6, 0.1])  # of the visible tests
VERDICT = jnp.array([0.0, 0.0, 1.0, 0.0])  # of the hidden ones
MEMBERS, DELAY, RATE = 16, 10, 0.5

# One group [U = 1] of G members, one stage [S = 1], one token [T = 1], of segment 1:
SHAPE = (1, MEMBERS, 1)
SEGMENT_OF_COLUMN = np.array([1])
STAGE_IS_IN = jnp.array([[True, False]])  # the stage, then the verdict
VERDICT_IS_IN = jnp.array([[False, True]])
WRITTEN = jnp.ones(SHAPE, bool)


@jax.jit
def step(logits, actions, snapshot, served):
    """One gradient step on the credit that a rule has given."""

    def loss(logits):
        log_probs = jax.nn.log_softmax(logits)[actions].reshape(SHAPE)
        credit = ops.write_on_tokens(served, SEGMENT_OF_COLUMN, WRITTEN)
        losses = ops.two_phase_losses(
            log_probs, snapshot, credit, objective=ops.ppo_clip_loss
        )
        return jnp.sum(ops.masked(losses, credit.mask)) / MEMBERS

    return logits - RATE * jax.grad(loss)(logits)


def train(num_ticks, *, rule="calibrated", stage_reward=STAGE_REWARD, seed=0):
    """The chance of each arm after every tick, float [num_ticks, 4]."""
    rule = ops.credit.RULES[rule](["estimate"])
    state, apply, update = rule.init(), jax.jit(rule.apply), jax.jit(rule.update)
    logits, waiting, curve = jnp.zeros(4), collections.deque(), []
    for tick in range(num_ticks):
        key = jax.random.fold_in(jax.random.key(seed), tick)
        actions = jax.random.categorical(key, logits, shape=(MEMBERS,))
        snapshot = jax.nn.log_softmax(logits)[actions].reshape(SHAPE)
        events = StageEvents.create(
            reward=stage_reward[actions].reshape(SHAPE),
            verdict=jnp.full((1, MEMBERS), jnp.nan),
            ready=STAGE_IS_IN,
        )
        served = apply(state, events)
        logits = step(logits, actions, snapshot, served)
        waiting.append((actions, snapshot, events, served))
        if len(waiting) > DELAY:
            actions, snapshot, events, served = waiting.popleft()
            verdict = VERDICT[actions][None]
            events = events.after(
                served,
                verdict=verdict,
                verdict_mask=jnp.isfinite(verdict),
                ready=VERDICT_IS_IN,
            )
            logits = step(logits, actions, snapshot, apply(state, events))
            state, _ = update(state, events)  # afterwards: it learns what stages mean
        curve.append(jax.nn.softmax(logits))
    return jnp.stack(curve)


if __name__ == "__main__":
    for name in ("outcome", "immediate", "agentic", "calibrated"):
        curve = train(150, rule=name)
        for tick in (DELAY, 50, 150):
            chances = ", ".join(f"{chance:.2f}" for chance in curve[tick - 1])
            print(f"{name:>10}, tick {tick:3d}: {chances}")
