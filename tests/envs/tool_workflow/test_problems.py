"""Chains, splits, statements, and what the records make of them."""

import jax
import numpy as np
import pytest

from agentic_grpo.envs.tool_workflow import (
    ToolWorkflowConfig,
    problems,
    requests,
    tools,
    vocabulary,
)

CONFIG = ToolWorkflowConfig()


@pytest.fixture(scope="module")
def drawn():
    """{split: 256 problems}."""
    uniform = jax.random.uniform(
        jax.random.key(0), (256, problems.num_uniforms(CONFIG))
    )
    return {
        split: jax.jit(lambda u, s=split: problems.draw(u, s, CONFIG))(uniform)
        for split in problems.SPLITS
    }


def test_a_chain_belongs_to_the_split_that_it_was_drawn_for(drawn):
    for split, classes in problems.SPLITS.items():
        p = drawn[split]
        found = problems.chain_class(p.kind, p.x, p.y, p.digit)
        assert set(np.unique(found)) == set(classes)


def test_every_class_has_one_split():
    classes = [c for of_split in problems.SPLITS.values() for c in of_split]
    assert sorted(classes) == list(range(10))


def test_the_last_digit_walks_through_all_classes(drawn):
    # A class that some digit cannot reach would bias the digits of its split.
    p = jax.tree.map(lambda x: x[:1], drawn["train"])
    digits = np.repeat(np.asarray(p.digit), 10, axis=0)
    digits[:, -1] = np.arange(10)
    rest = [np.repeat(np.asarray(field), 10, axis=0) for field in (p.kind, p.x, p.y)]
    assert sorted(problems.chain_class(*rest, digits).tolist()) == list(range(10))


def test_an_unknown_split_is_refused_by_name():
    with pytest.raises(ValueError, match="'weekend' must be one of"):
        problems.draw(np.zeros((1, 1), np.float32), "weekend", CONFIG)


def test_goals_are_what_the_right_calls_make_of_the_origin(drawn):
    p = drawn["train"]
    calls = np.asarray(problems.reference(p)).reshape(256, -1, 3)
    np.testing.assert_array_equal(tools.run(calls, p.origin), p.goal)


def test_left_is_what_the_example_holds_after_each_request(drawn):
    p = drawn["test"]
    for part in range(3):
        calls = np.asarray(problems.reference(p))[:, : part + 1].reshape(256, -1, 3)
        example = np.asarray(tools.run(calls, p.origin[:, :1]))[:, 0]
        lane = np.arange(256)
        np.testing.assert_array_equal(example[lane, p.x[:, part]], p.left[:, part, 0])
        np.testing.assert_array_equal(example[lane, p.y[:, part]], p.left[:, part, 1])


def test_moving_copies_differ_everywhere_but_in_the_example(drawn):
    p = drawn["train"]
    equal = np.asarray(p.origin == p.cached)
    assert equal[:, 0].all()
    assert equal[~np.asarray(p.moving)].all()
    assert not equal[np.asarray(p.moving), 1:].any()


def test_the_budget_is_the_right_way_and_one_revision(drawn):
    p = drawn["train"]
    calls = np.asarray(problems.reference(p)).reshape(256, -1, 3)
    cost = (calls[..., 0] != tools.Tool.SET).sum(axis=1) + 2 * np.asarray(p.moving)
    np.testing.assert_array_equal(p.budget, cost + 1)


def test_levels_count_the_requests_that_link_two_slots(drawn):
    p = drawn["train"]
    names = np.array(list(requests.KINDS))[np.asarray(p.kind)]
    linked = np.isin(names, ["exchange", "derive", "order", "fold"]).sum(axis=1)
    np.testing.assert_array_equal(problems.level(p), linked)


def test_a_statement_reads_as_it_should(drawn):
    p = drawn["validation"]
    lane = int(np.flatnonzero(np.asarray(p.moving) & ~np.asarray(p.hidden))[0])
    words = vocabulary.spell(problems.statement(p)[lane]).split()
    start = " ".join(map(str, np.asarray(p.origin)[lane, 0]))
    assert " ".join(words[:6]) == f"moving {p.budget[lane]} {start}"
    for part in range(3):
        kind, x, y, *numbers = words[6 + 6 * part : 12 + 6 * part]
        assert kind == list(requests.KINDS)[int(p.kind[lane, part])]
        assert (x, y) == tuple(tools.SLOTS[int(f[lane, part])] for f in (p.x, p.y))
        left = np.asarray(p.left)[lane, part]
        assert numbers == [str(n) for n in (p.digit[lane, part], *left)]


def test_what_is_hidden_is_the_last_request_alone(drawn):
    p = drawn["train"]
    hidden = np.asarray(p.hidden)
    assert 0.35 < hidden.mean() < 0.65
    is_mark = np.asarray(problems.statement(p)) == vocabulary.HIDDEN
    assert is_mark[hidden][:, -3:].all() and not is_mark[:, :-3].any()
    assert not is_mark[~hidden].any()
