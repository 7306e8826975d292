"""Speed of the decoder: a learner's step, and decoding with a cache.

The decoder has 4 layers, hidden size 256, 4 heads of 64, a gated MLP of 1,024, a tied
embedding and a vocabulary of 4,096. References: on two cores of an AMD EPYC a plain JAX
decoder of these sizes took 548 ms for a learner's step (forward, loss, backward, AdamW)
and wrote 4,530 tokens/s; and the bound that this machine's own matrix products set.

    python -c "from scripts.benchmarks import models; print(*models.run(), sep='\\n')"
"""

import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

from agentic_grpo.models import decoding
from agentic_grpo.models.transformer import Transformer, TransformerConfig

CONFIG = TransformerConfig(
    vocabulary_size=4096,
    num_layers=4,
    hidden_size=256,
    num_heads=4,
    num_kv_heads=4,
    head_size=64,
    mlp_size=1024,
)
PROTOTYPE_STEP_SECONDS = 0.548
PROTOTYPE_DECODED_PER_SECOND = 4530.0
TRAIN_ROWS, TRAIN_COLUMNS = 8, 256
DECODE_ROWS, PROMPT, NEW_TOKENS = 32, 32, 128
REPEATS = 7


def run() -> list[dict]:
    model = Transformer(CONFIG)
    params = jax.jit(model.init)(jax.random.key(0))
    trained = TRAIN_ROWS * TRAIN_COLUMNS
    gradient, step = _learner_functions(model, params)
    decoded = DECODE_ROWS * NEW_TOKENS
    peak = _peak_flops()
    bound = peak / _flops_per_trained_token(params)
    prototype = "plain JAX decoder, two EPYC cores"
    return [
        _row("matrix product 2048^3", peak / 1e9, "GFLOP/s", "itself", peak / 1e9),
        _row(
            "forward and backward",
            trained / _seconds(gradient),
            "tokens/s",
            "bound by this machine's matrix products",
            bound,
        ),
        _row(
            "forward, loss, backward, AdamW",
            trained / _seconds(step),
            "tokens/s",
            prototype,
            trained / PROTOTYPE_STEP_SECONDS,
        ),
        _row(
            "decoding",
            decoded / _seconds(_decoding_function(model, params)),
            "tokens/s",
            prototype,
            PROTOTYPE_DECODED_PER_SECOND,
        ),
    ]


def _learner_functions(model, params):
    """Two thunks: loss and gradient; the same with an AdamW step."""
    shape = (TRAIN_ROWS, TRAIN_COLUMNS)
    tokens = jax.random.randint(jax.random.key(1), shape, 0, CONFIG.vocabulary_size)
    token_mask = jnp.ones(shape, bool)
    visibility = np.tril(np.ones((TRAIN_COLUMNS,) * 2, bool))

    @jax.jit
    def gradient(params):
        def loss(params):
            log_probs, _ = decoding.score(model, params, tokens, token_mask, visibility)
            return -jnp.mean(log_probs)

        return jax.value_and_grad(loss)(params)

    optimizer = optax.adamw(1e-4)

    @jax.jit
    def step(params, state):
        value, grads = gradient(params)
        updates, state = optimizer.update(grads, state, params)
        return value, optax.apply_updates(params, updates), state

    state = optimizer.init(params)
    return lambda: gradient(params), lambda: step(params, state)


def _decoding_function(model, params):
    """A thunk that writes every token of every row: no token ends a row."""
    columns = PROMPT + NEW_TOKENS
    shape = (DECODE_ROWS, columns)
    tokens = jax.random.randint(jax.random.key(2), shape, 0, CONFIG.vocabulary_size)
    token_mask = jnp.broadcast_to(jnp.arange(columns)[None] < PROMPT, shape)
    uniforms = jax.random.uniform(jax.random.key(3), (DECODE_ROWS, NEW_TOKENS))

    @jax.jit
    def decode(params, tokens, token_mask, uniforms):
        return decoding.sample_actions(
            model,
            params,
            tokens,
            token_mask,
            jnp.ones(shape, bool),
            jnp.full(DECODE_ROWS, PROMPT - 1),
            jnp.full(DECODE_ROWS, NEW_TOKENS),
            jnp.ones(DECODE_ROWS, bool),
            uniforms,
            column_visibility=np.tril(np.ones((columns, columns), bool)),
            max_actions=NEW_TOKENS,
            prefix_width=PROMPT,
            end_token=-1,
            pad_token=0,
            temperature=1.0,
        )

    return lambda: decode(params, tokens, token_mask, uniforms)


def _flops_per_trained_token(params):
    """6 per weight of a matrix (tied: one read-out), and causal attention in full."""
    matrices = sum(leaf.size for leaf in jax.tree.leaves(params) if leaf.ndim == 2)
    heads = CONFIG.num_layers * CONFIG.num_heads * CONFIG.head_size
    return 6 * matrices + 12 * heads * TRAIN_COLUMNS


def _peak_flops():
    square = jnp.ones((2048, 2048))
    product = jax.jit(jnp.matmul)
    return 2 * 2048**3 / _seconds(lambda: product(square, square))


def _seconds(function):
    """Median of some runs after the one that compiles."""
    jax.block_until_ready(function())
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _row(name, value, unit, reference, reference_value):
    return {
        "suite": "models",
        "name": name,
        "value": value,
        "unit": unit,
        "reference": reference,
        "reference_value": reference_value,
        "ratio": value / reference_value,
    }
