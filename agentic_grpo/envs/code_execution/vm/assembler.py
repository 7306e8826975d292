"""Programs as text and as rows of opcodes. On the host, with NumPy.

A text is the mnemonics of ``instructions``, separated by blanks or new lines; ``#``
starts a comment. ``n sum i close`` is 1 + 2 + ... + n.
"""

import dataclasses
import difflib
import re

import numpy as np

from agentic_grpo.envs.code_execution.vm.instructions import (
    MNEMONICS,
    NUM_OPS,
    OPENINGS,
    Op,
)

_OPCODES = {mnemonic: int(op) for op, mnemonic in MNEMONICS.items()}
_INT32 = np.iinfo(np.int32)


class AssemblyError(ValueError):
    """A program text that is wrong at one place; line and column count from 1."""

    def __init__(
        self, message: str, *, source: str, line: int, column: int, width: int
    ):
        source = source.replace("\t", " ")  # so that the mark stands below its word
        mark = " " * (column - 1) + "^" * width
        super().__init__(
            f"line {line}, column {column}: {message}\n  {source}\n  {mark}"
        )
        self.line = line
        self.column = column


@dataclasses.dataclass(frozen=True)
class _Word:
    text: str
    source: str  # the whole line
    line: int
    column: int

    def error(self, message):
        return AssemblyError(
            message,
            source=self.source,
            line=self.line,
            column=self.column,
            width=len(self.text),
        )


def assemble(text: str, length: int, *, balanced: bool = True) -> np.ndarray:
    """Turns a program text into a row of opcodes.

    Args:
      text: mnemonics of ``instructions.MNEMONICS``; ``?37`` stands for the opcode 37,
        known or not.
      length: of the row; the rest is filled with HALT.
      balanced: refuse loops without a ``close`` and a ``close`` without a loop. Such a
        program is one that the machine can run; it faults where it executes them.

    Returns:
      int32 [length].

    Raises:
      AssemblyError: an unknown word, an unbalanced loop, or too many instructions. It
        is a ValueError, and shows the place.
    """
    words = _split(text)
    opcodes = [_opcode(word) for word in words]
    if balanced:
        _check_balance(words, opcodes)
    if len(words) > length:
        raise words[length].error(
            f"the program has {len(words)} instructions; at most {length} fit"
        )
    row = np.full(length, Op.HALT, np.int32)
    row[: len(opcodes)] = opcodes
    return row


def disassemble(row) -> str:
    """Turns a row of opcodes into text, on one line, without the HALTs at its end.

    ``assemble(disassemble(row), len(row), balanced=False)`` is the row again.

    Args:
      row: integers [L].

    Raises:
      ValueError: the row is not one-dimensional.
    """
    row = np.asarray(row)
    if row.ndim != 1:
        raise ValueError(f"row has shape {list(row.shape)}; it must be [L]")
    last = np.flatnonzero(row != Op.HALT)
    kept = row[: last[-1] + 1] if last.size else row[:0]
    return " ".join(mnemonic(opcode) for opcode in kept.tolist())


def mnemonic(opcode: int) -> str:
    """The word for one opcode; ``?37`` for one that is not in the list."""
    return MNEMONICS[Op(opcode)] if 0 <= opcode < NUM_OPS else f"?{opcode}"


def _split(text):
    return [
        _Word(found.group(), line, number, found.start() + 1)
        for number, line in enumerate(text.splitlines(), start=1)
        for found in re.finditer(r"\S+", line.partition("#")[0])
    ]


def _opcode(word):
    if word.text in _OPCODES:
        return _OPCODES[word.text]
    if re.fullmatch(r"\?-?\d{1,10}", word.text, re.ASCII):
        opcode = int(word.text[1:])
        if _INT32.min <= opcode <= _INT32.max:
            return opcode
        raise word.error(f"the opcode {opcode} is not an int32")
    if re.fullmatch(r"-?\d+", word.text, re.ASCII):
        raise word.error(
            f"{word.text} is not an instruction: only the digits 0 to 9 can be pushed;"
            " compute other numbers, as in 3 4 * or 0 1 -"
        )
    close = difflib.get_close_matches(word.text.lower(), _OPCODES, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are {' '.join(_OPCODES)}"
    raise word.error(f"unknown instruction {word.text!r}; {hint}")


def _check_balance(words, opcodes):
    opened = []
    for word, opcode in zip(words, opcodes, strict=True):
        if opcode in OPENINGS:
            opened.append(word)
        elif opcode == Op.CLOSE:
            if not opened:
                raise word.error("this close has no sum or iterate to end")
            opened.pop()
    if opened:
        raise opened[-1].error(f"this {opened[-1].text} has no close")
