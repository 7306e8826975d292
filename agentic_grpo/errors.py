"""How input is refused: the field, its value and the rule that it breaks.

And how the contract kits say in what an environment or a policy is none.
"""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Refused(ValueError):
    """Input that breaks a rule, found before anything is computed or written.

    Attributes:
      field: name of the argument, or dotted path of the setting.
      value: what was given.
      rule: what it must be instead; completes the words "must be".
    """

    def __init__(self, field: str, value: Any, rule: str) -> None:
        super().__init__(field, value, rule)
        self.field, self.value, self.rule = field, value, rule

    def __str__(self) -> str:
        return f"{self.field}={self.value!r} must be {self.rule}"

    def under(self, path: str) -> "Refused":
        """The same refusal by who knows where the field stands: ``path.field``."""
        return Refused(f"{path}.{self.field}", self.value, self.rule)


def require(condition: bool, field: str, value: Any, rule: str) -> None:
    """Raises ``Refused`` unless the condition holds."""
    if not condition:
        raise Refused(field, value, rule)


def require_choice(field: str, value: Any, choices: Iterable[Any]) -> None:
    """Raises ``Refused``, with the nearest of the ``choices``, unless it is of them."""
    choices = tuple(choices)
    if value not in choices:
        nearest = difflib.get_close_matches(str(value), map(str, choices), n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
        raise Refused(field, value, f"one of {', '.join(map(str, choices))}{hint}")


class Violation(NamedTuple):
    """One broken clause of a contract: the name of the check, and what was seen."""

    check: str
    message: str


class ContractError(AssertionError):
    """Something breaks its contract; the message lists every violation."""


def require_none(name: str, found: Sequence[Violation]) -> None:
    """Raises a ContractError that lists the violations of what has this name."""
    if found:
        listed = "\n".join(f"  {check}: {message}" for check, message in found)
        raise ContractError(f"{name} breaks its contract:\n{listed}")
