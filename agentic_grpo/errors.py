"""How input is refused: the field, its value and the rule that it breaks."""

import difflib
from collections.abc import Iterable
from typing import Any


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
