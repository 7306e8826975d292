"""What others wrote is shown, and obeyed by nobody."""

import unicodedata

from agentic_grpo.training.plain_text import printable


def test_controls_are_spelled_out_and_everything_else_stays():
    assert printable("\x1b[2J\x07\x9b\r\u202e") == r"\x1b[2J\x07\x9b\r\u202e"
    text = "plain [/b] é 中文 🙂 — line\n\ttwo"
    assert printable(text) == text
    for code in range(0x110000):
        if unicodedata.category(chr(code)) == "Cc" and chr(code) not in "\n\t":
            assert printable(chr(code)).isprintable(), hex(code)
