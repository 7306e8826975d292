"""Suite learner: a whole optimizer step, in the shapes that the peers are given too.

A decoder of 4 layers, hidden size 256, 4 heads of 64, a gated MLP of 1,024 and a tied
embedding takes 8 rows of 256 tokens, of which 224 are trained: forward, loss, backward,
AdamW. Beside it what each choice of layers costs in time and memory.
"""

import jax
import jax.numpy as jnp

from experiments.runs import profiling
from scripts.benchmarks import workloads
from scripts.benchmarks.measuring import result, take_turns

VOCABULARIES = (4096, 49_152)
REPEATS = 5


def run(sizes: workloads.Sizes = workloads.FULL, vocabularies=VOCABULARIES) -> list:
    """Rows as in ``measuring.result``."""
    rows = []
    for vocabulary in vocabularies:
        rows += _step(sizes, vocabulary)
    peak = profiling.peak_flops() / 1e9
    return [
        *rows,
        *_layers(sizes, vocabularies[0]),
        result("learner", "matrix product 2048^3", peak, "GFLOP/s"),
    ]


def _step(sizes, vocabulary):
    call, compiled = workloads.learner_step(sizes, vocabulary)
    square, peak_flops = matrix_product()
    timing, peak = take_turns([call, square], repeats=REPEATS)
    tokens = sizes.rows * sizes.columns
    speed, spread = timing.rate(tokens)
    flops = flops_per_step(sizes, vocabulary)
    bound = peak_flops / peak.median
    name = f"learner step, V={vocabulary}"
    memory = compiled.memory_analysis().temp_size_in_bytes / 2**20
    return [
        result(
            "learner",
            name,
            speed,
            "tokens/s",
            spread=spread,
            reference="this machine's matrix products alone",
            reference_value=tokens * bound / flops,
        ),
        result("learner", f"{name}, time", 1e3 * timing.median, "ms", spread=spread),
        result(
            "learner",
            f"{name}, FLOP utilisation",
            100 * flops / timing.median / bound,
            "percent",
        ),
        result("learner", f"{name}, temporary memory", memory, "MiB"),
    ]


def matrix_product(size: int = 1024):
    """(a product to time beside the work, its floating-point operations)."""
    square = jnp.ones((size, size), jnp.float32)
    product = jax.jit(jnp.matmul).lower(square, square).compile()
    return lambda: product(square, square), 2.0 * size**3


def flops_per_step(sizes: workloads.Sizes, vocabulary: int) -> float:
    """Of the matrix products that the step needs: 6 per weight and token.

    Attention counts in full, without the half that causality would save; the read-out
    counts on trained tokens alone.
    """
    fields = dict(sizes.decoder)
    hidden, mlp = fields["hidden_size"], fields["mlp_size"]
    query = fields["num_heads"] * fields["head_size"]
    fused = query + 2 * fields["num_kv_heads"] * fields["head_size"]
    layer = hidden * fused + query * hidden + 3 * hidden * mlp
    attention = 2 * query * sizes.columns
    per_token = fields["num_layers"] * (layer + attention)
    tokens = sizes.rows * sizes.columns
    trained = sizes.rows * sizes.trained_columns
    return 6.0 * (tokens * per_token + trained * vocabulary * hidden)


def _layers(sizes, vocabulary):
    """The two forms of the layers: equal values, other speed and memory."""
    forms = ("unrolled", "scanned")
    built = [workloads.learner_step(sizes, vocabulary, layers=form) for form in forms]
    timings = take_turns([call for call, _ in built], repeats=REPEATS)
    rows = []
    plain = built[0][1].memory_analysis().temp_size_in_bytes / 2**20
    for form, (_, compiled), timing in zip(forms, built, timings, strict=True):
        memory = compiled.memory_analysis().temp_size_in_bytes / 2**20
        name = f"layers {form}, V={vocabulary}"
        rows += [
            result(
                "learner",
                f"{name}, time",
                1e3 * timing.median,
                "ms",
                spread=timing.spread,
                reference="unrolled",
                reference_value=1e3 * timings[0].median,
                lower_is_better=True,
            ),
            result(
                "learner",
                f"{name}, temporary memory",
                memory,
                "MiB",
                reference="unrolled",
                reference_value=plain,
                lower_is_better=True,
            ),
        ]
    return rows
