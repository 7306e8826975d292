"""Suite rollout: decoding with a cache, prefill and log-probs included.

32 rows of the learner suite's decoder read a prompt of 32 tokens and write 128 at
temperature 1. No text ends early, so all that is counted is written.
"""

from scripts.benchmarks import workloads
from scripts.benchmarks.learner import VOCABULARIES, matrix_product
from scripts.benchmarks.measuring import result, take_turns

REPEATS = 5


def run(sizes: workloads.Sizes = workloads.FULL, vocabularies=VOCABULARIES) -> list:
    """Rows as in ``measuring.result``."""
    rows = []
    for vocabulary in vocabularies:
        call = workloads.decoding(sizes, vocabulary)
        square, product_flops = matrix_product()
        timing, peak = take_turns([call, square], repeats=REPEATS)
        tokens = sizes.decode_rows * sizes.new_tokens
        speed, spread = timing.rate(tokens)
        flops = flops_of_decoding(sizes, vocabulary)
        bound = product_flops / peak.median
        name = f"decoding, V={vocabulary}"
        rows += [
            result(
                "rollout",
                name,
                speed,
                "tokens/s",
                spread=spread,
                reference="this machine's matrix products alone",
                reference_value=tokens * bound / flops,
            ),
            result(
                "rollout", f"{name}, time", 1e3 * timing.median, "ms", spread=spread
            ),
            result(
                "rollout",
                f"{name}, FLOP utilisation",
                100 * flops / timing.median / bound,
                "percent",
            ),
        ]
    return rows


def flops_of_decoding(sizes: workloads.Sizes, vocabulary: int) -> float:
    """2 per weight and token; attention over the mean width of the cache."""
    fields = dict(sizes.decoder)
    hidden, mlp = fields["hidden_size"], fields["mlp_size"]
    query = fields["num_heads"] * fields["head_size"]
    fused = query + 2 * fields["num_kv_heads"] * fields["head_size"]
    layer = hidden * fused + query * hidden + 3 * hidden * mlp
    width = sizes.prompt + sizes.new_tokens
    read = fields["num_layers"] * width * (layer + query * width)
    return 2.0 * sizes.decode_rows * (read + sizes.new_tokens * vocabulary * hidden)
