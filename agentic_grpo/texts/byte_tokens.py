"""A tokenizer that needs no files: one token for each byte."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

_SPECIAL = {256: b"<|end|>", 257: b"<|padding|>"}


class ByteTokenizer:
    """Bytes of UTF-8, an end and a padding; for models that are trained from nothing.

    It has what ``tokenizer.Tokenizer`` has, as far as text that is gone on with needs
    it; there are no turns of a conversation.
    """

    vocabulary_size = 256 + len(_SPECIAL)
    begin_tokens: tuple[int, ...] = ()
    end_tokens = (256,)
    special_tokens: ClassVar[Mapping[str, int]] = {
        spelling.decode(): token for token, spelling in _SPECIAL.items()
    }

    def encode(self, text: str) -> list[int]:
        """Ordinary tokens; whatever it spells, none of them is special.

        Raises:
          UnicodeEncodeError: half a surrogate pair, which no bytes can stand for.
        """
        return list(text.encode("utf-8"))

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens, special ones spelled out; what is no text is U+FFFD."""
        parts = [
            bytes([token]) if 0 <= token < 256 else _SPECIAL.get(token, b"\xff")
            for token in map(int, tokens)
        ]
        return b"".join(parts).decode("utf-8", "replace")
