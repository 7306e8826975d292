"""Statements as tokens, and what members write as programs."""

import ast

import pytest
from known_programs import KnownPrograms, plain, sandbox_of

from agentic_grpo.envs.python_tasks import families
from agentic_grpo.envs.python_tasks.config import PythonTasksConfig
from agentic_grpo.envs.python_tasks.environment import PythonTasks
from agentic_grpo.envs.python_tasks.problem import Call, Problem
from agentic_grpo.envs.python_tasks.scripted_agent import ScriptedAgent
from agentic_grpo.envs.python_tasks.statements import Completion, Conversation
from agentic_grpo.texts import load_tokenizer

pytest.importorskip("tokenizers", reason="an extra: llm")

import tiny_tokenizers
from tokenizers import Regex, pre_tokenizers

HELPED = Problem(
    id="helped",
    statement=(
        "import math\n\n\ndef double(x):\n    return 2 * x\n\n\n"
        'def f(x: int,\n      y=2) -> int:\n    """ Return\n    x.\n    """\n'
    ),
    entry="f",
    visible=(Call(args=(3,), want=3),),
)
#: As Llama 3 and Qwen 2 cut: a line break is a piece of its own before an indent too.
LLAMA_3_RULES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@pytest.fixture(scope="module")
def all_problems():
    return families.generate()


@pytest.fixture(scope="module")
def other_tokenizer(corpus, tmp_path_factory):
    rules = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA_3_RULES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    content = tiny_tokenizers.train(rules=rules, corpus=corpus, size=700)
    folder = tmp_path_factory.mktemp("other")
    tiny_tokenizers.write_folder(
        folder, content, generation_config={"eos_token_id": [2, 0]}
    )
    return load_tokenizer(folder)


@pytest.fixture(params=["like SmolLM2", "like Llama 3", "conversation"])
def form(request, tokenizer, other_tokenizer, chat):
    if request.param == "conversation":
        return Conversation(tokenizer, chat)
    return Completion(tokenizer if request.param == "like SmolLM2" else other_tokenizer)


def test_every_program_comes_back_from_tokens(form, all_problems):
    for problem in all_problems:
        for is_first in (True, False):
            for program in filter(None, (problem.reference, problem.slow)):
                tokens = form.write(problem, "code", program, is_first=is_first)
                for end in ((), form.end_tokens[:1], form.end_tokens[-1:]):
                    written = (*tokens, *end)
                    read = form.read(problem, "code", written, is_first=is_first)
                    assert plain(read) == plain(program), read


def test_one_token_opens_a_stage_of_every_problem(form, all_problems):
    for stage in ("code", "debug"):
        asked = [form.prompt(problem, stage) for problem in all_problems]
        told = [form.observation(one, "f(1) is 2", (), stage) for one in all_problems]
        assert len({opening.marker for opening in (*asked, *told)}) == 1


def test_completion_goes_on_where_the_statement_ends(tokenizer, all_problems):
    form = Completion(tokenizer)
    for problem in all_problems:
        opening = form.prompt(problem, "code")
        text = tokenizer.decode([*opening.tokens, opening.marker])
        assert f"{problem.statement}\n    ".startswith(text)
        assert text.startswith(f"{problem.statement}\n")
    assert tokenizer.decode([opening.marker]) == "\n   "


def test_a_line_break_ends_a_program_where_the_tokenizer_tells_it_apart(
    tokenizer, other_tokenizer
):
    ends = Completion(tokenizer).end_tokens
    spelled = [tokenizer.decode([token]) for token in ends]
    assert spelled == ["\n", "\n\n", "<|im_end|>"]
    # Here a line break before an indented line is the same token: it ends nothing.
    ends = Completion(other_tokenizer).end_tokens
    spelled = [other_tokenizer.decode([token]) for token in ends]
    assert "\n" not in spelled and spelled[-2:] == ["<|im_end|>", "<|endoftext|>"]


def read(form, text, *, stage="code", problem=None, is_first=True):
    problem = problem or families.generate(["add"])[0]
    tokens = tuple(form._tokenizer.encode(text))
    return form.read(problem, stage, tokens, is_first=is_first)


@pytest.mark.parametrize(
    ("written", "body"),
    [
        (" return x + 2\n\n\ndef other():\n    pass", "    return x + 2\n"),
        (
            " y = 2\n\n    return x + y\nprint(add_2(1))",
            "    y = 2\n\n    return x + y\n",
        ),
        (" return x + 2\n# and so on", "    return x + 2\n"),
        (" if x:\n        return 1", "    if x:\n        return 1\n"),
    ],
)
def test_a_completion_ends_before_what_is_not_indented(tokenizer, written, body):
    program = read(Completion(tokenizer), written)
    assert program == f'def add_2(x):\n    """Return x plus 2."""\n{body}'


@pytest.mark.parametrize("written", ["", " ", "\n", "\n\ndef g(): pass"])
def test_nothing_written_is_no_program(tokenizer, written):
    assert read(Completion(tokenizer), written) == ""


def test_a_body_that_goes_on_keeps_what_the_statement_defines(tokenizer):
    form = Completion(tokenizer)
    program = read(form, " return double(x)", problem=HELPED, is_first=False)
    assert program == (
        "import math\n\n\ndef double(x):\n    return 2 * x\n\n\n"
        "\ndef f(x: int,\n      y=2) -> int:\n    return double(x)\n"
    )
    ast.parse(program)
    first = read(form, " return double(x)", problem=HELPED)
    assert first.startswith(HELPED.statement.rstrip() + "\n    return")


