"""Speed and memory of the pure core, against the ways one would write it plainly.

python -c "from scripts.benchmarks import ops; print(*ops.run(), sep='\\n')"
"""

import functools
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo import ops, records
from agentic_grpo.ops import credit

TOKENS, HIDDEN, VOCABULARY, TEMPERATURE = 2048, 576, 49_152, 0.8
GROUPS, MEMBERS, STAGES, COLUMNS = 16, 8, 6, 256  # 128 episodes
REPEATS = 5


def run() -> list[dict]:
    """Rows {suite, name, value, unit, reference, reference_value, ratio}.

    A ratio is how many times better than the reference; times are medians of calls that
    alternate with the reference's.
    """
    return [*_token_log_probs(), *_credit()]


def _row(name, value, unit, reference="", reference_value=None):
    ratio = None if reference_value is None else reference_value / value
    return {
        "suite": "ops",
        "name": name,
        "value": value,
        "unit": unit,
        "reference": reference,
        "reference_value": reference_value,
        "ratio": ratio,
    }


def _token_log_probs():
    """Value and gradient of log-probs, in chunks and by way of all logits."""

    def materialised(hidden, unembedding, targets):
        logs = jax.nn.log_softmax(hidden @ unembedding.T / TEMPERATURE)
        return jnp.take_along_axis(logs, targets[:, None], axis=-1)[:, 0]

    def chunked(hidden, unembedding, targets):
        return ops.token_log_probs(
            hidden,
            unembedding,
            targets,
            temperature=TEMPERATURE,
            with_entropy=False,
        )[0]

    keys = jax.random.split(jax.random.key(0), 4)
    hidden = jax.random.normal(keys[0], (TOKENS, HIDDEN))
    unembedding = jax.random.normal(keys[1], (VOCABULARY, HIDDEN)) / HIDDEN**0.5
    targets = jax.random.randint(keys[2], (TOKENS,), 0, VOCABULARY)
    weights = jax.random.normal(keys[3], (TOKENS,))
    arguments = hidden, unembedding, targets

    def compiled(compute):
        def loss(hidden, unembedding, targets):
            return jnp.sum(weights * compute(hidden, unembedding, targets))

        step = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))
        return step.lower(*arguments).compile()

    ours, theirs = compiled(chunked), compiled(materialised)
    memory = [x.memory_analysis().temp_size_in_bytes / 2**20 for x in (ours, theirs)]
    times = _alternate([functools.partial(f, *arguments) for f in (ours, theirs)])
    what, size = "log_softmax of all logits", f"{TOKENS} tokens, V={VOCABULARY}"
    return [
        _row(
            f"log-probs, temporary memory ({size})", memory[0], "MiB", what, memory[1]
        ),
        _row(f"log-probs, value and gradient ({size})", times[0], "s", what, times[1]),
    ]


def _credit():
    """All credit and advantage mathematics of a tick, from events to token credit."""
    rng = np.random.default_rng(0)
    kinds = ("estimate", "skill") * (STAGES // 2)
    shape = GROUPS, MEMBERS, STAGES
    events = records.StageEvents.create(
        reward=rng.uniform(size=shape).astype(np.float32),
        verdict=rng.uniform(size=shape[:2]).astype(np.float32),
        ready=np.ones((GROUPS, STAGES + 1), bool),
    )
    segments = np.minimum(np.arange(COLUMNS) * (STAGES + 1) // COLUMNS, STAGES)
    actions = jnp.ones((GROUPS, MEMBERS, COLUMNS), bool)
    rows = []
    for name in ("agentic", "calibrated"):
        rule = getattr(credit, name)(kinds)

        @jax.jit
        def tick(state, events, rule=rule):
            served = rule.apply(state, events)
            tokens = credit.write_on_tokens(served, segments, actions)
            return tokens, rule.update(state, events)

        call = functools.partial(tick, rule.init(), events)
        milliseconds = 1e3 * _alternate([call], repeats=50)[0]
        rows.append(
            _row(
                f"{name} credit of {GROUPS * MEMBERS} episodes, {STAGES} stages, "
                f"{COLUMNS} columns",
                milliseconds,
                "ms",
            )
        )
    return rows


def _alternate(calls, repeats=REPEATS):
    """Median seconds of each call; they take turns, so that noise hits all alike."""
    for call in calls:
        jax.block_until_ready(call())
    seconds = [[] for _ in calls]
    for _ in range(repeats):
        for call, record in zip(calls, seconds, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(call())
            record.append(time.perf_counter() - start)
    return [statistics.median(record) for record in seconds]
