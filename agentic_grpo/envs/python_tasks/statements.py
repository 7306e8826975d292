"""How a task is told and what a member wrote is read, in one of two forms.

``Completion``: the statement is code, and the member goes on with the body of its last
function. ``Conversation``: the statement is a message, the program is in the reply.

Tokens are made once, from text of ours; what a member wrote is never tokenised again.
Every opening ends with one token, the stage's marker, which is no part of what comes
before it.
"""

import ast
import re
from typing import NamedTuple, Protocol

from agentic_grpo.envs.python_tasks.problem import Problem
from agentic_grpo.envs.python_tasks.protocols import Chat, Tokenizer
from agentic_grpo.envs.python_tasks.showing import show_call
from agentic_grpo.errors import Refused, require

_INDENT = "    "
_BODY = re.compile(rf"\s*\n{_INDENT}(?=\S)(.*)", re.DOTALL)
_FENCE = re.compile(r"```[^\n]*\n(.*?)(?:```|\Z)", re.DOTALL)


class Opening(NamedTuple):
    """Tokens up to the marker, and the marker."""

    tokens: list[int]
    marker: int


class Form(Protocol):
    """Attributes: ``end_tokens``, of what a member writes."""

    end_tokens: tuple[int, ...]

    def prompt(self, problem: Problem, stage: str) -> Opening:
        """The statement, up to a first stage."""
        ...

    def observation(
        self, problem: Problem, told: str, action: tuple[int, ...], stage: str
    ) -> Opening:
        """What follows an action, up to the stage that comes next."""
        ...

    def read(
        self, problem: Problem, stage: str, action: tuple[int, ...], *, is_first: bool
    ) -> str:
        """The program, or the expression of a hypothesis; blank if nothing is told."""
        ...

    def write(
        self, problem: Problem, stage: str, text: str, *, is_first: bool
    ) -> list[int]:
        """What ``read`` reads as a whole program or an expression; without an end."""
        ...


class Completion:
    """Implements ``Form``: code that is gone on with.

    A program ends before the first line that is not indented. Where the tokenizer tells
    a line break before such a line from one before an indented line, that token is an
    end token, so that nothing is written for nothing.
    """

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._openings: dict[tuple, Opening] = {}
        self.end_tokens = (*_ends_of_block(tokenizer), *tokenizer.end_tokens)

    def prompt(self, problem, stage):
        opening = self._opening(problem, stage, is_first=True)
        return Opening([*self._tokenizer.begin_tokens, *opening.tokens], opening.marker)

    def observation(self, problem, told, action, stage):
        comment = self._tokenizer.encode(f"\n# {' '.join(told.split())}")
        opening = self._opening(problem, stage, is_first=False)
        return Opening(comment + opening.tokens, opening.marker)

    def read(self, problem, stage, action, *, is_first):
        action = _without_end(action, self.end_tokens)
        opening = self._opening(problem, stage, is_first=is_first)
        before = [*opening.tokens, opening.marker]
        known = self._tokenizer.decode(before)
        written = self._tokenizer.decode([*before, *action])[len(known) :]
        if stage == "hypothesis":
            return written.partition("\n")[0].strip()
        body = re.split(r"\n(?=\S)", written)[0].rstrip()
        if not body:
            return ""
        preamble = "" if is_first else _parts(problem)[0]
        return f"{preamble}{known}{body}\n"

    def write(self, problem, stage, text, *, is_first):
        if stage == "hypothesis":
            written = f" {text}"
        else:
            head = problem.statement.rstrip()
            body = _BODY.match(text.removeprefix(head))
            rule = f"a program that goes on where its statement ends, {head!r}"
            holds = text.startswith(head) and body is not None
            require(holds, _of(problem, "reference"), text, rule)
            written = body[1].rstrip()
        before, _ = _code(problem, stage, is_first=is_first)
        opening = self._opening(problem, stage, is_first=is_first)
        opened = [*opening.tokens, opening.marker]
        tokens = self._tokenizer.encode(before + written)
        rule = "a text that starts with a token of its own"
        holds = tokens[: len(opened)] == opened
        require(holds, _of(problem, "reference"), text, rule)
        return tokens[len(opened) :]

    def _opening(self, problem, stage, *, is_first):
        key = problem.id, stage, is_first
        if key not in self._openings:
            self._openings[key] = self._cut(problem, stage, is_first)
        return self._openings[key]

    def _cut(self, problem, stage, is_first):
        """The tokens before the first one of what a stage writes."""
        text, probe = _code(problem, stage, is_first=is_first)
        tokens = self._tokenizer.encode(text + probe)
        count = len(tokens)
        while count and not text.startswith(self._tokenizer.decode(tokens[:count])):
            count -= 1
        rule = "text that this tokenizer spells as it is"
        require(count > 0, _of(problem, "statement"), problem.statement, rule)
        return Opening(tokens[: count - 1], tokens[count - 1])


