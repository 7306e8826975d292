"""Scores, and what a failing call is told as."""

import pytest
from known_programs import KnownPrograms, sandbox_of

from agentic_grpo.envs.python_tasks import families, judging
from agentic_grpo.envs.python_tasks.config import PythonTasksConfig
from agentic_grpo.envs.python_tasks.judging import Judge, Suite
from agentic_grpo.envs.python_tasks.problem import Call, Problem
from agentic_grpo.sandbox.jobs import Answer, Check, Ending, Outcome, Result

DOUBLE = Problem(
    id="double",
    statement="def double(x):",
    entry="double",
    visible=tuple(Call(args=(x,), want=2 * x) for x in (1, 2, 3, 4)),
    hidden=(Call(args=(9,), want=18), Call(args=([1],), want=[1, 1])),
    reference="def double(x):\n    return 2 * x\n",
)


def judge(**fields):
    return Judge(PythonTasksConfig(**fields), sandbox_of(None))


def value(x):
    return Outcome(answer=Answer.VALUE, value=x)


def report_of(
    *outcomes, ending=Ending.ANSWERED, text="", suite=Suite.VISIBLE, **fields
):
    judging = judge(**fields)
    question = judging.question(suite, 0, DOUBLE, "def double(x): ...")
    result = Result(ending=ending, text=text, outcomes=outcomes, seconds_queued=1.5)
    return judging.report(question, result)


MISSING = Outcome(answer=Answer.MISSING)


@pytest.mark.parametrize(
    ("outcomes", "ending", "text", "score", "told"),
    [
        ([2, 4, 6, 8], "answered", "", 1.0, "all calls are right"),
        ([2, 4, 6.0, True], "answered", "", 0.5, "double(3) returned 6.0"),
        ([2, "4", 6, 8], "answered", "", 0.75, "double(2) returned '4'"),
        (
            [Outcome(answer=Answer.RAISED, text="KeyError: 1\n(line 2)"), 4, 6, 8],
            *("raised", "", 0.75, "double(1) raised KeyError: 1 (line 2)"),
        ),
        (
            [2, MISSING, MISSING, MISSING],
            "too slow",
            "",
            0.25,
            "double(2) took too long",
        ),
        (
            [MISSING] * 4,
            *("raised", "SyntaxError: oh", 0.0),
            "double(1) was not answered: SyntaxError: oh",
        ),
        (
            [Outcome(answer=Answer.NOT_PLAIN, text="generator"), 4, 6, 8],
            *("answered", "", 0.75, "double(1) returned what is not plain: generator"),
        ),
    ],
)
def test_the_score_is_the_share_that_is_right(outcomes, ending, text, score, told):
    outcomes = [x if isinstance(x, Outcome) else value(x) for x in outcomes]
    report = report_of(*outcomes, ending=Ending(ending), text=text)
    assert (report.score, report.told, report.is_fault) == (score, told, False)
    assert report.is_right == (score == 1.0) and report.seconds_queued == 1.5


def test_a_program_that_dies_after_its_last_answer_is_not_right():
    report = report_of(
        *map(value, (2, 4, 6, 8)), ending=Ending.DIED, text="killed by signal 11"
    )
    assert report.score == 1.0 and not report.is_right
    assert report.told == "killed by signal 11"


def test_what_was_wanted_is_told_only_if_asked():
    outcomes = [value(7)] * 4
    assert report_of(*outcomes).told == "double(1) returned 7"
    assert report_of(*outcomes, tells_wanted=True).told == "double(1) returned 7, not 2"


def test_long_and_unspeakable_values_are_told_in_short():
    told = report_of(value(list(range(10**5))), *[value(0)] * 3).told
    assert told.startswith("double(1) returned [0, 1, 2") and len(told) < 100
    told = report_of(value(10**5000), *[value(0)] * 3).told
    assert told == "double(1) returned a very large number"


def test_our_fault_says_nothing_about_a_program():
    report = report_of(*[MISSING] * 4, ending=Ending.OUR_FAULT, text="worker died")
    assert report.is_fault and report.told == "worker died"


def test_visible_and_hidden_calls_are_jobs_of_their_own():
    judging = judge(
        hidden_cpu_seconds=2.5, visible_cpu_seconds=0.5, memory_bytes=1 << 26
    )
    visible = judging.question(Suite.VISIBLE, 0, DOUBLE, "p").job
    hidden = judging.question(Suite.HIDDEN, 0, DOUBLE, "p").job
    assert visible.arguments == [(1,), (2,), (3,), (4,)]
    assert hidden.arguments == [(9,), ([1],)]
    assert (visible.limits.cpu_seconds, hidden.limits.cpu_seconds) == (0.5, 2.5)
    assert visible.limits.memory_bytes == hidden.limits.memory_bytes == 1 << 26
    for job in (visible, hidden):
        assert "18" not in repr(job)  # what is wanted does not enter


def test_a_checker_judges_in_the_place_of_hidden_calls():
    checked = Problem(
        id="c", statement="", entry="double", visible=(), checker="def check(f): ..."
    )
    judging = judge()
    question = judging.question(Suite.HIDDEN, 0, checked, "p")
    assert isinstance(question.job, Check)
    for content, score in ((True, 1.0), (False, 0.0)):
        result = Result(ending=Ending.ANSWERED, outcomes=(value(content),))
        report = judging.report(question, result)
        assert (report.score, report.is_right) == (score, score == 1.0)


def test_a_prediction_is_an_expression():
    judging = judge()
    question = judging.question(Suite.PREDICTION, 0, DOUBLE, "1 + 1  # two")
    namespace = {}
    exec(question.job.program, namespace)
    assert namespace[question.job.entry]() == 2
    result = Result(ending=Ending.ANSWERED, outcomes=(value(2),))
    assert judging.report(question, result).score == 1.0


# References


def test_right_references_pass_and_wrong_ones_are_listed():
    problems = families.generate(["add", "fibonacci"])
    sandbox = sandbox_of(KnownPrograms(problems))
    judging.check_references(problems, PythonTasksConfig(), sandbox)
    silent = Problem(id="silent", statement="", entry="f", visible=())
    judging.check_references([silent], PythonTasksConfig(), sandbox)
    slow, other = (
        Problem(**{**vars(one), "reference": reference})
        for one, reference in (
            (problems[-1], problems[-1].slow),
            (problems[0], f"{problems[0].statement}\n    return None\n"),
        )
    )
    with pytest.raises(ValueError) as caught:
        judging.check_references(
            [slow, problems[2], other], PythonTasksConfig(), sandbox
        )
    message = str(caught.value)
    assert message.startswith("problems=['fibonacci 5', 'add 0'] must be")
    assert "fibonacci 5: hidden: sequence_4_2(42) took too long" in message
    assert (
        "add 0: visible: add_2(3) returned None" in message and "add 2" not in message
    )


def test_a_sandbox_that_fails_is_not_the_references_fault():
    class Dead:
        def run(self, batch):
            ending = Ending.OUR_FAULT
            return [
                Result(ending=ending, text="no worker", outcomes=(MISSING,) * 4)
                for _ in batch
            ]

    with pytest.raises(RuntimeError, match="the sandbox failed: no worker"):
        judging.check_references(
            [Problem(**{**vars(DOUBLE), "hidden": DOUBLE.visible})],
            PythonTasksConfig(),
            sandbox_of(Dead()),
        )
