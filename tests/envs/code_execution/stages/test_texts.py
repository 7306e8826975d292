"""Reading what the agent wrote: where a text ends, and what it says."""

import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.envs.code_execution.problems import plans
from agentic_grpo.envs.code_execution.problems import vocabulary as v
from agentic_grpo.envs.code_execution.stages import texts
from agentic_grpo.envs.code_execution.vm.instructions import Op


def read(text, *, width=6, masked=None, columns=8):
    tokens = np.array(v.pad(v.tokenize(text), columns), np.int32)
    mask = np.arange(columns) < (len(text.split()) if masked is None else masked)
    return texts.read(
        jnp.asarray(tokens)[None, None],
        jnp.asarray(mask)[None, None],
        jnp.full(1, width),
    )


@pytest.mark.parametrize(
    ("text", "options", "length", "written"),
    [
        ("n 1 + <end>", {}, 3, 4),
        ("<end>", {}, 0, 1),
        ("n 1 +", {}, 3, 3),  # never ended: all of it counts
        ("n 1 <end> 2 2", {}, 2, 5),  # what follows END was written but says nothing
        ("n 1 + 2 + 3 + 4", {}, 6, 6),  # beyond the stage's width
        ("n 1 + <end>", {"masked": 2}, 2, 2),
        ("n 1 + <end>", {"masked": 0}, 0, 0),
    ],
)
def test_a_text_ends_at_the_first_of_end_mask_and_width(text, options, length, written):
    got = read(text, **options)
    assert int(got.length[0, 0]) == length
    assert int(got.written[0, 0]) == written


def test_tokens_that_are_no_instructions_become_faults_not_holes():
    """The likely bug: ``n ? +`` read as ``n +``, or as ``n 0 +``."""
    program = texts.as_program(read("n ? + submit <end>"), 6)[0, 0]
    bad = texts.NOT_AN_OPCODE
    np.testing.assert_array_equal(
        program, [Op.INPUT_N, bad, Op.ADD, bad, Op.HALT, Op.HALT]
    )


@pytest.mark.parametrize(
    ("text", "submits"),
    [
        ("submit <end>", True),
        ("submit", True),
        ("submit n <end>", False),
        ("n submit <end>", False),
        ("submit submit <end>", False),
        ("<end>", False),
        ("<end> submit", False),
    ],
)
def test_a_submission_is_the_one_token_and_nothing_else(text, submits):
    assert bool(texts.is_submission(read(text))[0, 0]) == submits


def test_digits_are_read_inside_the_text_only():
    digits, are_digits = texts.as_digits(read("0 9 n <end> 5"), 5)
    np.testing.assert_array_equal(digits[0, 0, :2], [0, 9])
    np.testing.assert_array_equal(are_digits[0, 0], [True, True, False, False, False])


@pytest.mark.parametrize(
    ("plan", "text", "obeys"),
    [
        ("closed", "n 2 //", True),
        ("closed", "n sum i close", False),
        ("summing", "n sum i close", True),
        ("summing", "n 2 //", False),  # who plans a loop gives division up
        ("summing", "1 n iterate 2 * close", False),
        ("iterating", "1 n iterate 2 * close", True),
        ("iterating", "n sum i close", False),
        ("looping", "1 n sum i close iterate 2 * close", True),
        ("looping", "n n n select", False),
        (None, "n 2 //", True),
        (None, "? submit", True),  # a fault when executed, but no breach
    ],
)
def test_a_plan_binds_the_instructions(plan, text, obeys):
    index = plans.UNBOUND if plan is None else list(plans.PLANS).index(plan)
    program = texts.as_program(read(text, width=9, columns=9), 9)
    assert bool(plans.obeys(program, jnp.full((1, 1), index))[0, 0]) == obeys


def test_after_a_text_that_names_no_plan_nothing_may_be_written():
    program = texts.as_program(read("1"), 6)
    assert not plans.obeys(program, jnp.full((1, 1), plans.UNPLANNED))
    empty = texts.as_program(read("<end>"), 6)
    assert plans.obeys(empty, jnp.full((1, 1), plans.UNPLANNED))


def test_a_program_that_no_plan_allows_is_refused():
    assert plans.class_of([Op.INPUT_N, Op.PUSH_2, Op.FLOORDIV]) == 0
    with pytest.raises(ValueError, match="no plan"):
        plans.class_of([Op.SUM, Op.CLOSE, Op.FLOORDIV])


def test_the_vocabulary_tells_every_token_once():
    assert [v.TOKENS[name] for name in v.NAMES] == list(range(v.VOCABULARY_SIZE))
    assert v.spell(v.tokenize("cubes 3 ? n sum <end>")) == "cubes 3 ? n sum <end>"
    with pytest.raises(ValueError, match="'cubess'"):
        v.tokenize("cubess 3")
    with pytest.raises(ValueError, match="at most 2"):
        v.pad([1, 2, 3], 2)
