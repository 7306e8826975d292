"""Text of others as text: what is read from a file does not steer the terminal."""

import re

#: C0 and C1 controls but tab and newline, and the marks that turn a text's direction.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def printable(text: str) -> str:
    r"""The text with every control character spelled out: ESC is ``\x1b``."""
    return _CONTROLS.sub(lambda match: repr(match[0])[1:-1], text)
