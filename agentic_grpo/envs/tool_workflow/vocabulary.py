"""Token ids and what they mean: one vocabulary for every configuration."""

from collections.abc import Iterable

from agentic_grpo.envs.tool_workflow.requests import KINDS
from agentic_grpo.envs.tool_workflow.tools import SLOTS, Tool

#: The stages that a workflow may be made of.
STAGE_NAMES = ("plan", "call", "check", "revise")

#: Where the records are read: a copy at hand, or where they are kept.
ROUTES = ("cache", "origin")
CACHE, ORIGIN = range(2)

#: What the statement says of the copies: they are as they should be, or out of date.
SOURCES = ("settled", "moving")

#: Call stages of the longest workflow; two calls each.
MAX_PARTS = 6

#: Digits, and on to the largest budget.
NUM_NUMBERS = 20

NAMES: tuple[str, ...] = (
    "<pad>",
    "<end>",
    "submit",
    "?",
    *(str(number) for number in range(NUM_NUMBERS)),
    *SLOTS,
    *(tool.name.lower() for tool in Tool),
    *ROUTES,
    *(f"part{1 + part}" for part in range(MAX_PARTS)),
    "refused",
    "malformed",
    *(f"<{name}>" for name in STAGE_NAMES),
    *SOURCES,
    *KINDS,
)
TOKENS: dict[str, int] = {name: token for token, name in enumerate(NAMES)}
VOCABULARY_SIZE = len(NAMES)

PAD, END, SUBMIT, HIDDEN = (TOKENS[name] for name in ("<pad>", "<end>", "submit", "?"))
REFUSED, MALFORMED = TOKENS["refused"], TOKENS["malformed"]
FIRST_NUMBER = TOKENS["0"]
FIRST_SLOT = TOKENS[SLOTS[0]]
FIRST_TOOL = TOKENS["set"]
FIRST_ROUTE = TOKENS[ROUTES[0]]
FIRST_PART = TOKENS["part1"]
FIRST_SOURCE = TOKENS[SOURCES[0]]
FIRST_KIND = TOKENS[next(iter(KINDS))]

assert len(TOKENS) == len(NAMES), "two tokens share a name"


def spell(tokens: Iterable[int]) -> str:
    """The names of token ids, for people; padding is left out, unknown ids in <>."""
    return " ".join(
        NAMES[token] if 0 <= token < VOCABULARY_SIZE else f"<{token}>"
        for token in map(int, tokens)
        if token != PAD
    )