class Conversation:
    """Implements ``Form``: a message, and a reply with the program in a code block.

    A reply without a block is a program as it stands.
    """

    def __init__(self, tokenizer: Tokenizer, chat: Chat):
        self._tokenizer, self._chat = tokenizer, chat
        self.end_tokens = chat.end_tokens

    def prompt(self, problem, stage):
        if stage == "hypothesis":
            call = show_call(problem.entry, problem.visible[0].args)
            ask = f"What does {call} return? Answer with the value alone."
        else:
            ask = f"Write the Python function {problem.entry}. {_IN_A_BLOCK}"
        text = f"{problem.statement.rstrip()}\n\n{ask}"
        return Opening(self._chat.prompt(_said(text)), self._chat.marker)

    def observation(self, problem, told, action, stage):
        if stage == "code":
            ask = f"Now write {problem.entry}. {_IN_A_BLOCK}"
        else:
            ask = (
                f"Correct {problem.entry}, or answer nothing to keep it. {_IN_A_BLOCK}"
            )
        is_closed = action[-1:] == (self._chat.turn_end,)
        tokens = self._chat.observation(_said(f"{told}\n{ask}"), is_closed=is_closed)
        return Opening(tokens, self._chat.marker)

    def read(self, problem, stage, action, *, is_first):
        reply = self._tokenizer.decode(_without_end(action, self.end_tokens))
        if stage == "hypothesis":
            return reply.strip().partition("\n")[0].strip("` ")
        block = _FENCE.search(reply)
        program = (block[1] if block else reply).rstrip()
        if not program:
            return ""
        try:
            preamble, _ = _parts(problem)
        except Refused:  # a statement in words
            preamble = ""
        return f"{preamble}{program}\n"

    def write(self, problem, stage, text, *, is_first):
        if stage != "hypothesis":
            text = f"```python\n{text.rstrip()}\n```"
        return self._tokenizer.encode(text)


_IN_A_BLOCK = "Answer with its code in a ```python block."


def _said(text):
    return [{"role": "user", "content": text}]


def _without_end(action, end_tokens):
    return action[:-1] if action and action[-1] in end_tokens else action


def _ends_of_block(tokenizer) -> tuple[int, ...]:
    """Tokens of line breaks that stand only before a line that is not indented."""
    within = set(tokenizer.encode("x = y\n    x = y\n    return x"))
    found: dict[int, None] = {}
    for count in (1, 2, 3):
        for token in tokenizer.encode("x" + "\n" * count + "def f"):
            if not tokenizer.decode([token]).strip("\n") and token not in within:
                found[token] = None
    return tuple(found)


def _code(problem, stage, *, is_first):
    """The text before what a stage writes, and something that could follow."""
    if stage == "hypothesis":
        call = show_call(problem.entry, problem.visible[0].args)
        statement = problem.statement.rstrip()
        return f"{statement}\n{_INDENT}...\n\n# {call} returns", " 0"
    _, head = _parts(problem)
    start = problem.statement.rstrip() if is_first else f"\n{head}"
    return f"{start}\n{_INDENT}", "pass"


def _parts(problem):
    """(what comes before its last function, that function's head) of a statement.

    Raises:
      Refused: the statement is no code that can be gone on with.
    """
    statement, reason = problem.statement.rstrip(), ""
    try:
        last = ast.parse(f"{statement}\n{_INDENT}pass\n").body[-1]
    except SyntaxError as error:
        last, reason = None, f"; {error.msg}, line {error.lineno}"
    require(
        isinstance(last, ast.FunctionDef) and last.name == problem.entry,
        _of(problem, "statement"),
        statement,
        f"code up to the body of {problem.entry}, its last function{reason}",
    )
    lines = statement.splitlines(keepends=True)
    first = min([last, *last.decorator_list], key=lambda node: node.lineno).lineno - 1
    head = "".join(lines[first : last.body[0].lineno - 1]).rstrip()
    return "".join(lines[:first]), head


def _of(problem, field):
    return f"problems[{problem.id!r}].{field}"
