"""The host environment: works in, stages and verdicts out."""

import numpy as np
import pytest
from known_programs import sandbox_of

from agentic_grpo.envs import host
from agentic_grpo.envs.python_tasks.config import PythonTasksConfig
from agentic_grpo.envs.python_tasks.environment import PythonTasks
from agentic_grpo.envs.python_tasks.problem import Call, Problem
from agentic_grpo.layout import StageKind
from agentic_grpo.records import EndReason

NOTHING = "    return None"


def number_of(tasks, id):
    return next(n for n, one in enumerate(tasks.list) if one.id == id)


def action(tasks, id, stage, text):
    """What a member writes, its end token included."""
    one = tasks.list[number_of(tasks, id)]
    is_first = tasks.config.stages[0] == stage
    tokens = tasks.form.write(one, stage, text, is_first=is_first) if text else []
    return (*tokens, tasks.spec.end_tokens[0])


def program(tasks, id, kind):
    one = tasks.list[number_of(tasks, id)]
    nothing = f"{one.statement}\n{NOTHING}\n"
    return {"right": one.reference, "slow": one.slow, "wrong": nothing}[kind]


def play(tasks, id, *actions, ticket="it"):
    """(stage arrival, verdict arrival or None) of the last action."""
    work = host.Work(ticket=ticket, problem=number_of(tasks, id), actions=actions)
    tasks.submit([work])
    return collect(tasks)


def collect(tasks):
    arrived = []
    while more := tasks.poll(0.0):
        arrived += more
    stages = [a for a in arrived if isinstance(a, host.StageArrival)]
    verdicts = [a for a in arrived if isinstance(a, host.VerdictArrival)]
    assert len(stages) == 1 and len(verdicts) <= 1
    return stages[0], (verdicts or [None])[0]


@pytest.mark.parametrize(
    ("id", "kind", "reward", "verdict"),
    [
        ("add 0", "right", 1.0, 1.0),
        ("add 0", "wrong", 0.0, 0.0),
        ("fibonacci 0", "right", 1.0, 1.0),
        ("fibonacci 0", "slow", 1.0, 0.5),  # the stage reward overrates it
    ],
)
def test_a_program_is_rewarded_at_once_and_judged_in_the_end(
    make, id, kind, reward, verdict
):
    tasks = make()
    written = action(tasks, id, "code", program(tasks, id, kind))
    stage, judged = play(tasks, id, written)
    assert (stage.reward, stage.end_reason) == (reward, EndReason.OUT_OF_STAGES)
    assert stage.observation == () and stage.ticket == judged.ticket == "it"
    assert (judged.verdict, judged.solved) == (verdict, verdict == 1.0)
    assert (judged.seconds_queued, judged.seconds_run) == (0.5, 0.25)


def test_the_same_program_is_run_once(make, pool):
    tasks = make()
    written = action(tasks, "add 0", "code", program(tasks, "add 0", "right"))
    with_blanks = (*written[:-1], *tasks._tokenizer.encode("  "), written[-1])
    first, _ = play(tasks, "add 0", written)
    again, _ = play(tasks, "add 0", with_blanks)
    assert len(pool.submitted) == 2  # its visible and its hidden calls
    assert again.seconds_run == 0.0 and again.reward == first.reward == 1.0
    assert again.state_id == first.state_id


def test_a_member_that_goes_on_is_told_what_failed(make, tokenizer):
    tasks = make(stages=("code", "debug"))
    wrong = action(tasks, "add 0", "code", program(tasks, "add 0", "wrong"))
    stage, judged = play(tasks, "add 0", wrong)
    assert stage.end_reason == EndReason.RUNNING and judged is None
    told = tokenizer.decode(stage.observation)
    assert told == "\n# add_2(3) returned None\ndef add_2(x):"
    assert len(stage.observation) <= tasks.spec.layout.stages[0].observation_width

    right = action(tasks, "add 0", "debug", program(tasks, "add 0", "right"))
    stage, judged = play(tasks, "add 0", wrong, right)
    assert (stage.reward, judged.verdict) == (1.0, 1.0)
    assert stage.end_reason == EndReason.OUT_OF_STAGES


def test_nothing_written_in_debug_submits_the_last_program(make):
    tasks = make(stages=("code", "debug", "debug"))
    right = action(tasks, "add 0", "code", program(tasks, "add 0", "right"))
    wrong = action(tasks, "add 0", "debug", program(tasks, "add 0", "wrong"))
    nothing = action(tasks, "add 0", "debug", "")
    stage, judged = play(tasks, "add 0", right, nothing)
    assert (stage.end_reason, stage.reward) == (EndReason.SUBMITTED, 1.0)
    assert judged.solved
    stage, judged = play(tasks, "add 0", right, wrong, nothing)
    assert (stage.end_reason, stage.reward) == (EndReason.SUBMITTED, 0.0)
    assert not judged.solved
    stage, judged = play(tasks, "add 0", nothing, nothing)  # no program at all
    assert (stage.end_reason, stage.reward) == (EndReason.SUBMITTED, 0.0)
    assert (judged.verdict, judged.is_fault) == (0.0, False)


