"""Text to tokens and back, as a published tokenizer says."""

import dataclasses
import functools
import itertools
import json
import pathlib
import re
from collections.abc import Iterable

#: Added tokens of this form are marks of a conversation, whether or not the publisher
#: calls them special: ``<|im_end|>``, ``</think>``, ``[INST]``. Others (runs of blanks)
#: are words like any other.
_MARK = re.compile(r"<[^\s<>]+>|\[[^\s\[\]]+\]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """A tokenizer of byte pairs.

    What is special in a text of ours is never special in a text of others: ``encode``
    spells ``<|im_end|>`` out in ordinary tokens, ``split_at_special`` finds it.

    Attributes:
      description: the text of a ``tokenizer.json``.
      end_tokens: ids; each ends what a model writes.
      chat_template: of the publisher, in Jinja; None: none.
      bos_token: spelling of the token that templates know by this name; "": none.
      eos_token: the same.
    """

    description: str
    end_tokens: tuple[int, ...]
    chat_template: str | None = None
    bos_token: str = ""
    eos_token: str = ""

    def __post_init__(self):
        """Refuses what cannot keep its promises.

        Raises:
          ValueError: not a description of byte pairs; an end token that does not exist;
            or a special token that ``encode`` would make of its spelling.
        """
        if not self.end_tokens:
            raise ValueError("end_tokens=() must name what ends a text")
        for token in self.end_tokens:
            if not 0 <= token < self.vocabulary_size:
                raise ValueError(
                    f"end_tokens={self.end_tokens}: {token} must be a token below "
                    f"{self.vocabulary_size}"
                )
        special = set(self.special_tokens.values())
        for spelling in self.special_tokens:
            if not special.isdisjoint(self.encode(spelling)):
                raise ValueError(
                    f"the text {spelling!r} must not become a special token; this "
                    "tokenizer knows no other way to write it"
                )

    @functools.cached_property
    def _backend(self):
        import tokenizers

        content = json.loads(self.description)
        for token in content["added_tokens"]:
            token["special"] |= bool(_MARK.fullmatch(token["content"]))
        backend = tokenizers.Tokenizer.from_str(json.dumps(content))
        backend.encode_special_tokens = True  # "as text": as if they were not special
        return backend

    @functools.cached_property
    def vocabulary_size(self) -> int:
        """All tokens are below it. A model may have more rows, which spell nothing."""
        return max(self._backend.get_vocab().values()) + 1

    @functools.cached_property
    def special_tokens(self) -> dict[str, int]:
        """Spelling -> id."""
        added = self._backend.get_added_tokens_decoder()
        return {token.content: id for id, token in added.items() if token.special}

    @functools.cached_property
    def begin_tokens(self) -> tuple[int, ...]:
        """What the publisher puts before every text that is no conversation."""
        bare, whole = (
            self._backend.encode("a", add_special_tokens=add).ids
            for add in (False, True)
        )
        for start in range(len(whole) - len(bare) + 1):
            if whole[start : start + len(bare)] == bare:
                return tuple(whole[:start])
        return ()

    def encode(self, text: str) -> list[int]:
        """Ordinary tokens; whatever it spells, none of them is special.

        Raises:
          ValueError: half a surrogate pair, which no bytes can stand for.
        """
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"text[{error.start}]={text[error.start]!r} must not be half of a "
                "surrogate pair; text.encode('utf-8', 'replace').decode() replaces it"
            ) from None
        return self._backend.encode(text, add_special_tokens=False).ids

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens, special ones spelled out.

        Of what ``encode`` gave it is the text again, unless the tokenizer normalises
        (Qwen: NFC). Bytes that are no text, and rows of a model that spell nothing,
        become U+FFFD.
        """
        text = ""
        for known, run in itertools.groupby(map(int, tokens), key=self._is_known):
            if known:
                text += self._backend.decode(list(run), skip_special_tokens=False)
            else:
                text += "\ufffd" * len(list(run))
        return text

    def _is_known(self, token):
        return token >= 0 and self._backend.id_to_token(token) is not None

    def single_token(self, text: str) -> int:
        """The one token of a text.

        Raises:
          ValueError: it takes more than one, or none.
        """
        tokens = self.encode(text)
        if len(tokens) != 1:
            raise ValueError(
                f"text={text!r} must be one token, and is {len(tokens)}: "
                f"{[self.decode([token]) for token in tokens]}"
            )
        return tokens[0]

    def split_at_special(self, text: str) -> list[str | int]:
        """The text between special tokens, and their ids where they are spelled."""
        pieces = re.split(self._special_pattern, text)
        for number in range(1, len(pieces), 2):
            # What a token takes of the blanks around it belongs to it.
            spelling = pieces[number]
            known = self.special_tokens
            pieces[number] = known.get(spelling, known.get(spelling.strip()))
        return [piece for piece in pieces if piece != ""]

    @functools.cached_property
    def _special_pattern(self):
        added = self._backend.get_added_tokens_decoder().values()
        spellings = sorted(
            (token for token in added if token.special),
            key=lambda token: -len(token.content),  # the longest first
        )
        patterns = [
            (r"\s*" if token.lstrip else "")
            + re.escape(token.content)
            + (r"\s*" if token.rstrip else "")
            for token in spellings
        ]
        return re.compile(f"({'|'.join(patterns)})" if patterns else r"((?!))")

    def save(self, folder) -> None:
        """Writes the files that transformers, and ``load_tokenizer``, read.

        Raises:
          ValueError: one of them is there already.
        """
        files = {
            "tokenizer.json": self.description,
            "tokenizer_config.json": json.dumps(
                {
                    "tokenizer_class": "PreTrainedTokenizerFast",
                    "bos_token": self.bos_token or None,
                    "eos_token": self.eos_token or None,
                    "chat_template": self.chat_template,
                    "clean_up_tokenization_spaces": False,
                },
                indent=2,
            ),
            "generation_config.json": json.dumps(
                {"eos_token_id": list(self.end_tokens)}, indent=2
            ),
        }
        folder = pathlib.Path(folder)
        for name in files:
            if (folder / name).exists():
                raise ValueError(f"folder={str(folder)!r} must not hold a {name} yet")
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_text(content, encoding="utf-8")
