"""The decoder keeps the contract; each clause catches a planted violation."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest
import toy_program

from agentic_grpo.models import testing

SPEC = toy_program.environment().spec
SOUND = toy_program.policy()


def test_the_decoder_keeps_the_contract():
    testing.check_policy(SOUND, SPEC)


def test_parameters_of_ones_own_are_tried():
    nothing = jax.tree.map(lambda x: x * jnp.nan, toy_program.initial_params())
    found = testing.violations(SOUND, SPEC, params=nothing)
    assert "scores" in {violation.check for violation in found}


def sampling(change):
    """A sound policy, but for what ``change`` makes of (arguments, what is written)."""

    def sample(params, tokens, mask, stage, active, uniforms, *, temperature):
        given = (params, tokens, mask, stage, active, uniforms)
        written = SOUND.sample(*given, temperature=temperature)
        return change(given, *written, temperature)

    return SOUND._replace(sample=sample)


def scoring(change):
    """A sound policy, but for what ``change`` makes of (tokens, mask, its scores)."""

    def score(params, tokens, token_mask, *, temperature):
        scores = SOUND.score(params, tokens, token_mask, temperature=temperature)
        return change(tokens, token_mask, *scores)

    return SOUND._replace(score=score)


def at_another_temperature():
    def score(params, tokens, token_mask, *, temperature):
        return SOUND.score(params, tokens, token_mask, temperature=1.0)

    return SOUND._replace(score=score)


def with_constant_uniforms(constant):
    def sample(*arguments, temperature):
        *given, uniforms = arguments
        uniforms = jnp.full_like(uniforms, constant)
        return SOUND.sample(*given, uniforms, temperature=temperature)

    return SOUND._replace(sample=sample)


def of_uniform_tokens():
    """Draws any token alike, and records what the model says of it."""

    def sample(params, tokens, mask, stage, active, uniforms, *, temperature):
        written = (uniforms * SPEC.vocabulary_size).astype(jnp.int32)
        given = (params, tokens, mask, stage, active, uniforms)
        _, here, _ = SOUND.sample(*given, temperature=temperature)
        return written, here, jnp.where(here, -0.1, 0.0)

    return SOUND._replace(sample=sample)


def sampled_at_temperature_one():
    def sample(*given, temperature):
        del temperature
        return SOUND.sample(*given, temperature=1.0)

    return SOUND._replace(sample=sample)


def leak(values):
    """float [M, 1]: something of every column of a row."""
    return 0.01 * jnp.sum(values, axis=1, keepdims=True).astype(jnp.float32)


def refuses(key):
    raise RuntimeError("no such thing")


VIOLATIONS = {
    "init fails": (SOUND._replace(init=refuses), "runs"),
    "scores of another type": (
        scoring(lambda t, m, lp, e: (lp.astype(jnp.bfloat16), e)),
        "shapes",
    ),
    "actions too narrow": (
        sampling(lambda g, t, m, lp, at: (t[:, :1], m[:, :1], lp[:, :1])),
        "shapes",
    ),
    "uniforms are ignored": (with_constant_uniforms(0.3), "deterministic"),
    "the mask has a hole": (
        sampling(lambda g, t, m, lp, at: (t, m.at[:, 0].set(False), lp)),
        "masks",
    ),
    "who is not active writes": (
        sampling(lambda g, t, m, lp, at: (t, m.at[:, 0].set(True), lp)),
        "masks",
    ),
    "wider than the stage": (
        sampling(lambda g, t, m, lp, at: (t, jnp.ones_like(m), lp)),
        "masks",
    ),
    "ids beyond the vocabulary": (
        sampling(lambda g, t, m, lp, at: (t + SPEC.vocabulary_size, m, lp)),
        "tokens",
    ),
    "score at another temperature": (at_another_temperature(), "scores"),
    "log-probs above 0": (
        sampling(lambda g, t, m, lp, at: (t, m, -lp)),
        "scores",
    ),
    "other tokens than it says": (of_uniform_tokens(), "distribution"),
    "greedy draws": (sampled_at_temperature_one(), "greedy"),
    "scores of markers": (scoring(lambda t, m, lp, e: (lp - 1.0, e)), "columns"),
    "entropy below 0": (scoring(lambda t, m, lp, e: (lp, -1.0 - e)), "columns"),
    "padding is read": (
        scoring(lambda t, m, lp, e: (lp + leak(t * ~m) * (lp != 0), e)),
        "padding",
    ),
    "what comes later is read": (
        scoring(lambda t, m, lp, e: (lp + leak(t * m) * (lp != 0), e)),
        "causal",
    ),
    "neighbours are read": (
        scoring(lambda t, m, lp, e: (lp + jnp.sum(lp) * 0.01 * (lp != 0), e)),
        "rows",
    ),
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_planted_violation_is_named(name):
    policy, check = VIOLATIONS[name]
    with pytest.raises(testing.ContractError, match=rf"(?m)^  {check}: "):
        testing.check_policy(policy, SPEC)


def test_a_policy_that_reads_what_is_hidden_is_named():
    layout = SPEC.layout
    hides = ((True, True, True), (True, True, True), (True, False, True))
    layout = dataclasses.replace(layout, visibility=hides)
    hidden = dataclasses.replace(SPEC, layout=layout)
    found = testing.violations(SOUND, hidden)  # made for the layout that shows all
    assert {violation.check for violation in found} == {"visibility"}


def test_every_check_is_planted():
    planted = {check for _, check in VIOLATIONS.values()} | {"visibility"}
    assert planted == set(testing.CHECKS)
