"""One task: a function to write, calls that are shown, calls that judge."""

import dataclasses
import hashlib
from typing import Any

SPLITS = ("train", "validation", "test")
_TEST_SHARE, _VALIDATION_SHARE = 0.2, 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Call:
    """Positional arguments, and what a right function returns for them; plain data."""

    args: tuple
    want: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """A function to write.

    Attributes:
      id: names it in messages; unique.
      statement: what the agent reads; to be completed as it stands, it ends with the
        head of the function and its docstring.
      entry: the name of the function.
      visible: calls that give the stage reward and the feedback; may be empty.
      hidden: calls that give the verdict; empty where a ``checker`` does.
      checker: Python source with ``check(candidate)``, full of assertions; or None.
      level: difficulty, from 1.
      split: of ``SPLITS``.
      reference: a whole program that is right and quick, or None if none is known.
      slow: a whole program that is right, and too slow for the hidden calls, or None.
    """

    id: str
    statement: str
    entry: str
    visible: tuple[Call, ...]
    hidden: tuple[Call, ...] = ()
    checker: str | None = None
    level: int = 1
    split: str = "train"
    reference: str | None = None
    slow: str | None = None


def content_key(calls) -> bytes:
    """A name for a function by its answers; the order of the calls does not matter."""
    pairs = sorted(f"{spell(call.args)} -> {spell(call.want)}" for call in calls)
    text = "\n".join(pairs).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=8).digest()


def split_of(key: bytes) -> str:
    """train, validation or test; the key alone decides, so that it never changes."""
    uniform = int.from_bytes(key, "big") / 2.0 ** (8 * len(key))
    if uniform < _TEST_SHARE:
        return "test"
    return "validation" if uniform < _TEST_SHARE + _VALIDATION_SHARE else "train"


def spell(value) -> str:
    """A text that two plain values share if they are equal and of the same types."""
    kind = type(value)
    if kind is dict:
        parts = sorted(f"{spell(key)}: {spell(item)}" for key, item in value.items())
    elif kind in (set, frozenset):
        parts = sorted(map(spell, value))
    elif kind in (list, tuple):
        parts = [spell(item) for item in value]
    else:
        return repr(value)
    return f"{kind.__name__}({', '.join(parts)})"
