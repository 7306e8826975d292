"""Few configs in which every two legal choices meet."""

import itertools
import random

#: Legal values of the fields that choose between pieces of code.
CHOICES = {
    "algorithm.credit": (
        "outcome",
        "immediate",
        "agentic",
        "calibrated",
        "returns",
        "turn_mix",
        "state_groups",
    ),
    "algorithm.divisor": ("own", "stage", "running", "none"),
    "algorithm.baseline": ("mean", "leave_one_out"),
    "algorithm.use_ranks": (False, True),
    "algorithm.objective": ("clip", "dual_clip", "cispo", "gspo", "reinforce"),
    "algorithm.aggregation": (
        "constant",
        "token_mean",
        "sequence_mean_token_mean",
        "sequence_mean_token_sum",
    ),
    "algorithm.anchor": ("behaviour", "post_immediate", "proximal"),
    "algorithm.importance_treatment": ("none", "truncate", "mask"),
    "algorithm.importance_granularity": ("token", "stage", "episode"),
    "algorithm.exclude_zero_variance": (False, True),
    "learner.schedule": ("constant", "linear", "cosine"),
    "learner.kl_weight": (0.0, 0.1),
    "learner.kl_form": ("loss", "reward"),
    "learner.kl_estimator": ("k1", "k2", "k3"),
    "learner.entropy_weight": (0.0, 0.01),
    "learner.num_microbatches": (1, 2),
    "learner.packed_rows": (0, 4),
    "learner.passes": (1, 2),
    "model.tied_embeddings": (True, False),
    "model.dtype": ("float32", "bfloat16"),
    "model.layers": ("unrolled", "scanned"),
    "model.chunk_size": (0, 8),
    "env.name": ("code_execution", "tool_workflow"),
    "devices.parallelism": ("jit", "pmap"),
    "devices.data": (1, 2),
}

#: Rules that are shared: the others compare values and divide by sigma_N themselves.
WITH_RANKS = ("outcome", "immediate", "agentic")
WITHOUT_DIVISOR = ("calibrated",)
WITHOUT_STAGE_DIVISOR = ("returns", "state_groups")


def is_legal(row) -> bool:
    """The rules between fields, as ``experiments.config.build`` states them."""
    credit = row["algorithm.credit"]
    packed = row["learner.packed_rows"] > 0
    on_one_device = row["devices.data"] == 1 or row["devices.parallelism"] == "pmap"
    return (
        (not row["algorithm.use_ranks"] or credit in WITH_RANKS)
        and (row["algorithm.divisor"] == "running" or credit not in WITHOUT_DIVISOR)
        and (row["algorithm.divisor"] != "stage" or credit not in WITHOUT_STAGE_DIVISOR)
        and (
            row["algorithm.anchor"] != "behaviour"
            or row["algorithm.importance_treatment"] == "none"
        )
        and not (packed and row["learner.num_microbatches"] > 1)
        and (not packed or on_one_device)
    )


def covering_rows(seed=0, *, tries=30):
    """Rows {field: value} in which every pair of choices occurs that can be legal."""
    choose = random.Random(seed)
    choices = [[(name, x) for x in values] for name, values in CHOICES.items()]
    missing = {
        pair
        for one, other in itertools.combinations(choices, 2)
        for pair in itertools.product(one, other)
    }
    rows = []
    while missing:
        pair = min(missing, key=str)
        candidates = [_random_row(choose, pair) for _ in range(tries)]
        legal = [row for row in candidates if is_legal(row)]
        if not legal:
            missing.discard(pair)  # these two do not go together
            continue
        best = max(legal, key=lambda row: len(missing & pairs_of(row)))
        missing -= pairs_of(best)
        rows.append(best)
    return rows


def _random_row(choose, fixed):
    row = {name: choose.choice(values) for name, values in CHOICES.items()}
    return row | dict(fixed)


def pairs_of(row):
    return set(itertools.combinations(row.items(), 2))
