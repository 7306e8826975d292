"""The examples of the ops page run as they stand, in somebody else's loop."""

import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo import ops

PAGE = pathlib.Path(ops.__file__).with_name("README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def foreign_loop(make_events):
    """What the reader is said to have: a model, a batch, rewards, events."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 7, size=(4, 6))
    params = {
        "in": jnp.asarray(rng.normal(size=(7, 3)), jnp.float32),
        "out": jnp.asarray(rng.normal(size=(7, 3)), jnp.float32),
    }

    def model(params, tokens):
        return params["in"][tokens[:, :-1]]

    snapshot, _ = ops.token_log_probs(
        model(params, tokens), params["out"], tokens[:, 1:]
    )
    events = make_events(1)
    groups = jnp.broadcast_to(snapshot, (3, *snapshot.shape))
    return {
        "model": model,
        "params": params,
        "tokens": tokens,
        "action_mask": jnp.asarray(rng.random((4, 5)) < 0.8),
        "snapshot": snapshot,
        "stage_reward": jnp.array([0.1, 0.9, 0.4, 0.4]),
        "verdict": jnp.array([0.0, 1.0, 1.0, 0.0]),
        "U": 3,
        "G": 4,
        "reward_of_stage_0": events.reward[:, :, 0],
        "verdict_of_groups": events.verdict,
        "segment_of_column": np.array([0, 1, 2, 3, 4]),
        "action_mask_of_groups": jnp.ones((3, 4, 5), bool),
        "log_probs": groups,
        "snapshot_of_groups": groups,
    }


def test_the_examples_run_and_do_what_they_say(make_events):
    names = foreign_loop(make_events)
    start = jax.tree.map(jnp.copy, names["params"])
    assert len(BLOCKS) == 4
    for block in BLOCKS:
        exec(block, names)
    moved = jax.tree.map(
        lambda a, b: float(jnp.abs(a - b).max()), names["params"], start
    )
    assert min(moved.values()) > 1e-3
    np.testing.assert_allclose(
        names["applied"] + names["correction"], names["outcome"], atol=1e-6
    )
    assert names["losses"].shape == (2, 3, 4, 5)
    summed = names["served"].advantage.sum(0) + names["corrected"].advantage.sum(0)
    events = make_events(1)
    for u in range(3):
        expected = ops.group_advantages(
            events.verdict[u], np.ones(4, bool), divisor="running", sigma=0.5
        )
        for s in range(4):
            np.testing.assert_allclose(summed[u, :, s], expected.advantage, atol=1e-6)
    assert names["report"]["settled_groups"] == 3


def test_the_table_names_every_public_function():
    """A page that lags behind the code is worse than none."""
    listed = set(re.findall(r"`(\w+)", PAGE))
    for name in ops.__all__:
        if name[0].islower() and name != "credit":
            found = name in listed or name == "sequence_mean_token_sum"
            assert found, name
    for rule in (n for n in ops.credit.__all__ if n[0].islower()):
        assert rule in listed, rule
