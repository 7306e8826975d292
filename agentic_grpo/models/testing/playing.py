"""Running a policy in every way that the checks compare."""

import functools
from collections.abc import Iterator

import jax
import numpy as np

from agentic_grpo.models.testing.episodes import Episodes


class Played:
    """A policy, and episodes that it has written at three temperatures.

    Attributes:
      played: {temperature: ``Episodes``}.
      again: the episodes of temperature 1, written once more.
      written: (stage, active, tokens, mask, log_probs) of every call of ``sample``.
    """

    def __init__(self, policy, spec, params, num_rows, seed, tolerance):
        self.policy, self.spec, self.params = policy, spec, params
        self.num_rows, self.tolerance = num_rows, tolerance
        self.random = np.random.default_rng(seed)
        self._sample = jax.jit(policy.sample, static_argnames="temperature")
        self._score = jax.jit(policy.score, static_argnames="temperature")
        self.key = jax.random.key(seed)

    def play(self) -> None:
        """Writes all episodes; raises whatever the policy raises."""
        if self.params is None:
            self.params = jax.jit(self.policy.init)(self.key)
        # (stage, active, tokens, mask, log_probs), NumPy
        self.written: list[tuple] = []
        self.played = {at: self._episodes(at) for at in (1.0, 0.7, 0.0)}
        self.again = self._episodes(1.0, self._uniforms)

    def _episodes(self, temperature, uniforms=None):
        """Episodes that the policy writes; every other row leaves a stage out."""
        random = np.random.default_rng(1)
        episodes = Episodes(self.spec, self.num_rows, random)
        layout = self.spec.layout
        shape = layout.num_stages, self.num_rows, layout.max_action_width
        if uniforms is None:
            uniforms = self.random.random(shape, np.float32)
            self._uniforms = uniforms if temperature == 1.0 else self._uniforms
        for stage in range(layout.num_stages):
            active = (np.arange(self.num_rows) + stage) % 4 != 3
            episodes.open(stage, active)
            written = self.write(episodes, stage, active, uniforms[stage], temperature)
            self.written.append((stage, active, *written))
            episodes.write(stage, *written)
        return episodes

    def write(self, episodes, stage, active, uniforms, temperature):
        """What ``sample`` answers, as NumPy arrays."""
        return jax.device_get(
            self._sample(
                self.params,
                episodes.tokens,
                episodes.token_mask,
                np.full(len(active), stage, np.int32),
                active,
                uniforms,
                temperature=temperature,
            )
        )

    @functools.cached_property
    def scored(self):
        """(log_probs, entropy) of the episodes at temperature 1."""
        plain = self.played[1.0]
        return self.score(plain.tokens, plain.token_mask)

    def score(self, tokens, token_mask, temperature=1.0):
        """What ``score`` answers, as NumPy arrays."""
        return jax.device_get(
            self._score(self.params, tokens, token_mask, temperature=temperature)
        )

    def first_tokens(self, uniform, temperature=1.0):
        """What the rows write first where all uniforms are the same."""
        episodes = Episodes(self.spec, self.num_rows, np.random.default_rng(2))
        active = np.ones(self.num_rows, bool)
        episodes.open(0, active)
        shape = self.num_rows, self.spec.layout.max_action_width
        return self.write(episodes, 0, active, np.full(shape, uniform), temperature)[0]

    def same_scores(self, tokens, token_mask, where, what) -> Iterator[str]:
        """A sentence, if rows that were changed are scored otherwise somewhere."""
        changed, _ = self.score(tokens, token_mask)
        gap = np.abs(changed - self.scored[0])[where].max(initial=0.0)
        if not gap <= self.tolerance:
            yield f"{what} change scores by up to {gap:.3g}"
