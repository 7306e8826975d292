"""Groups with rewards and verdicts, and the serving of their events in any order.

All credit tests share U = 3 groups of G = 4 members with S = 4 stages, so that a rule
compiles once: an estimate, a skill, a stage without reward, an estimate.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.records import StageEvents

U, G, S = 3, 4, 4
VERDICT = S


def make_events(seed=0, **changes):
    """``StageEvents`` of U groups, everything there, everything ready."""
    rng = np.random.default_rng(seed)
    fields = {
        "acted": np.ones((U, G, S), bool),
        "reward": rng.uniform(size=(U, G, S)),
        "reward_mask": np.ones((U, G, S), bool) & (np.arange(S) != 2),
        "verdict": rng.uniform(size=(U, G)),
        "verdict_mask": np.ones((U, G), bool),
        "lost": np.zeros((U, G), bool),
        "state_id": rng.integers(0, 2, (U, G, S)),
        "level": np.arange(U),
        "ready": np.ones((U, S + 1), bool),
        "settled": np.zeros(U, bool),
        "fresh": np.ones((U, S), bool),
        "forecast": rng.uniform(size=(U, G, S)),
        "forecast_mask": np.ones((U, G, S), bool),
        "applied_advantage": np.zeros((U, G, S)),
        "paid": np.zeros((U, G, S), bool),
        "divisor": np.ones((U, S)),
    } | changes
    narrow = {np.dtype(float): np.float32, np.dtype(int): np.int32}
    return StageEvents(
        **{
            name: jnp.asarray(np.asarray(x, narrow.get(np.asarray(x).dtype)))
            for name, x in fields.items()
        }
    )


def serve(rule, events, schedule, *, state=None, learn=False):
    """Serves the events of all groups call by call.

    Args:
      rule: a ``CreditRule``.
      events: as from ``make_events``; ``ready`` is replaced.
      schedule: one entry per call: the events served, a list of indices (VERDICT for
        the verdict), or a dict with "ready" and other fields to replace in this call.
      state: of the rule; a new one by default.
      learn: call ``update`` after every ``apply``.

    Returns:
      (total advantage [2, U, G, S] over the calls, list of ``StageCredit``, state).
    """
    apply, update = jax.jit(rule.apply), jax.jit(rule.update)
    state = rule.init() if state is None else state
    total, credits = np.zeros((2, U, G, S)), []
    for call in schedule:
        call = call if isinstance(call, dict) else {"ready": call}
        ready = np.isin(np.arange(S + 1), call["ready"]) & rule.event_mask
        changes = {name: jnp.asarray(x) for name, x in call.items() if name != "ready"}
        ready = jnp.broadcast_to(jnp.asarray(ready), (U, S + 1))
        events = dataclasses.replace(events, ready=ready, **changes)
        credit = apply(state, events)
        if learn:
            state, _ = update(state, events)
        events = events.after(credit)
        total += np.asarray(credit.advantage, np.float64)
        credits.append(credit)
    return total, credits, state


@pytest.fixture(name="make_events", scope="session")
def make_events_fixture():
    return make_events


@pytest.fixture(name="serve", scope="session")
def serve_fixture():
    return serve