def test_a_hypothesis_is_a_skill_and_learns_the_truth(make, tokenizer):
    tasks = make(stages=("hypothesis", "code"))
    assert [stage.kind for stage in tasks.spec.layout.stages] == [
        StageKind.SKILL,
        StageKind.ESTIMATE,
    ]
    for text, reward in (("5", 1.0), ("5.0", 0.0), ("4 + 1", 0.0), ("", 0.0)):
        written = action(tasks, "add 0", "hypothesis", text)
        stage, judged = play(tasks, "add 0", written)
        assert (stage.reward, judged) == (reward, None), text
        told = tokenizer.decode(stage.observation)
        assert told == "\n# it returns 5\ndef add_2(x):"
    code = action(tasks, "add 0", "code", program(tasks, "add 0", "right"))
    stage, judged = play(tasks, "add 0", written, code)
    assert (stage.reward, judged.verdict) == (1.0, 1.0)


def test_a_problem_without_visible_calls_has_no_stage_reward(make, problems):
    bare = Problem(**{**vars(problems[0]), "visible": ()})
    tasks = make(chosen=[bare], stages=("code", "debug"))
    right = action(tasks, bare.id, "code", bare.reference)
    stage, judged = play(tasks, bare.id, right)
    assert stage.reward is None and judged is None
    stage, judged = play(tasks, bare.id, right, action(tasks, bare.id, "debug", ""))
    assert stage.reward is None and judged.verdict == 1.0


def test_any_ids_are_defined(make):
    tasks = make(stages=("hypothesis", "code", "debug"))
    wild = (-1, 10**9, -(2**31), 2**31 - 1, 0, 1, 2, 5)
    for actions in ((wild,), (wild, wild), (wild, wild, wild), ((), ()), ((), (), ())):
        stage, judged = play(tasks, "add 0", *actions)
        assert stage.end_reason != EndReason.FAULT and stage.reward == 0.0
        assert (judged is None) == (stage.end_reason == EndReason.RUNNING)


def test_feedback_is_cut_to_its_width(make, tokenizer, pool):
    tasks = make(stages=("code", "debug"), feedback_width=4)
    wrong = action(
        tasks, "count_letter 1", "code", program(tasks, "count_letter 1", "wrong")
    )
    stage, _ = play(tasks, "count_letter 1", wrong)
    width = tasks.spec.layout.stages[0].observation_width
    assert len(stage.observation) <= width
    told = tokenizer.decode(stage.observation)
    assert told.startswith("\n# count") and told.endswith("\ndef count_letter_e(s):")
    assert "returned" not in told


def test_conversations_keep_their_widths(make, chat, tokenizer):
    tasks = make(
        stages=("code", "debug"),
        chat=chat,
        prompt_width=200,
        program_width=100,
        feedback_width=10,
    )
    wrong = action(tasks, "add 0", "code", program(tasks, "add 0", "wrong"))
    for written in (wrong, wrong[:-1]):  # the turn closed by the member, or by us
        stage, _ = play(tasks, "add 0", written)
        width = tasks.spec.layout.stages[0].observation_width
        assert 0 < len(stage.observation) <= width
        assert "Correct add_2" in tokenizer.decode(stage.observation)


# What fails


def test_a_sandbox_that_fails_is_a_fault_of_ours(make, pool):
    tasks = make()
    pool.broken = RuntimeError("sandbox died")
    written = action(tasks, "add 0", "code", program(tasks, "add 0", "right"))
    stage, judged = play(tasks, "add 0", written)
    assert stage.end_reason == EndReason.FAULT and judged.is_fault
    pool.broken = None
    stage, judged = play(tasks, "add 0", written)  # nothing of it is remembered
    assert (stage.reward, judged.verdict) == (1.0, 1.0)


def test_work_that_cannot_be_read_is_a_fault_of_ours(make):
    tasks = make()
    tasks.submit([host.Work(ticket="odd", problem=10**6, actions=((1,),))])
    stage, judged = collect(tasks)
    assert (stage.ticket, stage.end_reason) == ("odd", EndReason.FAULT)
    assert judged is None


# What the rest of the house sees


def test_the_specification(make, tokenizer):
    tasks = make(stages=("code", "debug", "debug"), prompt_width=60, program_width=50)
    spec = tasks.spec
    assert spec.levels == ("level 1", "level 2", "level 3") and spec.min_stages == 2
    assert spec.vocabulary_size == tokenizer.vocabulary_size
    assert spec.pad_token == 0  # <|endoftext|>; <|im_end|> ends
    assert [stage.name for stage in spec.layout.stages] == ["code", "debug", "debug_2"]
    assert [stage.action_width for stage in spec.layout.stages] == [50] * 3
    assert spec.layout.stages[-1].observation_width == 0
    assert make().spec.min_stages == 1 and make(rows=9999).spec.vocabulary_size == 9999