def test_feedback_is_a_comment_and_the_head_again(tokenizer):
    problem = families.generate(["add"])[0]
    told = "add_2(3)  raised X:\n two\tlines"
    opening = Completion(tokenizer).observation(problem, told, (), "debug")
    text = tokenizer.decode([*opening.tokens, opening.marker])
    assert text == "\n# add_2(3) raised X: two lines\ndef add_2(x):\n   "
    ast.parse(text + " pass")


def test_a_hypothesis_in_code_is_the_rest_of_a_line(tokenizer):
    form, problem = Completion(tokenizer), families.generate(["add"])[0]
    opening = form.prompt(problem, "hypothesis")
    text = tokenizer.decode([*opening.tokens, opening.marker])
    assert text == f"{problem.statement}\n    ...\n\n# add_2(3) returns"
    ast.parse(text)
    assert read(form, " 5\n\ndef f", stage="hypothesis") == "5"
    tokens = form.write(problem, "hypothesis", "[5, 'a']", is_first=True)
    assert form.read(problem, "hypothesis", tuple(tokens), is_first=True) == "[5, 'a']"


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("Write a function f.", "invalid syntax, line 1"),
        ("def g(x):", ""),
        ("x = 1", ""),
        ("def f(x): return x", "unexpected indent, line 2"),
        ("def f(x):\n    return 1\n\nclass A:", ""),
    ],
)
def test_a_statement_that_cannot_be_gone_on_with_is_refused(
    tokenizer, statement, reason
):
    problem = Problem(id="p 1", statement=statement, entry="f", visible=())
    words = rf"problems\['p 1'\].statement=.*code up to the body of f.*{reason}"
    with pytest.raises(ValueError, match=words):
        Completion(tokenizer).prompt(problem, "code")


def test_a_program_that_does_not_go_on_with_its_statement_is_refused(tokenizer):
    problem = families.generate(["add"])[0]
    with pytest.raises(
        ValueError, match=r"problems\['add 0'\].reference=.*goes on where"
    ):
        Completion(tokenizer).write(
            problem, "code", "def add_2(x): return x + 2", is_first=True
        )


# Conversations


def test_a_conversation_asks_and_reads_a_block(tokenizer, chat):
    form, problem = Conversation(tokenizer, chat), families.generate(["add"])[0]
    opening = form.prompt(problem, "code")
    assert tokenizer.decode([*opening.tokens, opening.marker]) == (
        '<|im_start|>user\ndef add_2(x):\n    """Return x plus 2."""\n\n'
        "Write the Python function add_2. Answer with its code in a ```python block."
        "<|im_end|>\n<|im_start|>assistant\n"
    )
    assert form.end_tokens == chat.end_tokens


CODE = "def f(x):\n    return x"


@pytest.mark.parametrize(
    ("reply", "program"),
    [
        (f"```python\n{CODE}\n```", f"{CODE}\n"),
        (f"Sure.\n\n```\n{CODE}\n```\nThat is it.\n```\nno\n```", f"{CODE}\n"),
        (f"```python\n{CODE}", f"{CODE}\n"),
        (CODE, f"{CODE}\n"),
        ("", ""),
        (" \n", ""),
        ("```python\n```", ""),
    ],
)
def test_the_first_block_of_a_reply_is_the_program(tokenizer, chat, reply, program):
    assert read(Conversation(tokenizer, chat), reply) == program


def test_a_reply_keeps_what_the_statement_defines(tokenizer, chat):
    form = Conversation(tokenizer, chat)
    program = read(form, f"```\n{CODE}\n```", problem=HELPED)
    assert program.startswith("import math\n\n\ndef double(x):") and CODE in program
    words = Problem(id="w", statement="Write f.", entry="f", visible=())
    assert read(form, CODE, problem=words) == f"{CODE}\n"


def test_a_turn_that_its_member_closed_is_not_closed_again(tokenizer, chat):
    form, problem = Conversation(tokenizer, chat), families.generate(["add"])[0]
    closed = form.observation(problem, "no", (5, chat.turn_end), "debug").tokens
    open_ = form.observation(problem, "no", (5, 6), "debug").tokens
    assert open_ == [chat.turn_end, *closed]
    text = tokenizer.decode(closed)
    assert text.startswith("\n<|im_start|>user\nno\nCorrect add_2, or answer nothing")


def test_a_predicted_value_may_stand_in_backticks(tokenizer, chat):
    form = Conversation(tokenizer, chat)
    assert read(form, " `[1, 2]`\nbecause", stage="hypothesis") == "[1, 2]"


@pytest.mark.slow
def test_smollm2_opens_and_ends_as_was_measured(all_problems):
    import published_models

    tokenizer = load_tokenizer(published_models.smollm2())

    def of(**fields):
        return PythonTasks(
            all_problems,
            PythonTasksConfig(**fields),
            tokenizer=tokenizer,
            sandbox=sandbox_of(KnownPrograms(())),
        )

    tasks = of(stages=("hypothesis", "code", "debug"), prompt_width=112)
    assert tasks.spec.end_tokens == (198, 1116, 2) and tasks.spec.pad_token == 0
    assert [stage.marker for stage in tasks.spec.layout.stages] == [6765, 472, 472]
    # every statement and every program fits the default widths
    ScriptedAgent(of(), quick_share=0.5, slow_share=0.5)
