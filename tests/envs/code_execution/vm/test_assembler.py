"""Texts and rows: one meaning, round trips, and errors that show their place."""

import numpy as np
import pytest

from agentic_grpo.envs.code_execution.vm import assembler
from agentic_grpo.envs.code_execution.vm.instructions import (
    GROWTH,
    MNEMONICS,
    NUM_OPS,
    OPERANDS,
    Op,
)


def test_every_opcode_has_one_mnemonic_of_its_own():
    assert set(MNEMONICS) == set(Op) == set(range(NUM_OPS))
    assert len(set(MNEMONICS.values())) == NUM_OPS
    assert all(word == "".join(word.split()) and word for word in MNEMONICS.values())


def test_every_effect_belongs_to_an_instruction():
    assert set(OPERANDS) | set(GROWTH) <= set(Op)


def test_text_becomes_a_row_filled_up_with_halt():
    row = assembler.assemble("n sum i 9 * close", 8)
    assert row.dtype == np.int32
    assert row.tolist() == [11, 29, 13, 10, 17, 31, 0, 0]


def test_blanks_lines_and_comments_mean_nothing():
    text = "# triangular numbers\n  n sum\n\ti # the index\n\n  close"
    expected = assembler.assemble("n sum i close", 6)
    np.testing.assert_array_equal(assembler.assemble(text, 6), expected)


def test_an_empty_text_is_a_row_of_halts():
    assert assembler.assemble("", 3).tolist() == [0, 0, 0]
    assert assembler.disassemble(np.zeros(3, np.int32)) == ""
    assert assembler.disassemble(np.zeros(0, np.int32)) == ""


def test_any_row_survives_the_way_to_text_and_back():
    # A halt in the middle stays: it may stand in a loop that is skipped.
    rng = np.random.default_rng(0)
    rows = rng.integers(-3, 40, (200, 12)).astype(np.int32)
    rows[0, :4] = np.iinfo(np.int32).min, 0, np.iinfo(np.int32).max, 32
    for row in rows:
        text = assembler.disassemble(row)
        again = assembler.assemble(text, row.size, balanced=False)
        np.testing.assert_array_equal(again, row)


def test_disassembly_is_the_text_one_would_write():
    row = assembler.assemble("0 iterate halt close n m % 3 select", 16)
    assert assembler.disassemble(row) == "0 iterate halt close n m % 3 select"
    assert assembler.disassemble([12, 99, -1]) == "m ?99 ?-1"


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("n\n  sum i clos", 2, 9, "unknown instruction 'clos'; did you mean close"),
        ("n DUP", 1, 3, "did you mean dup"),
        ("n xyzzy", 1, 3, "known are 0 1 2 .* iterate close"),
        ("n 12 *", 1, 3, "12 is not an instruction: only the digits 0 to 9"),
        ("-1", 1, 1, "as in 3 4 \\* or 0 1 -"),
        ("?9999999999", 1, 1, "9999999999 is not an int32"),
        ("n close", 1, 3, "this close has no sum or iterate to end"),
        ("n sum n iterate close", 1, 3, "this sum has no close"),
        ("1 1 +\n1 +", 2, 3, "the program has 5 instructions; at most 4 fit"),
    ],
)
def test_an_error_says_what_is_wrong_and_where(text, line, column, message):
    with pytest.raises(assembler.AssemblyError, match=message) as caught:
        assembler.assemble(text, 4 if "fit" in message else 16)
    assert isinstance(caught.value, ValueError)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).startswith(f"line {line}, column {column}: ")


def test_an_error_marks_the_word_also_behind_a_tab():
    with pytest.raises(assembler.AssemblyError) as caught:
        assembler.assemble("n\tfoo", 4)
    assert str(caught.value).splitlines()[1:] == ["  n foo", "    ^^^"]


def test_only_a_row_is_disassembled():
    with pytest.raises(ValueError, match=r"row has shape \[2, 3\]; it must be \[L\]"):
        assembler.disassemble(np.zeros((2, 3), np.int32))
