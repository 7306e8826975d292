"""All checks of the contract, run on one policy."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from agentic_grpo.errors import Violation, require_none
from agentic_grpo.models.base import Policy
from agentic_grpo.models.testing import playing
from agentic_grpo.models.testing.episodes import Episodes

#: What is checked, in this order.
CHECKS = {
    "runs": "init, sample and score trace under jit",
    "shapes": "shapes and types are those that models.base says",
    "deterministic": "the same key and uniforms give the same, and uniforms matter",
    "masks": "what is written is a prefix: within the stage, up to the end token",
    "tokens": "what is written is of the vocabulary",
    "scores": "score gives the log-probs that sample recorded, at any temperature",
    "distribution": "tokens come as often as their log-probs say",
    "greedy": "temperature 0 takes the most probable token, whatever the uniforms",
    "columns": "0 on columns that never hold actions; entropy in [0, log V]",
    "padding": "what stands outside the token mask leaves no trace",
    "causal": "no score depends on what comes later",
    "visibility": "no stage reads what layout.visibility hides from it",
    "rows": "a row alone is what it is in a batch",
}

#: Largest difference of float32 log-probs that is rounding.
TOLERANCE = 1e-4


def check_policy(policy: Policy, spec: Any, **options) -> None:
    """Raises a ``ContractError`` that lists what ``violations`` finds, if any."""
    require_none("the policy", violations(policy, spec, **options))


def violations(
    policy: Policy,
    spec: Any,
    *,
    params: Any = None,
    num_rows: int = 6,
    seed: int = 0,
    tolerance: float = TOLERANCE,
) -> list[Violation]:
    """Everything in which a policy breaks the contract of ``models.base``.

    Args:
      policy: a ``models.base.Policy``.
      spec: of an environment: ``vocabulary_size``, ``pad_token``, ``end_tokens`` and
        ``layout`` are read.
      params: with which it is tried; None: those of ``init``.
      num_rows: M, at least 2.
      seed: of all that is random here.
      tolerance: largest difference between log-probs that counts as rounding; 2e-2 is
        fair for a model in bfloat16.

    Returns:
      The violations, in the order of ``CHECKS``; each message once.
    """
    examination = _Examination(policy, spec, params, num_rows, seed, tolerance)
    try:
        examination.play()
    except Exception as error:  # whatever a foreign model raises
        reason = f"{type(error).__name__}: {str(error).splitlines()[0][:300]}"
        return [Violation("runs", f"it cannot be run under jit: {reason}")]
    found = []
    for name in list(CHECKS)[1:]:
        found += [Violation(name, text) for text in getattr(examination, name)()]
        if found and name == "shapes":
            break  # the other checks compare values
    return list(dict.fromkeys(found))


class _Examination(playing.Played):
    """Every check as a method of its name: the sentences that say what is wrong."""

    def shapes(self) -> Iterator[str]:
        layout = self.spec.layout
        action = self.num_rows, layout.max_action_width
        row = self.num_rows, layout.num_columns
        _, _, *written = self.written[0]
        names = ("tokens of sample", "mask of sample", "log_probs of sample")
        wanted = [
            *zip(names, written, (np.int32, np.bool_, np.float32), strict=True),
            *zip(
                ("log_probs of score", "entropy of score"),
                self.scored,
                (np.float32, np.float32),
                strict=True,
            ),
        ]
        for name, value, dtype in wanted:
            shape = action if name.endswith("sample") else row
            if value.shape != shape or value.dtype != dtype:
                yield (
                    f"{name} is {value.dtype} {list(value.shape)}; it must be "
                    f"{np.dtype(dtype)} {list(shape)}"
                )

    def deterministic(self) -> Iterator[str]:
        plain, again = self.played[1.0], self.again
        if not np.array_equal(plain.tokens, again.tokens):
            yield "the same uniforms give other tokens"
        once, twice = (jax.jit(self.policy.init)(self.key) for _ in range(2))
        same = jax.tree.map(np.array_equal, once, twice)
        if not all(jax.tree.leaves(same)):
            yield "the same key gives other parameters"
        tokens = [self.first_tokens(np.float32(u)) for u in (0.0, 0.25, 0.5, 0.9999)]
        if all(np.array_equal(tokens[0], other) for other in tokens[1:]):
            yield "uniforms change nothing of what is sampled at temperature 1"

    def masks(self) -> Iterator[str]:
        for stage, active, tokens, mask, _ in self.written:
            name = self.spec.layout.stages[stage].name
            width = self.spec.layout.stages[stage].action_width
            if (mask[:, 1:] & ~mask[:, :-1]).any():
                yield f"the mask of stage {name} is no prefix"
            if mask[:, width:].any():
                yield f"more than the {width} tokens of stage {name} are written"
            if mask[~active].any():
                yield "a row that is not active writes"
            if (active & ~mask[:, 0]).any():
                yield "an active row writes nothing, not even an end token"
            is_end = np.isin(tokens, self.spec.end_tokens) & mask
            if (np.cumsum(is_end, axis=1)[:, :-1].astype(bool) & mask[:, 1:]).any():
                yield f"stage {name} goes on behind its end token"
            stopped = mask.sum(axis=1) < width
            if (active & stopped & ~is_end.any(axis=1)).any():
                yield f"stage {name} stops before its width without an end token"

    def tokens(self) -> Iterator[str]:
        size = self.spec.vocabulary_size
        for _, _, tokens, mask, _ in self.written:
            if ((tokens < 0) | (tokens >= size))[mask].any():
                yield f"ids beyond the {size} tokens of the vocabulary are written"

    def scores(self) -> Iterator[str]:
        for temperature, episodes in self.played.items():
            recorded = episodes.log_probs[episodes.action_mask]
            scored, _ = self.score(
                episodes.tokens, episodes.token_mask, temperature or 1.0
            )
            if not np.isfinite(recorded).all() or (recorded > self.tolerance).any():
                yield f"log-probs recorded at temperature {temperature} are none"
                continue
            gap = np.abs(scored[episodes.action_mask] - recorded).max(initial=0.0)
            if not gap <= self.tolerance:
                yield (
                    f"at temperature {temperature} sample recorded what score does not "
                    f"find: they differ by up to {gap:.3g}"
                )

    def distribution(self) -> Iterator[str]:
        """The first token of one prefix, drawn often; all within 6 deviations."""
        count = 2048
        episodes = Episodes(self.spec, 1, np.random.default_rng(3))
        episodes.open(0, np.ones(1, bool))
        active = np.ones(count, bool)
        many = Episodes(self.spec, count, self.random)
        many.tokens[:], many.token_mask[:] = episodes.tokens, episodes.token_mask
        shape = count, self.spec.layout.max_action_width
        uniforms = self.random.random(shape, np.float32)
        tokens, _, log_probs = self.write(many, 0, active, uniforms, 1.0)
        seen, first, often = np.unique(
            tokens[:, 0], return_index=True, return_counts=True
        )
        said = np.exp(np.minimum(log_probs[first, 0], 0.0))
        deviation = np.sqrt(said * (1 - said) / count) + 1 / count
        far = np.abs(often / count - said) > 6 * deviation
        for token, share, probability in zip(
            seen[far], often[far] / count, said[far], strict=True
        ):
            yield (
                f"token {token} is drawn with share {share:.3f}, and its log-prob says "
                f"{probability:.3f}"
            )

    def greedy(self) -> Iterator[str]:
        low, high = (self.first_tokens(np.float32(u), 0.0) for u in (0.0, 0.9999))
        if not np.array_equal(low, high):
            yield "at temperature 0 the uniforms change what is written"
        _, mask, log_probs = self.written[2 * self.spec.layout.num_stages][2:]
        size = self.spec.vocabulary_size
        if (log_probs[mask] < -np.log(size) - self.tolerance).any():
            yield "a token less probable than the average is taken at temperature 0"

    def columns(self) -> Iterator[str]:
        layout = self.spec.layout
        log_probs, entropy = self.scored
        for name, value in (("log_probs", log_probs), ("entropy", entropy)):
            if np.any(value[:, ~layout.holds_actions]):
                yield f"{name} of score are not 0 on columns that never hold actions"
        acted = entropy[self.played[1.0].action_mask]
        limit = np.log(self.spec.vocabulary_size) + self.tolerance
        if not ((acted >= -self.tolerance) & (acted <= limit)).all():
            yield "an entropy lies outside [0, log V]"

    def padding(self) -> Iterator[str]:
        plain = self.played[1.0]
        noise = self.random.integers(self.spec.vocabulary_size, size=plain.tokens.shape)
        other = np.where(plain.token_mask, plain.tokens, noise).astype(np.int32)
        yield from self.same_scores(
            other, plain.token_mask, plain.action_mask, "tokens outside the mask"
        )

    def causal(self) -> Iterator[str]:
        """Everything from the last stage on is changed; earlier scores must stay."""
        plain, layout = self.played[1.0], self.spec.layout
        last = layout.offsets[-1] + 1  # behind the marker, so the first token counts
        tokens = plain.tokens.copy()
        tokens[:, last:] = (tokens[:, last:] + 1) % self.spec.vocabulary_size
        before = plain.action_mask & (np.arange(layout.num_columns) < last)
        yield from self.same_scores(tokens, plain.token_mask, before, "later tokens")

    def visibility(self) -> Iterator[str]:
        plain, layout = self.played[1.0], self.spec.layout
        segments = layout.segment_of_column
        for hidden in range(layout.num_stages + 1):
            blind = ~np.asarray(layout.visibility)[:, hidden]
            blind[:hidden] = False  # what is earlier cannot see it anyway
            # What a blind stage sees through others is seen all the same.
            through = np.asarray(layout.visibility)[:, ~blind & _later(blind, hidden)]
            blind &= ~through.any(axis=1)
            if not blind.any():
                continue
            tokens = plain.tokens.copy()
            here = segments == hidden
            tokens[:, here] = (tokens[:, here] + 1) % self.spec.vocabulary_size
            reads = plain.action_mask & blind[segments]
            yield from self.same_scores(
                tokens, plain.token_mask, reads, f"hidden segment {hidden}"
            )

    def rows(self) -> Iterator[str]:
        plain = self.played[1.0]
        log_probs, _ = self.scored
        for row in range(min(self.num_rows, 2)):
            alone, _ = self.score(
                plain.tokens[row : row + 1], plain.token_mask[row : row + 1]
            )
            gap = np.abs(alone[0] - log_probs[row])[plain.action_mask[row]]
            if gap.max(initial=0.0) > self.tolerance:
                yield f"a row alone is scored otherwise, by up to {gap.max():.3g}"


def _later(blind, hidden):
    """Segments after the hidden one that do see it."""
    return np.arange(len(blind)) > hidden
