"""Compositions: problems made of pieces, f(n) = outer(... inner(n)) + b.

Every piece maps 0 to 0, so that f(0) = b. The pieces' words are shared: a composition
that was held out of training is told in words that training has seen.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from agentic_grpo.envs.code_execution.problems.family import (
    Family,
    Range,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Piece:
    """A function of the value on top of the stack; ``{p}`` is its parameter, if any."""

    word: str
    values: tuple[int, ...] | None
    truth: Callable[[Any, int], Any]
    brute_force: str
    efficient: str


_PIECES = {
    piece.word: piece
    for piece in (
        _Piece(
            word="times",
            values=(2, 3, 4, 5),
            truth=lambda x, p: p * x,
            brute_force="sum {p} close",
            efficient="{p} *",
        ),
        _Piece(
            word="per",
            values=(2, 3, 4, 5),
            truth=lambda x, p: x // p,
            brute_force="sum i {p} % 0 = close",
            efficient="{p} //",
        ),
        _Piece(
            word="rest",
            values=(4, 5, 7, 9),
            truth=lambda x, p: x % p,
            brute_force="0 swap iterate 1 + {p} % close",
            efficient="{p} %",
        ),
        _Piece(
            word="triangle",
            values=None,
            truth=lambda x, p: x * (x + 1) // 2,
            brute_force="sum i close",
            efficient="dup 1 + * 2 //",
        ),
        _Piece(
            word="squared",
            values=None,
            truth=lambda x, p: x * x,
            brute_force="dup sum dup close",
            efficient="dup *",
        ),
    )
}

#: The names of the pieces' parameters, the innermost first.
_PARAMETERS = ("a", "c", "d")


def _compose(*words: str, small_n: Range = (4, 9), held_out: bool = False) -> Family:
    """The composition of two or three pieces, the innermost first."""
    pieces = [_PIECES[word] for word in words]
    names = dict(zip(words, _PARAMETERS, strict=False))
    parameters = {
        names[piece.word]: piece.values for piece in pieces if piece.values is not None
    }

    def text(piece: _Piece, template: str) -> str:
        return template.replace("{p}", f"{{{names[piece.word]}}}")

    def truth(n, m, b, **values):
        for piece in pieces:
            n = piece.truth(n, values.get(names[piece.word], 0))
        return n + b

    told = (
        text(piece, piece.word if piece.values is None else f"{piece.word} {{p}}")
        for piece in reversed(pieces)
    )
    return Family(
        name="_of_".join(reversed(words)),
        level=2 + len(words),
        statement=" ".join([*told, "{b}"]),
        parameters={**parameters, "b": range(10)},
        truth=truth,
        brute_force=" ".join(
            ["n", *(text(piece, piece.brute_force) for piece in pieces), "{b} +"]
        ),
        efficient=" ".join(
            ["n", *(text(piece, piece.efficient) for piece in pieces), "{b} +"]
        ),
        small_n=small_n,
        held_out=held_out,
    )


COMPOSITIONS = (
    _compose("rest", "times"),
    _compose("per", "times"),
    _compose("times", "rest", small_n=(3, 4)),
    _compose("per", "triangle"),
    _compose("rest", "triangle"),
    _compose("triangle", "rest", small_n=(4, 6)),
    _compose("per", "squared"),
    _compose("per", "rest"),
    _compose("times", "per", small_n=(2, 3), held_out=True),
    _compose("triangle", "per", small_n=(4, 5), held_out=True),
    _compose("rest", "squared", held_out=True),
    _compose("times", "triangle", held_out=True),
    _compose("per", "triangle", "rest"),
    _compose("rest", "triangle", "times", small_n=(4, 7)),
)
