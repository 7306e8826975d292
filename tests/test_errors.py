"""A refusal says which field, what it holds and what it must be; nobody parses it."""

import pickle

import pytest

from agentic_grpo.errors import Refused, require, require_choice


def test_a_refusal_carries_its_parts_and_reads_as_a_sentence():
    with pytest.raises(ValueError, match=r"decay=1\.5 must be in") as caught:
        require(False, "decay", 1.5, "in (0, 1)")
    error = caught.value
    assert (error.field, error.value, error.rule) == ("decay", 1.5, "in (0, 1)")
    require(True, "decay", 0.5, "in (0, 1)")


def test_who_knows_the_path_puts_it_before_the_field():
    outer = Refused("minimum", -1, "at least 0").under("env.latency")
    assert str(outer) == "env.latency.minimum=-1 must be at least 0"
    assert outer.field == "env.latency.minimum"


def test_a_name_that_is_nearly_right_is_suggested():
    choices = ("outcome", "calibrated")
    require_choice("credit", "outcome", choices)
    with pytest.raises(Refused, match="one of outcome, calibrated; did you mean 'cal"):
        require_choice("credit", "calibrate", choices)
    with pytest.raises(Refused, match=r"must be one of 1, 2$"):
        require_choice("phases", 3, (1, 2))


def test_a_refusal_survives_the_way_from_another_process():
    error = pickle.loads(pickle.dumps(Refused("seed", "x", "an int")))
    assert str(error) == "seed='x' must be an int"
