"""Suites: what is compared, where, with what in common."""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pytest
from tiny_suite import TINY

from experiments.config import build, fields
from experiments.configs import python_quickstart
from experiments.configs.ablations import laboratory
from experiments.studies import (
    search,
    suites,
)
from experiments.studies.suites import Claim


def test_a_mistyped_suite_is_told_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'divisor'"):
        suites.load("divisr")


@pytest.fixture
def a_tiny_model(tmp_path, monkeypatch):
    """In the place of the one that a suite would fetch."""
    pytest.importorskip("tokenizers", reason="an extra: llm")
    import tiny_published_model

    path = tiny_published_model.write(tmp_path)
    monkeypatch.setattr(python_quickstart, "_smollm2", lambda: str(path))


@pytest.mark.parametrize("name", suites.names())
def test_every_point_of_a_suite_can_be_built(name, request):
    if name == "python":
        request.getfixturevalue("a_tiny_model")
    config, suite, docstring = suites.load(name)
    for line in ("--suite=" + name, "Wall time: ", "Outcome: "):
        assert line in docstring
    points = suites.points(suite, {})
    if suite.search:
        points = points + search.first_points(suite)
        fresh = {seed for cell in suite.cells for seed in suite.seeds_of(cell)}
        assert not fresh & set(suite.search.seeds)  # tuned and compared apart
    for point in points:
        json.dumps(dict(point.overrides))
        seed = {"seed": point.seeds[0]}
        build.build(fields.change(config, {**point.overrides, **seed}))
    assert len({point.name for point in points}) == len(points)


def test_arms_share_all_but_what_they_are_about():
    config, suite, _ = suites.load("credit")
    cell = laboratory.TRUTHFUL
    params = {"weights": jnp.ones((3, 2))}
    gradient = {"weights": jnp.arange(6.0).reshape(3, 2)}

    def shared(program):
        """What the arms must have in common, as numbers that can be compared."""
        state = program.optimizer.init(params)
        update, _ = program.optimizer.update(gradient, state, params)
        aggregate = program.learner.aggregate(np.ones((4, 3)), np.ones((4, 3), bool))
        return (
            np.asarray(update["weights"]).tolist(),
            [float(program.schedule(tick)) for tick in range(0, 140, 7)],
            float(aggregate.count),
            program.rollout,
            program.num_rows,
            program.update_slots,
            program.learner.entropy_weight,
        )

    plain = shared(build.build(fields.change(config, suite.cells[cell])).program)
    for name in suite.arms:
        overrides = suites.overrides_of(suite, cell, name, {})
        own = build.build(fields.change(config, overrides)).program
        assert shared(own) == plain, name


def test_the_controls_are_what_they_control_for():
    _, suite, _ = suites.load("credit")
    settings = {"outcome": {"algorithm.clip_low": 0.4}}
    cell = laboratory.TRUTHFUL
    control = suites.overrides_of(suite, cell, "calibrated, beta 0", settings)
    assert control["algorithm.clip_low"] == 0.4
    assert control["algorithm.calibrated.fixed_beta"] == 0.0
    twice = suites.overrides_of(suite, cell, "outcome, two steps", {})
    assert twice["learner.passes"] == 2
    assert suite.tuned_arms() == [*laboratory.RULES, "returns", "turn_mix"]


def test_an_arm_overrides_its_setting_which_overrides_the_cell():
    suite = dataclasses.replace(
        TINY, cells={"open": {"seed": 1, "num_ticks": 2}}, seeds=(10,)
    )
    settings = {"agentic": {"num_ticks": 4, "algorithm.credit": "returns"}}
    found = suites.overrides_of(suite, "open", "agentic", settings)
    assert found == {"seed": 1, "num_ticks": 4, "algorithm.credit": "agentic"}


@pytest.mark.parametrize(
    "changes",
    [
        {"reference": "outcom"},
        {"identical": (("outcome", "nobody"),)},
        {"claims": (Claim(text="", metric="", cell="x", candidate="", reference=""),)},
    ],
)
def test_a_suite_that_names_nobody_is_refused(changes):
    with pytest.raises(ValueError, match="must be"):
        dataclasses.replace(TINY, **changes)
