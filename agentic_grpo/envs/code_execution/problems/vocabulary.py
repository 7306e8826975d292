"""Token ids and what they mean: one vocabulary for every configuration.

Programs are written with one token per instruction; the digits 0 .. 9 are the
instructions that push them, so that a digit of the statement can be copied into a
program. ``END`` ends what the agent writes in a stage.
"""

from collections.abc import Iterable, Sequence

from agentic_grpo.envs.code_execution.problems.families import WORDS
from agentic_grpo.envs.code_execution.problems.plans import PLANS
from agentic_grpo.envs.code_execution.vm.instructions import (
    MNEMONICS,
    NUM_OPS,
    Op,
)

#: The stages that a workflow may be made of, in the order of the longest one.
STAGE_NAMES = ("hypothesis", "algorithm", "code", "tests", "debug", "summary")

#: What feedback says: of a test, of a claim, and of text that could not be read.
STATUS_NAMES = ("not_run", "passed", "wrong", "fault", "out_of_fuel")
ANSWER_NAMES = ("verified", "counterexample", "malformed")

NAMES: tuple[str, ...] = (
    "<pad>",
    "<end>",
    "submit",
    "?",
    *(MNEMONICS[op] for op in Op),
    *STATUS_NAMES,
    *ANSWER_NAMES,
    *PLANS,
    *(f"<{name}>" for name in STAGE_NAMES),
    *WORDS,
)
TOKENS: dict[str, int] = {name: token for token, name in enumerate(NAMES)}
VOCABULARY_SIZE = len(NAMES)

PAD, END, SUBMIT, HIDDEN = (TOKENS[name] for name in ("<pad>", "<end>", "submit", "?"))
FIRST_OPCODE = TOKENS[MNEMONICS[Op.HALT]]
FIRST_DIGIT = TOKENS["0"]
FIRST_STATUS = TOKENS[STATUS_NAMES[0]]
FIRST_PLAN = TOKENS[next(iter(PLANS))]
VERIFIED, COUNTEREXAMPLE, MALFORMED = (TOKENS[name] for name in ANSWER_NAMES)

assert TOKENS[MNEMONICS[Op.CLOSE]] == FIRST_OPCODE + NUM_OPS - 1
assert len(TOKENS) == len(NAMES), "two tokens share a name"


def tokenize(text: str) -> list[int]:
    """Token ids of words separated by blanks.

    Raises:
      ValueError: a word is not in the vocabulary.
    """
    unknown = [word for word in text.split() if word not in TOKENS]
    if unknown:
        raise ValueError(f"text has the word {unknown[0]!r}, which is no token's name")
    return [TOKENS[word] for word in text.split()]


def spell(tokens: Iterable[int]) -> str:
    """The names of token ids, for people; padding is left out."""
    return " ".join(NAMES[int(token)] for token in tokens if int(token) != PAD)


def pad(tokens: Sequence[int], width: int) -> list[int]:
    """Token ids filled up with padding to ``width``."""
    if len(tokens) > width:
        raise ValueError(f"tokens has {len(tokens)} entries; at most {width} fit")
    return [*tokens, *[PAD] * (width - len(tokens))]
