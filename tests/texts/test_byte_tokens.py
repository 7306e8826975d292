"""A byte is a token; nothing that is written becomes special."""

import hypothesis
import pytest
from hypothesis import strategies

from agentic_grpo.envs.python_tasks import generate
from agentic_grpo.envs.python_tasks.statements import Completion
from agentic_grpo.texts import ByteTokenizer

TOKENIZER = ByteTokenizer()


@hypothesis.given(
    strategies.text(alphabet=strategies.characters(exclude_categories=["Cs"]))
)
def test_text_comes_back_and_holds_no_special_token(text):
    tokens = TOKENIZER.encode(text)
    assert TOKENIZER.decode(tokens) == text
    assert all(0 <= token < 256 for token in tokens)


def test_special_tokens_are_spelled_and_what_is_no_text_is_marked():
    assert TOKENIZER.encode("é<|end|>")[:2] == [0xC3, 0xA9]
    assert TOKENIZER.decode([104, 256, 257]) == "h<|end|><|padding|>"
    assert TOKENIZER.decode([0xC3, 104]) == "\ufffdh"
    assert TOKENIZER.decode([300, -1]) == "\ufffd\ufffd"
    with pytest.raises(UnicodeEncodeError):
        TOKENIZER.encode("\ud800")


def test_functions_are_gone_on_with():
    problem = generate(["add"])[0]
    form = Completion(TOKENIZER)
    opening = form.prompt(problem, "code")
    told = TOKENIZER.decode([*opening.tokens, opening.marker])
    assert told == f"{problem.statement}\n    "
    written = form.write(problem, "code", problem.reference, is_first=True)
    assert TOKENIZER.decode(written) == "return x + 2"
    action = (*written, TOKENIZER.end_tokens[0])
    assert form.read(problem, "code", action, is_first=True) == problem.reference
