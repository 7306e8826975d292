"""Plain data across the wall: tagged JSON, bounded both ways, and its comparison.

Plain are None, bool, int, float, complex, str, bytes, list, tuple, set, frozenset and
dict, by exact type: a subclass may lie about itself (an ``__eq__`` that is always true)
and is refused where it is packed. JSON keeps None, bool, short ints, floats, strings
and lists; an object with one key is a tag for all else, ``{"tuple": [1, 2]}``.
"""

import json
import math
import re

#: Levels of containers. Deeper is refused on both sides.
MAX_NESTING = 64
#: Of an int; some 19,700 decimal digits.
MAX_INT_BITS = 1 << 16

_SHORT = 1 << 63  # an int below is a JSON number
_MAX_BRACKETS = 4 * MAX_NESTING  # a level of a dict is three levels of JSON
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_HEX_INT = re.compile(r"-?0x[0-9a-f]+")


class NotPlain(ValueError):
    """A value that is no plain data; says of which type it, or a part of it, is."""


class TooLarge(ValueError):
    """A value with more bytes, levels or digits than are let through."""


def pack(value, *, limit):
    """What ``json.dumps`` takes, at most about ``limit`` bytes of it.

    Raises:
      NotPlain: a part is of another type than those above, or a subclass of one.
      TooLarge: longer than ``limit``, nested deeper than MAX_NESTING (a list that
        contains itself is), or with an int of more than MAX_INT_BITS.
    """
    room = limit

    def spend(size):
        nonlocal room
        room -= size
        if room < 0:
            raise TooLarge(f"more than the {limit} bytes that are left")

    def packed(value, level):
        kind = type(value)
        if value is None or kind is bool or kind is float:
            spend(24)
            return value
        if kind is int:
            return packed_int(value)
        if kind is str:
            return packed_str(value)
        if kind is bytes:
            spend(2 * len(value) + 12)
            return {"bytes": value.hex()}
        if kind is complex:
            spend(40)
            return {"complex": [value.real, value.imag]}
        if level == MAX_NESTING and kind in (list, tuple, set, frozenset, dict):
            raise TooLarge(f"nested deeper than {MAX_NESTING} levels")
        spend(16)
        if kind is list:
            return [packed(part, level + 1) for part in value]
        if kind in (tuple, set, frozenset):
            return {kind.__name__: [packed(part, level + 1) for part in value]}
        if kind is dict:
            pairs = value.items()
            return {"dict": [[packed(x, level + 1) for x in pair] for pair in pairs]}
        raise NotPlain(f"{kind.__name__} is not plain data")

    def packed_int(value):
        if -_SHORT <= value < _SHORT:
            spend(20)
            return value
        if value.bit_length() > MAX_INT_BITS:
            raise TooLarge(f"an int of more than {MAX_INT_BITS} bits")
        spend(value.bit_length() // 4 + 16)
        return {"int": hex(value)}

    def packed_str(value):
        spend(len(value) + 2)
        if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            # JSON would join two halves of a pair into one character
            spend(6 * len(value))
            return {"str": value.encode("utf-8", "surrogatepass").hex()}
        spend(len(json.dumps(value)) - len(value))
        return value

    return packed(value, 0)


def unpack(packed):
    """The value that `pack` was given; a new object each time.

    Raises:
      ValueError: it is nothing that `pack` returns.
    """
    try:
        return _unpacked(packed, 0)
    except (TypeError, OverflowError) as error:  # an unhashable key, a wrong payload
        raise ValueError(f"not packed data: {error}") from None


def _unpacked(packed, level):
    if level > MAX_NESTING:
        raise ValueError(f"nested deeper than {MAX_NESTING} levels")
    if isinstance(packed, list):
        return [_unpacked(part, level + 1) for part in packed]
    if not isinstance(packed, dict):
        return packed
    if len(packed) != 1:
        raise ValueError(f"a tag has one key, here are {len(packed)}")
    ((tag, payload),) = packed.items()
    if tag in ("tuple", "set", "frozenset", "dict") and not isinstance(payload, list):
        raise ValueError(f"the payload of {tag} is no list")
    if tag == "tuple":
        return tuple(_unpacked(part, level + 1) for part in payload)
    if tag == "set":
        return {_unpacked(part, level + 1) for part in payload}
    if tag == "frozenset":
        return frozenset(_unpacked(part, level + 1) for part in payload)
    if tag == "dict":
        pairs = [[_unpacked(part, level + 1) for part in pair] for pair in payload]
        return {key: value for key, value in pairs}
    if tag == "bytes":
        return bytes.fromhex(payload)
    if tag == "str":
        return bytes.fromhex(payload).decode("utf-8", "surrogatepass")
    if tag == "complex":
        real, imaginary = payload
        return complex(float(real), float(imaginary))
    if tag == "int" and _HEX_INT.fullmatch(payload):
        return _int_of_hex(payload)
    raise ValueError(f"no tag {tag[:20]!r}")


def _int_of_hex(text):
    if len(text.removeprefix("-")) > MAX_INT_BITS // 4 + len("0x"):
        raise ValueError(f"an int of more than {MAX_INT_BITS} bits")
    return int(text, 16)


def parse(text: bytes):
    """``json.loads`` for bytes that nobody vouches for.

    Raises:
      ValueError: no JSON, nested deeper than anything `pack` returns, or with a number
        of more than 20 digits.
    """
    if text.count(b"[") + text.count(b"{") > _MAX_BRACKETS:
        level = 0
        for match in _STRING_OR_BRACKET.finditer(text):
            level += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(match[0], 0)
            if level > _MAX_BRACKETS:
                raise ValueError("JSON nested too deep")
    return json.loads(text, parse_int=_short_int)


def _short_int(digits):
    if len(digits) > 20:
        raise ValueError("a number of more than 20 digits")
    return int(digits)


def equal(answer, expected, *, relative=1e-6, absolute=1e-9) -> bool:
    """Whether an unpacked answer is what was expected: same types, same values.

    True is not 1, 1 is not 1.0, a tuple is no list. Floats (and the parts of complex
    numbers) may differ by ``max(relative * larger, absolute)``; nan is the right answer
    where nan was expected, an infinity only itself. Keys of a dict and members of a set
    are compared without tolerance and without regard to order.

    Raises:
      ValueError: ``expected`` is not plain, so that nothing could ever equal it.
    """
    kind = type(expected)
    if kind not in _PLAIN:
        raise ValueError(
            f"expected is of type {kind.__name__}, which is not plain data"
        )

    def same(left, right):
        return equal(left, right, relative=relative, absolute=absolute)

    if type(answer) is not kind:
        return False
    if kind is float:
        return _close(answer, expected, relative, absolute)
    if kind is complex:
        return _close(answer.real, expected.real, relative, absolute) and _close(
            answer.imag, expected.imag, relative, absolute
        )
    if kind in (list, tuple):
        return len(answer) == len(expected) and all(map(same, answer, expected))
    if kind in (set, frozenset):
        return set(map(_typed, answer)) == set(map(_typed, expected))
    if kind is dict:
        given = {_typed(key): value for key, value in answer.items()}
        wanted = {_typed(key): value for key, value in expected.items()}
        return given.keys() == wanted.keys() and all(
            same(given[key], wanted[key]) for key in wanted
        )
    return answer == expected


_SCALARS = (type(None), bool, int, float, complex, str, bytes)
_PLAIN = {*_SCALARS, list, tuple, set, frozenset, dict}


def _close(answer, expected, relative, absolute):
    if math.isnan(expected):
        return math.isnan(answer)
    return math.isclose(answer, expected, rel_tol=relative, abs_tol=absolute)


def _typed(key):
    """A key that tells 1 from True and 1.0, and nan from nothing."""
    kind = type(key)
    if kind is tuple:
        return kind, tuple(map(_typed, key))
    if kind is frozenset:
        return kind, frozenset(map(_typed, key))
    if key != key:
        return kind, "nan"
    return kind, key
