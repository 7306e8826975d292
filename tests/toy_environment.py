"""A tiny environment for tests of what lies above: two stages, exact arithmetic.

The statement shows a digit d. Stage ``guess`` (a skill) is rewarded 1 if its first
token is d, 0.5 if it is off by one. In stage ``answer`` (an estimate) the reward is 1
for d, 0.5 for d + 1 mod 4, else 0; the verdict is 1 for d only. A member that opens
``guess`` with STOP is judged at once, on nothing. Latencies are member index plus one
(guess) and ``answer_latency``; the verdict takes ``verdict_latency``. FAULT_TOKEN makes
the environment fail; NAN_TOKEN makes the stage reward NaN.
"""

import jax
import jax.numpy as jnp

from agentic_grpo.envs import base
from agentic_grpo.layout import EpisodeLayout, StageKind, StageSpec, fully_visible
from agentic_grpo.records import EndReason

PAD, END, STOP, FAULT_TOKEN, NAN_TOKEN, GUESS, ANSWER, DIGITS = 0, 1, 2, 3, 4, 5, 6, 7
VOCABULARY_SIZE = DIGITS + 4


class ToyEnvironment:
    """See the module's docstring."""

    def __init__(self, *, guess_latency=1, answer_latency=1, verdict_latency=3):
        self._latencies = guess_latency, answer_latency, verdict_latency
        stages = (
            StageSpec(
                name="guess",
                kind=StageKind.SKILL,
                action_width=2,
                observation_width=1,
                max_latency=guess_latency + 7,
                marker=GUESS,
            ),
            StageSpec(
                name="answer",
                kind=StageKind.ESTIMATE,
                action_width=3,
                observation_width=0,
                max_latency=answer_latency,
                marker=ANSWER,
            ),
        )
        self.spec = base.EnvironmentSpec(
            vocabulary_size=VOCABULARY_SIZE,
            pad_token=PAD,
            end_tokens=(END,),
            layout=EpisodeLayout(
                prompt_width=2, stages=stages, visibility=fully_visible(2)
            ),
            levels=("even", "odd"),
            max_verdict_latency=verdict_latency,
        )

    def start(self, keys, *, split, num_members):
        del split, num_members
        digit = jax.vmap(lambda key: jax.random.randint(key, (), 0, 4))(keys)
        tokens = jnp.stack([DIGITS + digit, jnp.zeros_like(digit)], axis=1)
        mask = jnp.broadcast_to(jnp.array([True, False]), tokens.shape)
        return base.Start(
            state={"digit": digit},
            prompt_tokens=tokens,
            prompt_mask=mask,
            level=digit % 2,
        )

    def step(self, state, stage, action_tokens, action_mask, acting, keys):
        del keys
        guess_latency, answer_latency, verdict_latency = self._latencies
        first = jnp.where(action_mask[:, :, 0], action_tokens[:, :, 0], PAD)
        written = first - DIGITS
        digit = state["digit"][:, None]
        is_digit = written >= 0
        is_guess = (stage == 0)[:, None]
        right = (written == digit) & is_digit
        near_guess = (jnp.abs(written - digit) == 1) & is_digit
        near_answer = (written == (digit + 1) % 4) & is_digit
        near = jnp.where(is_guess, near_guess, near_answer)
        reward = jnp.where(right, 1.0, jnp.where(near, 0.5, 0.0))
        reward = jnp.where(first == NAN_TOKEN, jnp.nan, reward)
        member = jnp.arange(acting.shape[1], dtype=jnp.int32)[None, :]
        latency = jnp.where(is_guess, member + guess_latency, answer_latency)
        ends = jnp.where(is_guess & (first != STOP), 0, EndReason.OUT_OF_STAGES)
        ends = jnp.where(is_guess & (first == STOP), EndReason.SUBMITTED, ends)
        ends = jnp.where(first == FAULT_TOKEN, EndReason.FAULT, ends)
        solved = right & ~is_guess
        observation = jnp.where(right, DIGITS + 1, DIGITS)[:, :, None]
        return base.StageResult(
            state=state,
            observation_tokens=observation,
            observation_mask=jnp.broadcast_to(is_guess[:, :, None], observation.shape),
            reward=reward,
            reward_mask=jnp.ones_like(acting),
            latency=jnp.broadcast_to(latency, acting.shape),
            end_reason=ends.astype(jnp.int32),
            verdict=solved.astype(jnp.float32),
            verdict_latency=jnp.full(acting.shape, verdict_latency, jnp.int32),
            solved=solved,
            state_id=written,
        )


class ToyAgent:
    """Guesses right and answers d + 1: rewarded at once, refused by the verdict."""

    def __init__(self, *, answer_offset=1):
        self._answer_offset = answer_offset

    def __call__(self, state, stage, keys):
        del keys
        offset = jnp.where(stage == 0, 0, self._answer_offset)
        token = DIGITS + (state["digit"] + offset) % 4
        tokens = jnp.stack([token, jnp.full_like(token, END)], axis=1)
        tokens = jnp.pad(tokens, ((0, 0), (0, 1)))[:, None, :]
        return tokens, tokens != PAD