def test_prompts_are_the_statements(make, tokenizer):
    tasks = make()
    table = tasks.problems
    marker = tasks.spec.layout.stages[0].marker
    for number, one in enumerate(tasks.list):
        tokens = table.prompt_tokens[number][table.prompt_mask[number]]
        assert tokenizer.decode([*tokens, marker]) == f"{one.statement}\n   "
        assert table.level[number] == one.level - 1
    assert sorted(np.concatenate([*table.of_split.values()])) == [
        *range(len(tasks.list))
    ]
    for split, numbers in table.of_split.items():
        assert {tasks.list[n].split for n in numbers} <= {split}


def test_people_are_told_more_than_token_ids(make):
    tasks = make()
    written = action(tasks, "add 0", "code", program(tasks, "add 0", "wrong"))
    number = number_of(tasks, "add 0")
    play(tasks, "add 0", written)
    assert tasks.describe_problem(number)[:3] == [
        "problem add 0, level 1, train",
        "a right program:",
        "def add_2(x):",
    ]
    lines = tasks.describe_work(number, (written,))
    assert lines[0] == "visible:" and lines[-2] == NOTHING
    assert lines[-1] == "0 of 4 right; add_2(3) returned None"
    assert tasks.describe_work(number, ()) == ["nothing has been written"]
    pad = tasks.spec.pad_token
    assert tasks.spell([*written, pad, pad]) == tasks._tokenizer.decode(written)


# What is refused


def other(problem, **fields):
    return Problem(**{**vars(problem), **fields})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"prompt_width": 5},
            r"problems\['add 0'\].statement=.* prompt_width=5 tokens; it is \d\d",
        ),
        ({"chosen": ()}, r"problems=\(\) must be one problem at least"),
        ({"rows": 3}, "vocabulary_size=3 must be at least the"),
        ({"pad_token": 2}, "pad_token=2 must be a token that neither ends nor opens"),
        ({"pad_token": -1}, "pad_token=-1 must be a token"),
    ],
)
def test_what_has_no_place_is_refused(make, options, words):
    with pytest.raises(ValueError, match=words):
        make(**options)


def test_problems_that_contradict_each_other_are_refused(make, problems):
    one, two = problems[:2]
    with pytest.raises(
        ValueError, match=r"problems=\['add 0'\] must be of different ids"
    ):
        make(chosen=[one, two, other(two, id="add 0")])
    copy = other(one, id="copy", split="test")
    with pytest.raises(
        ValueError, match=r"problems\['copy'\].split='test' must be train, as of"
    ):
        make(chosen=[one, two, copy])
    make(chosen=[one, two, other(copy, split="train")])


def test_a_hypothesis_needs_a_visible_call(make, problems):
    bare = other(problems[0], visible=())
    with pytest.raises(
        ValueError, match=r"problems\['add 0'\].visible=\(\) must be one call"
    ):
        make(chosen=[bare], stages=("hypothesis", "code"))


def test_statements_that_open_differently_are_refused(problems, pool):
    class Letters:
        """A token per character, except that one opens its body with a tab."""

        vocabulary_size, begin_tokens, end_tokens = 0x110000, (), (0,)
        special_tokens = {"<pad>": 1}  # noqa: RUF012

        def encode(self, text):
            return [*map(ord, text.replace("def f(x):\n    ", "def f(x):\n   \t"))]

        def decode(self, tokens):
            return "".join(map(chr, tokens)).replace("\t", " ")

    odd = Problem(
        id="odd",
        statement="def f(x):",
        entry="f",
        visible=(),
        hidden=(Call(args=(), want=1),),
    )
    with pytest.raises(
        ValueError, match=r"problems \(code\)=\['add 0', 'odd'\] must be"
    ):
        PythonTasks(
            [problems[0], odd],
            PythonTasksConfig(prompt_width=200),
            tokenizer=Letters(),
            sandbox=sandbox_of(pool),
        )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"stages": ()}, r"stages=\(\) must be \('code',\), with"),
        ({"stages": ("debug", "code")}, "stages=.* must be"),
        ({"stages": ("code", "code")}, "stages=.* must be"),
        ({"stages": ("code", "hypothesis")}, "stages=.* must be"),
        ({"stages": ("hypothesis", "hypothesis", "code")}, "stages=.* must be"),
        ({"stages": ["code"]}, "stages=.* must be a tuple"),
        ({"stages": ("cod",)}, "stages='cod' must be one of .*did you mean 'code'"),
        ({"prompt_width": -1}, "prompt_width=-1 must be an integer, at least 0"),
        ({"program_width": 1}, "program_width=1 must be an integer, at least 2"),
        ({"answer_width": 2.0}, "answer_width=2.0 must be an integer"),
        ({"feedback_width": -1}, "feedback_width=-1 must be"),
        ({"cache_size": 0}, "cache_size=0 must be"),
        ({"visible_cpu_seconds": 0.0}, r"visible_cpu_seconds=0.0 must be in \[0.01"),
        ({"hidden_cpu_seconds": float("nan")}, "hidden_cpu_seconds=nan must be in"),
        ({"memory_bytes": 1}, "memory_bytes=1 must be in"),
    ],
)
def test_settings_that_make_no_sense_are_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        PythonTasksConfig(**fields)
