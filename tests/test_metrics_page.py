"""The page of all metrics names what runs write: nothing is missing or stale."""

import functools
import pathlib
import re

import jax
import pytest

from agentic_grpo.training import evaluation, tick
from agentic_grpo.training.real_clock.report import MEANINGS
from experiments.config import build, fields
from experiments.configs import smoke

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "metrics.md"
TOLD = re.findall(r"^\| `([\w/]+)` \| .", PAGE.read_text(encoding="utf-8"), re.M)

#: What stands for many names.
PLACES = {
    "PHASE": "(immediate|correction)",
    "STAGE": r"\w+",
    "LEVEL": r"[\w ]+",
    "K": r"\d+",
}

CRITIC = {"critic.kind": "decoder", "critic.capacity": 16, "critic.batch_size": 8}
CONFIGS = {
    "calibrated, of a critic": {"algorithm.signal": "critic", **CRITIC},
    "agentic, with a reference": {
        "algorithm.credit": "agentic",
        "learner.kl_weight": 0.1,
        "evaluation.samples_per_problem": 2,
        "evaluation.pass_at": (1, 2),
    },
    "another environment": {
        "env.name": "tool_workflow",
        "algorithm.credit": "state_groups",
    },
}


@functools.cache
def written(name):
    """The names of a line of such a run."""
    experiment = build.build(fields.change(smoke.get_config(), CONFIGS[name]))
    program, state = experiment.program, build.state_shapes(experiment)
    _, of_tick = jax.eval_shape(functools.partial(tick.tick, program), state)
    evaluate = functools.partial(
        evaluation.evaluate,
        program.policy,
        environment=program.environment,
        settings=experiment.evaluation,
    )
    rates = jax.eval_shape(
        evaluate, state.learner.params, key=experiment.evaluation_key
    )
    names = {*of_tick, *(f"eval/{rate}" for rate in rates)} - {"skipped_in_a_row"}
    return names | {"time/seconds", "time/ticks_per_second"}  # of the loop


def matches(told, name):
    """Whether an entry of the page is about a name."""
    parts = re.split(r"(PHASE|STAGE|LEVEL|\bK\b|(?<=_)K\b)", told)
    pattern = "".join(PLACES.get(part, re.escape(part)) for part in parts)
    return re.fullmatch(pattern, name) is not None


def test_the_numbers_of_the_real_clock_are_on_the_page_as_the_code_tells_them():
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in TOLD if name in MEANINGS] == list(MEANINGS)
    for name, meaning in MEANINGS.items():
        assert f"| `{name}` | {meaning} |" in page


@pytest.mark.parametrize("name", CONFIGS)
def test_every_number_of_a_run_is_on_the_page_once(name):
    for metric in written(name):
        about = [told for told in TOLD if matches(told, metric)]
        assert len(about) == 1, (metric, about)


def test_every_number_of_the_page_is_written_by_some_run():
    names = set.union(*map(written, CONFIGS)) | set(MEANINGS)
    stale = [told for told in TOLD if not any(matches(told, name) for name in names)]
    assert TOLD and stale == []
