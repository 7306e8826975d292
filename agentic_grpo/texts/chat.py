"""Conversations as tokens: what stands before an action, and what follows it.

An action's tokens are never text in between: they stay as the model drew them. What is
around them is tokenised once, and never joined with them. The token before an action is
its stage's marker, always the same one: the last of what opens the assistant's turn.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence

from agentic_grpo.texts.templates import Template
from agentic_grpo.texts.tokenizer import Tokenizer

#: Unicode keeps these for private use; those that a text does use are passed over.
_PRIVATE = range(0xF0000, 0xFFFFE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TurnForm:
    """A form in which every turn is written alike.

    Attributes:
      begin: before all turns.
      before_role, after_role, after_content: around role and content of each.
      trims: whether blanks around a content are left out.
    """

    begin: str = ""
    before_role: str
    after_role: str
    after_content: str
    trims: bool = False

    @property
    def marks(self) -> list[str]:
        """The special tokens in it."""
        around = (self.begin, self.before_role, self.after_role, self.after_content)
        return re.findall(r"<\|\w+\|>", "".join(around))

    def __call__(self, messages, *, opened: bool) -> str:
        """As ``Template``."""
        turns = [self.begin]
        for message in messages:
            content = message["content"]
            content = content.strip() if self.trims else content
            turns += [self.before_role, message["role"], self.after_role, content]
            turns.append(self.after_content)
        if opened:
            turns += [self.before_role, "assistant", self.after_role]
        return "".join(turns)


FORMS = {
    "chatml": TurnForm(
        before_role="<|im_start|>", after_role="\n", after_content="<|im_end|>\n"
    ),
    "llama_3": TurnForm(
        begin="<|begin_of_text|>",
        before_role="<|start_header_id|>",
        after_role="<|end_header_id|>\n\n",
        after_content="<|eot_id|>",
        trims=True,
    ),
}
_ROLES = ("system", "user", "assistant", "tool")
_SOME_MESSAGE = {"role": "user", "content": "x"}


def open_chat(
    tokenizer: Tokenizer, form: str = "published", variables: Mapping | None = None
) -> "Chat":
    """The conversations of a tokenizer.

    Args:
      tokenizer: whose special tokens mark the turns.
      form: "published", the template of the tokenizer, or one of ``FORMS``.
      variables: what a published template may read besides, {"enable_thinking": False}.

    Raises:
      ValueError: no template was published, or the tokenizer lacks the form's tokens.
    """
    if form == "published":
        if tokenizer.chat_template is None:
            raise ValueError(
                f"form={form!r}: no template came with this tokenizer; name one of "
                f"{', '.join(FORMS)}"
            )
        known = {"bos_token": tokenizer.bos_token, "eos_token": tokenizer.eos_token}
        known |= variables or {}
        render: Callable[..., str] = Template(
            text=tokenizer.chat_template, variables=tuple(known.items())
        )
    elif form in FORMS:
        if variables:
            raise ValueError(f"variables={variables!r} must be None with form={form!r}")
        render = turns = FORMS[form]
        lacking = [mark for mark in turns.marks if mark not in tokenizer.special_tokens]
        if lacking:
            raise ValueError(
                f"form={form!r} needs the special tokens {', '.join(lacking)}, which "
                "this tokenizer lacks"
            )
    else:
        raise ValueError(f"form={form!r} must be 'published' or one of {list(FORMS)}")
    return Chat(tokenizer, render)


class Chat:
    """Conversations in one form.

    Attributes:
      marker: the token before every action, the last of what opens a turn.
      turn_end: the token by which the assistant closes its turn.
      end_tokens: ids that end an action: ``turn_end``, and those of the tokenizer.
    """

    def __init__(self, tokenizer: Tokenizer, render: Callable[..., str]):
        """Asks the form for its marker and its end of a turn.

        Raises:
          ValueError: its turns do not end by a special token, or do not open.
        """
        self._tokenizer, self._render = tokenizer, render
        opening = self._tokens([_SOME_MESSAGE], opened=True)
        closed = self._tokens([_SOME_MESSAGE], opened=False)
        if opening[: len(closed)] != closed or len(opening) == len(closed):
            raise ValueError("the form must open the assistant's turn")
        self.marker = opening[-1]
        special = tokenizer.special_tokens.values()
        following = self._following([])
        if not following or following[0] not in special:
            raise ValueError(
                f"the form must end turns by a special token, not by "
                f"{tokenizer.decode(following[:1])!r}; special are "
                f"{', '.join(tokenizer.special_tokens) or 'none'}"
            )
        self.turn_end = following[0]
        ends = dict.fromkeys((self.turn_end, *tokenizer.end_tokens))
        self.end_tokens = tuple(ends)

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """The conversation so far, up to the marker of the action that comes next.

        Special tokens that a message spells stay ordinary text.

        Args:
          messages: {"role": ..., "content": ...} each.

        Raises:
          ValueError: a message is malformed, or the form refuses it.
        """
        return self._before_marker(self._tokens(messages, opened=True))

    def observation(self, messages, *, is_closed: bool) -> list[int]:
        """What follows an action, up to the marker of the next one.

        Args:
          messages: as for ``prompt``; what is answered to the action.
          is_closed: the action's last token is ``turn_end``; if not, it comes first.

        Raises:
          ValueError: as ``prompt``.
        """
        following = self._before_marker(self._following(messages))
        return following[1:] if is_closed else following

    def _before_marker(self, tokens):
        if tokens[-1] != self.marker:
            raise ValueError(
                f"messages: the form opens this turn by "
                f"{self._tokenizer.decode(tokens[-1:])!r}, which must be "
                f"{self._tokenizer.decode([self.marker])!r}"
            )
        return tokens[:-1]

    def _following(self, messages):
        """Tokens after an assistant's content: end of its turn, messages, opening."""
        _check(messages)
        action = next(_unused(messages))
        turns = [_SOME_MESSAGE, {"role": "assistant", "content": action}, *messages]
        protected, restore = self._protect(turns)
        text = self._render(protected, opened=True)
        if text.count(action) != 1:
            raise ValueError(
                f"the form must show what the assistant wrote once, not "
                f"{text.count(action)} times"
            )
        return self._tokens_of_text(text.partition(action)[2], restore)

    def _tokens(self, messages, *, opened):
        _check(messages)
        protected, restore = self._protect(messages)
        return self._tokens_of_text(self._render(protected, opened=opened), restore)

    def _tokens_of_text(self, text, restore):
        tokens = []
        for piece in self._tokenizer.split_at_special(text):
            if isinstance(piece, int):
                tokens.append(piece)
            else:
                tokens += self._tokenizer.encode(piece.translate(restore))
        return tokens

    def _protect(self, messages):
        """Messages that spell no special token, and the table that restores them.

        A form is rendered with them and sees their text almost as it is: only the first
        letter of what looks like a special token stands for itself until afterwards.
        """
        unused = _unused(messages)
        stand_ins = {first: next(unused) for first in self._first_letters}
        protected = [
            {
                key: self._spelled.sub(lambda match: stand_ins[match[0]], text)
                for key, text in message.items()
            }
            for message in messages
        ]
        return protected, {ord(new): old for old, new in stand_ins.items()}

    @functools.cached_property
    def _first_letters(self):
        return sorted({spelling[0] for spelling in self._tokenizer.special_tokens})

    @functools.cached_property
    def _spelled(self):
        spellings = map(re.escape, self._tokenizer.special_tokens)
        return re.compile(f"(?={'|'.join(spellings) or '(?!)'}).", re.DOTALL)


def _unused(messages):
    """Characters that occur in none of the messages."""
    used = set().union(*(message["content"] for message in messages))
    return (chr(code) for code in _PRIVATE if chr(code) not in used)


def _check(messages):
    for number, message in enumerate(messages):
        if set(message) != {"role", "content"}:
            raise ValueError(
                f"messages[{number}]={dict(message)!r} must have role and content alone"
            )
        if message["role"] not in _ROLES:
            raise ValueError(
                f"messages[{number}]: role={message['role']!r} must be one of "
                f"{', '.join(_ROLES)}"
            )
        if not isinstance(message["content"], str):
            raise ValueError(
                f"messages[{number}]: content={message['content']!r} must be a text"
            )
