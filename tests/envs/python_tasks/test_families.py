"""Families: right references, graded levels, many functions, slow and quick ones."""

import ast
import collections

import pytest
from python_task_oracles import ORACLES
from step_counting import count_steps

from agentic_grpo.envs.python_tasks import families
from agentic_grpo.envs.python_tasks.families import FAMILIES
from agentic_grpo.envs.python_tasks.families.family import function_of
from agentic_grpo.envs.python_tasks.families.inputs import DOMAINS
from agentic_grpo.envs.python_tasks.problem import (
    SPLITS,
    Call,
    content_key,
    spell,
    split_of,
)
from agentic_grpo.sandbox import jobs, payloads

TIMED = [name for name, family in FAMILIES.items() if family.slow is not None]


@pytest.fixture(scope="module")
def problems():
    return families.generate()


def function_key(family, problem):
    answer = function_of(problem.reference, problem.entry)
    inputs = DOMAINS[family.domain].inputs
    return content_key([Call(args=args, want=answer(*args)) for args in inputs])


@pytest.mark.parametrize("name", FAMILIES)
def test_the_reference_answers_as_the_statement_says(name):
    family = FAMILIES[name]
    inputs = DOMAINS[family.domain].inputs
    for holes, problem in zip(family.holes, family.problems(), strict=True):
        answer = function_of(problem.reference, problem.entry)
        for args in inputs:
            want = ORACLES[name](*args, **holes)
            assert spell(answer(*args)) == spell(want), (problem.id, args)
        small = [
            call for call in (*problem.visible, *problem.hidden) if call.args in inputs
        ]
        for call in small:
            assert spell(call.want) == spell(ORACLES[name](*call.args, **holes))
        assert len(small) >= 5


def test_there_are_hundreds_of_different_functions(problems):
    keys = {
        function_key(family, problem)
        for family in FAMILIES.values()
        for problem in family.problems()
    }
    assert len(FAMILIES) >= 90 and len(keys) == len(problems) >= 430
    assert len(TIMED) >= 19
    for field in ("id", "entry", "statement"):
        assert len({getattr(problem, field) for problem in problems}) == len(problems)
    levels = collections.Counter(problem.level for problem in problems)
    assert sorted(levels) == [1, 2, 3, 4, 5] and min(levels.values()) >= 30


def test_every_reference_completes_its_statement(problems):
    for problem in problems:
        assert problem.reference.startswith(problem.statement + "\n    ")
        (function,) = ast.parse(problem.reference).body
        assert function.name == problem.entry
        assert ast.get_docstring(function).startswith(("Return ", "Halve "))
        assert max(map(len, problem.statement.splitlines())) <= 88, problem.statement


def test_what_is_hidden_was_not_shown(problems):
    for problem in problems:
        shown = {spell(call.args) for call in problem.visible}
        hidden = {spell(call.args) for call in problem.hidden}
        assert len(shown) == 4 and len(hidden) == len(problem.hidden) >= 4
        assert not shown & hidden, problem.id


def test_every_call_can_be_asked(problems):
    for problem in problems:
        for calls in (problem.visible, problem.hidden):
            arguments = [call.args for call in calls]
            payloads.of_job(
                jobs.Calls(program="", entry=problem.entry, arguments=arguments)
            )


# Splits


def test_a_function_is_in_one_split_for_good(problems):
    splits = collections.Counter(problem.split for problem in problems)
    assert set(splits) == set(SPLITS)
    assert splits["train"] > 250 and splits["test"] > 60 and splits["validation"] > 30
    for family in FAMILIES.values():
        for problem in family.problems():
            assert problem.split == split_of(function_key(family, problem))
    # Another order of the families, or a new one, moves nothing. Neither may we.
    by_id = {problem.id: problem.split for problem in problems}
    assert [by_id[f"add {n}"] for n in range(8)] == PINNED_SPLITS


PINNED_SPLITS = [
    "train",
    "train",
    "test",
    "train",
    "test",
    "test",
    "validation",
    "train",
]


def test_the_key_is_of_the_answers_and_nothing_else():
    one = [Call(args=(1,), want={"a": 1, "b": 2}), Call(args=(2,), want=[1])]
    other = [Call(args=(2,), want=[1]), Call(args=(1,), want={"b": 2, "a": 1})]
    assert content_key(one) == content_key(other)
    for want in ([True], (1,), [1.0], ["1"], [[1]], [2]):
        changed = [one[0], Call(args=(2,), want=want)]
        assert content_key(changed) != content_key(one), want


def test_the_key_is_the_same_in_every_process():
    # Strings hash differently in each: a set must not be spelled in its own order.
    call = Call(args=({"x", "y", "z", "w"},), want=frozenset({"p", "q", "r"}))
    assert content_key([call]).hex() == PINNED_KEY


PINNED_KEY = "2fa5b9e85c444d99"


def test_shares_of_the_splits():
    keys = [n.to_bytes(8, "big") for n in range(0, 2**64, 2**54)]
    counts = collections.Counter(map(split_of, keys))
    assert counts == {"test": 205, "validation": 103, "train": 716}


# Slow and quick answers


@pytest.mark.parametrize("name", TIMED)
def test_the_slow_answer_is_right_on_small_inputs(name):
    family = FAMILIES[name]
    for problem in family.problems():
        slow = function_of(problem.slow, problem.entry)
        quick = function_of(problem.reference, problem.entry)
        for args in DOMAINS[family.domain].inputs:
            assert spell(slow(*args)) == spell(quick(*args)), (problem.id, args)


@pytest.mark.parametrize("name", TIMED)
def test_the_slow_answer_takes_thirty_times_the_steps_on_large_inputs(name):
    family = FAMILIES[name]
    problem = next(family.problems())
    # The longer the list the larger the ratio; this is enough of it.
    large = [
        value[:2000] if isinstance(value, list | str) else value
        for value in problem.hidden[-1].args
    ]
    quick = count_steps(problem.reference, problem.entry, large, at_most=10**6)
    slow = count_steps(problem.slow, problem.entry, large, at_most=30 * quick)
    assert 0 < quick <= 120_000 and slow > 30 * quick, (quick, slow)


@pytest.mark.parametrize("name", TIMED)
def test_half_of_what_is_hidden_is_large(name):
    inputs = DOMAINS[FAMILIES[name].domain].inputs
    for shown in (False, True):
        for problem in FAMILIES[name].problems(large_visible=shown):
            large = [call.args not in inputs for call in problem.hidden]
            count = len(large) // 2
            assert large == [False] * count + [True] * count
            visible = [call.args not in inputs for call in problem.visible]
            assert sum(visible) == (count if shown else 0)
            both = [spell(c.args) for c in (*problem.visible, *problem.hidden)]
            assert len(set(both)) == len(both)


# Choosing


def test_families_and_levels_are_chosen_by_name():
    chosen = families.generate(["add", "fibonacci"])
    assert {problem.id.split()[0] for problem in chosen} == {"add", "fibonacci"}
    assert {problem.level for problem in families.generate(levels=(5,))} == {5}


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (
            {"families": ["ad"]},
            "families='ad' must be one of add, .*did you mean 'add'",
        ),
        ({"levels": (6,)}, r"levels=\(6,\) must be levels, 1 to 5, of some"),
        ({"families": ["add"], "levels": (5,)}, r"levels=\(5,\) must be"),
        ({"families": []}, "must be levels"),
    ],
)
def test_a_choice_that_leaves_nothing_is_refused(choice, words):
    with pytest.raises(ValueError, match=words):
        families.generate(**choice)
