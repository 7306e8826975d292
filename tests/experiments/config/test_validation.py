"""Illegal values never reach a compile and are told by name; legal ones fit."""

import json
import math

import config_pairs as pairs
import jax
import pytest
import two_ticks

from agentic_grpo.training import run_folder
from experiments.config import build, fields
from experiments.configs import default, smoke
from experiments.runs import workdir

FIELDS = dict(fields.flatten(default.get_config()))

#: Fields whose value is looked at under another choice only; the choice.
SELECTED_BY = {
    "algorithm.dual_clip_ratio": {"algorithm.objective": "dual_clip"},
    "algorithm.importance_treatment": {"algorithm.anchor": "proximal"},
    "critic.sees": {"critic.kind": "decoder", "algorithm.signal": "critic"},
}

#: Free text, or a bool, of which every value is legal.
ALWAYS_LEGAL = {name for name, value in FIELDS.items() if isinstance(value, bool)}


def changed(changes):
    config = smoke.get_config().lock()
    config.update_from_flattened_dict(changes)
    return config


def selecting(field):
    """What must be chosen for the field to matter."""
    parts = field.split(".")
    if parts[0] in ("env", "agent") and len(parts) > 2:
        return {"env.name": parts[1]}
    if parts[0] == "algorithm" and len(parts) > 2:
        return {"algorithm.credit": parts[1]}
    return SELECTED_BY.get(field, {})


def illegal_values(field, value):
    """Of the type of the default, so that the config takes them."""
    if isinstance(value, float):
        return [math.nan, math.inf, -math.inf, -7.0, 1e-320, 1e30]
    if isinstance(value, str):
        return ["no such name"]
    if isinstance(value, tuple):
        return [("no such name",), (("no such name", 1),), ((1, 2, 3),)]
    if fields.kinds()[field].type is float:  # may be none
        return [math.nan, -7.0, 1e-320]
    return [-7, 2**40]


CASES = [
    (field, value)
    for field, default_value in FIELDS.items()
    if field not in ALWAYS_LEGAL
    for value in illegal_values(field, default_value)
]


@pytest.fixture
def compilations():
    """What was compiled while the test ran."""
    events = []

    def listen(event, seconds, **details):
        if "backend_compile" in event:
            events.append(details)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield events
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.parametrize(("field", "value"), CASES, ids=lambda x: str(x)[:60])
def test_an_illegal_value_is_told_by_the_name_of_its_field(field, value, compilations):
    config = changed({**selecting(field), field: value})
    compilations.clear()
    with pytest.raises(ValueError) as caught:
        experiment = build.build(config)
        build.build_layout(config, experiment.program)
    assert field in str(caught.value)
    assert not compilations


def test_compilations_are_seen(compilations):
    jax.jit(lambda x: x * 7.25 + len(FIELDS))(jax.numpy.ones(3))
    assert compilations


@pytest.mark.parametrize("field", sorted(ALWAYS_LEGAL))
def test_a_switch_is_on_or_off(field):
    with pytest.raises(TypeError):
        changed({field: "maybe"})


def another(value):
    """A different value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, tuple):
        return (*value, "one more")
    if isinstance(value, str):
        return value + "_"
    return (value or 0) + 1


@pytest.mark.parametrize("field", FIELDS)
def test_a_run_goes_on_only_with_its_own_config(field, tmp_path):
    config = changed({})
    run_folder.claim(tmp_path, workdir.settings_of(config))
    before = (tmp_path / "config.json").read_text()
    config.update_from_flattened_dict(
        {field: another(dict(fields.flatten(config))[field])}
    )
    if field.split(".")[0] in run_folder.MAY_DIFFER:
        run_folder.claim(tmp_path, workdir.settings_of(config))
        assert json.loads((tmp_path / "config.json").read_text()) != json.loads(before)
    else:
        with pytest.raises(ValueError, match=f"{field}: .* there, .* here"):
            run_folder.claim(tmp_path, workdir.settings_of(config))
        assert (tmp_path / "config.json").read_text() == before


def test_what_may_differ_is_what_the_design_says():
    names = {field.split(".")[0] for field in FIELDS}
    assert {"num_ticks", "devices", "logging", "checkpoint"} <= names
    assert {"seed", "model", "learner", "algorithm", "env"}.isdisjoint(
        run_folder.MAY_DIFFER
    )


ROWS = pairs.covering_rows()


def config_of(row):
    sizes = {"rollout.num_blocks": 2, "rollout.decode_slots": 4}
    return changed({**sizes, **row})


def test_every_two_choices_meet():
    # only a handful of pairs may be missing: those that exclude each other
    met = set().union(*(pairs.pairs_of(row) for row in ROWS))
    names = list(pairs.CHOICES)
    wanted = sum(
        len(pairs.CHOICES[one]) * len(pairs.CHOICES[other])
        for index, one in enumerate(names)
        for other in names[index + 1 :]
    )
    assert wanted - 20 < len(met) < wanted
    assert len(ROWS) < 80


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, marks=() if number < 3 else pytest.mark.slow)
        for number in range(len(ROWS))
    ],
)
def test_legal_choices_can_be_traced(number):
    experiment, _ = two_ticks.prepared(config_of(ROWS[number]))
    build.trace(experiment)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(0, len(ROWS), 8))
def test_legal_choices_run_two_ticks(number):
    two_ticks.run(config_of(ROWS[number]))
