"""The problems of a contest: held-out functions and compositions, rising in level.

Contests are drawn from the environment itself, so that statements, suites and hidden
tests are those of every evaluation; a contest fixes them for all who compete in it.
"""

import jax
import numpy as np

from agentic_grpo.envs import base
from agentic_grpo.errors import require

#: The splits that no training and no warm start has seen.
FUNCTIONS, COMPOSITIONS = "test", "compositions"

MOST_PROBLEMS = 8

#: Problems that are drawn for each contest and split, to choose from.
POOL = 192


def draw(
    environment,
    key,
    *,
    num_contests: int,
    num_problems: int,
    num_compositions: int,
    num_members: int,
) -> base.Start:
    """Problems of C contests, each sorted by level.

    The held-out functions are spread evenly over the levels that there are; the
    compositions are those drawn first. No two problems of a contest share a statement.

    Args:
      environment: an ``envs.base.Environment``.
      key: of the contests.
      num_contests: C.
      num_problems: Q.
      num_compositions: how many of them are of the split ``compositions``.
      num_members: of the groups that will work on them.

    Returns:
      ``Start`` with leading axes [C, Q].

    Raises:
      ValueError: names the number that is wrong, or that a split cannot give.
    """
    in_range = 1 <= num_problems <= MOST_PROBLEMS
    require(in_range, "problems", num_problems, f"in 1 .. {MOST_PROBLEMS}")
    require(
        0 <= num_compositions <= num_problems,
        "compositions",
        num_compositions,
        f"in 0 .. problems={num_problems}",
    )
    require(num_contests >= 1, "contests", num_contests, "at least 1")
    counts = {
        FUNCTIONS: num_problems - num_compositions,
        COMPOSITIONS: num_compositions,
    }
    parts = []
    for number, (split, count) in enumerate(counts.items()):
        if count:
            pool = _pool(
                environment,
                jax.random.fold_in(key, number),
                split=split,
                num_contests=num_contests,
                num_members=num_members,
            )
            spread = split == FUNCTIONS
            parts.append(_choose(pool, count, split=split, spread=spread))
    together = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *parts)
    order = np.argsort(together.level, axis=1, kind="stable")
    return jax.tree.map(lambda leaf: _along(leaf, order), together)


def _pool(environment, key, *, split, num_contests, num_members) -> base.Start:
    """NumPy ``Start`` [C, POOL] of problems of a split."""

    def start(keys):
        return environment.start(keys, split=split, num_members=num_members)

    keys = jax.random.split(key, num_contests * POOL)
    pool = jax.device_get(jax.jit(start)(keys))
    return jax.tree.map(lambda x: x.reshape(num_contests, POOL, *x.shape[1:]), pool)


def _choose(pool, count, *, split, spread) -> base.Start:
    """``count`` problems of each contest's pool."""
    chosen = []
    for tokens, level in zip(pool.prompt_tokens, pool.level, strict=True):
        _, first = np.unique(tokens, axis=0, return_index=True)
        different = np.sort(first)
        if len(different) < count:
            raise ValueError(
                f"problems: {count} different ones of split {split!r} are asked for; "
                f"{POOL} draws gave {len(different)}. Ask for fewer, or contest a run "
                "of more families"
            )
        chosen.append(_spread(different, level, count) if spread else different[:count])
    return jax.tree.map(lambda leaf: _along(leaf, np.array(chosen)), pool)


def _spread(different, level, count):
    """``count`` of the pool's different problems, at evenly spread levels."""
    levels = np.unique(level[different])
    places = np.rint(np.linspace(0, len(levels) - 1, count)).astype(int)
    left, chosen = list(different), []
    for wanted in levels[places]:
        nearest = min(left, key=lambda index: abs(int(level[index]) - int(wanted)))
        left.remove(nearest)  # of equals the one that was drawn first
        chosen.append(nearest)
    return np.array(chosen)


def _along(leaf, index):
    """leaf [C, N, ...] at index [C, n] of its second axis."""
    return leaf[np.arange(len(leaf))[:, None], index]
