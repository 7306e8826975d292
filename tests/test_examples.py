"""The toy loops and the notebook of the documentation do what their pages say."""

import json
import pathlib
import runpy
import sys

import numpy as np
import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "docs" / "examples"
TICKS = 60
LOOKS_BEST, IS_BEST = 1, 2


@pytest.fixture(scope="module")
def by_hand():
    return runpy.run_path(str(EXAMPLES / "by_hand.py"))


@pytest.fixture(scope="module")
def with_a_rule():
    return runpy.run_path(str(EXAMPLES / "with_a_credit_rule.py"))


def test_early_credit_goes_to_what_looks_best_and_is_taken_back(by_hand):
    curve = by_hand["train"](TICKS)
    early, late = curve[by_hand["DELAY"] - 1], curve[-1]
    assert early[LOOKS_BEST] > 0.3 and np.argmax(early) == LOOKS_BEST
    assert late[IS_BEST] > 0.9


def test_who_waits_has_not_moved_before_the_first_verdict(by_hand):
    curve = by_hand["train"](TICKS, at_once=False)
    np.testing.assert_allclose(curve[by_hand["DELAY"] - 1], 0.25, atol=1e-6)
    assert curve[-1, IS_BEST] > 0.9


@pytest.mark.parametrize(
    ("rule", "moves_early", "ends"),
    [
        ("outcome", False, IS_BEST),
        ("immediate", True, LOOKS_BEST),
        ("agentic", True, IS_BEST),
        ("calibrated", False, IS_BEST),  # it trusts nothing before the first verdict
    ],
)
def test_every_rule_ends_where_it_says(with_a_rule, rule, moves_early, ends):
    curve = with_a_rule["train"](TICKS, rule=rule)
    early = curve[with_a_rule["DELAY"] - 1]
    assert bool(np.abs(early - 0.25).max() > 0.1) is moves_early
    assert curve[-1, ends] > 0.9


def test_the_notebook_runs_from_top_to_bottom_and_draws_its_pictures(monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="an extra: plots")
    pyplot.switch_backend("Agg")
    monkeypatch.syspath_prepend(EXAMPLES)  # where a notebook is started
    notebook = json.loads((EXAMPLES / "credit_rules.ipynb").read_text("utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names, drawn = {}, []
    try:
        for cell in cells:
            exec("".join(cell["source"]), names)
            drawn.append(len(pyplot.get_fignums()))
            pyplot.close("all")
    finally:
        sys.modules.pop("with_a_credit_rule", None)
    kept = [
        sum("image/png" in output.get("data", {}) for output in cell["outputs"])
        for cell in cells
    ]
    assert drawn == kept == [0, 0, 0, 1, 1]
    assert len(notebook["cells"]) == 10
