"""A family: one text with holes, from which several functions are made."""

import dataclasses
import string
import textwrap
from collections.abc import Callable, Iterator, Mapping

from agentic_grpo.envs.python_tasks.families.inputs import (
    DOMAINS,
    NUM_HIDDEN,
    NUM_VISIBLE,
)
from agentic_grpo.envs.python_tasks.problem import (
    Call,
    Problem,
    content_key,
    split_of,
)

NUM_LEVELS = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
    """Functions that differ in what fills the holes of their texts, ``$k`` say.

    Attributes:
      name: unique.
      level: difficulty, 1 .. NUM_LEVELS.
      domain: of ``inputs.DOMAINS``: the parameters, and what the functions are asked.
      entry: the name of the function.
      says: its docstring.
      body: the right and quick one.
      slow: a body that is right and takes far longer on large inputs; None: there are
        no large inputs.
      large: number -> the arguments of a large input, the values of the holes given.
      num_large: how many of them are hidden.
      holes: what fills the holes, one mapping per function.
    """

    name: str
    level: int
    domain: str
    entry: str
    says: str
    body: str
    slow: str | None = None
    large: Callable[..., tuple] | None = None
    num_large: int = 4
    holes: tuple[Mapping[str, object], ...]

    def problems(self, *, large_visible: bool = False) -> Iterator[Problem]:
        """One problem per mapping.

        Args:
          large_visible: large inputs are shown as well, others than the hidden ones
            and as many of them.
        """
        for number, holes in enumerate(self.holes):
            yield self._problem(number, holes, large_visible)

    def _problem(self, number, holes, large_visible):
        domain = DOMAINS[self.domain]
        entry = _fill(self.entry, holes)
        holes = {**holes, "entry": entry}
        head = f"def {entry}({', '.join(domain.parameters)}):"
        statement = f'{head}\n    """{_fill(self.says, holes)}"""'
        reference = _program(statement, _fill(self.body, holes))
        answer = function_of(reference, entry)

        calls = _asked(answer, domain.inputs)
        visible = calls[:NUM_VISIBLE]
        hidden = calls[NUM_VISIBLE : NUM_VISIBLE + NUM_HIDDEN]
        slow = None
        if self.slow is not None:
            slow = _program(statement, _fill(self.slow, holes))
            count = self.num_large
            large = [self.large(index, **holes) for index in range(2 * count)]
            # half of the verdict is for being quick
            hidden = hidden[:count] + _asked(answer, large[:count])
            if large_visible:
                visible = visible[:count] + _asked(answer, large[count:])
        return Problem(
            id=f"{self.name} {number}",
            statement=statement,
            entry=entry,
            visible=visible,
            hidden=hidden,
            level=self.level,
            split=split_of(content_key(calls)),
            reference=reference,
            slow=slow,
        )


def function_of(program: str, entry: str) -> Callable:
    """The function that a program of ours defines; never call it with another's."""
    namespace: dict = {}
    exec(compile(program, "<reference>", "exec"), namespace)
    return namespace[entry]


def one_hole(name: str, *values) -> tuple[Mapping[str, object], ...]:
    """Fillings of a single hole."""
    return tuple({name: value} for value in values)


def holes(names: str, *rows) -> tuple[Mapping[str, object], ...]:
    """Fillings of several holes, whose names are separated by blanks."""
    return tuple(dict(zip(names.split(), row, strict=True)) for row in rows)


def _asked(answer, inputs):
    return tuple(Call(args=args, want=answer(*args)) for args in inputs)


def _fill(text, holes):
    return string.Template(textwrap.dedent(text).strip()).substitute(holes)


def _program(statement, body):
    return f"{statement}\n{textwrap.indent(body, '    ')}\n"
