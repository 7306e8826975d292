"""Every question is run once; what a pool does wrong is our fault, and no exception."""

import time

import pytest
from known_programs import sandbox_of

from agentic_grpo.envs.python_tasks import families
from agentic_grpo.envs.python_tasks.asking import Answers
from agentic_grpo.envs.python_tasks.config import PythonTasksConfig
from agentic_grpo.envs.python_tasks.judging import Judge, Suite
from agentic_grpo.sandbox import jobs

PROBLEMS = families.generate(["add"])


class Pool:
    """Answers when told to."""

    def __init__(self):
        self.submitted, self.ready, self.waits = [], [], []

    def submit(self, ticket, job):
        self.submitted.append((ticket, job))

    def finish(self, ending=jobs.Ending.ANSWERED):
        for ticket, job in self.submitted:
            outcome = jobs.Outcome(answer=jobs.Answer.VALUE, value=5)
            outcomes = (outcome,) * job.num_outcomes
            result = jobs.Result(ending=ending, outcomes=outcomes, seconds_run=2.0)
            self.ready.append((ticket, result))
        self.submitted = []

    def poll(self, timeout):
        self.waits.append(timeout)
        taken, self.ready = self.ready, []
        return taken


class WaitingPool(Pool):
    def poll(self, timeout):
        time.sleep(timeout)
        return super().poll(timeout)


@pytest.fixture
def pool():
    return Pool()


@pytest.fixture
def judge(pool):
    return Judge(PythonTasksConfig(), sandbox_of(pool))


def question(judge, number=0, program="def add_2(x): return 5"):
    return judge.question(Suite.VISIBLE, number, PROBLEMS[number], program)


def test_what_was_asked_is_remembered(pool, judge):
    answers = Answers(judge, pool, capacity=8)
    answers.ask(question(judge), "first")
    answers.ask(question(judge), "second")  # on its way already
    assert len(pool.submitted) == 1
    pool.finish()
    (first, report), (second, same) = answers.poll(1.0)
    assert (first, second) == ("first", "second") and report == same
    assert report.right == (True, False, False, False) and report.seconds_run == 2.0
    answers.ask(question(judge), "third")
    ((third, again),) = answers.poll(0.0)
    assert third == "third" and again.right == report.right
    assert again.seconds_run == 0.0  # nothing was run
    assert not pool.submitted
    assert (answers.num_asked, answers.num_known) == (3, 2)


def test_another_problem_or_text_is_another_question(pool, judge):
    answers = Answers(judge, pool, capacity=8)
    answers.ask(question(judge), 0)
    answers.ask(question(judge, number=1), 1)
    answers.ask(question(judge, program="def add_2(x): return 6"), 2)
    answers.ask(
        judge.question(Suite.HIDDEN, 0, PROBLEMS[0], question(judge).job.program), 3
    )
    assert len(pool.submitted) == 4 and answers.num_known == 0


def test_the_oldest_answer_is_forgotten(pool, judge):
    answers = Answers(judge, pool, capacity=2)
    for number in (0, 1, 0, 2):  # 0 was needed since 1 was
        answers.ask(question(judge, number), number)
        pool.finish()
        answers.poll(1.0)
    known = [answers.known(question(judge, n).key) is not None for n in (0, 1, 2)]
    assert known == [True, False, True]


def test_our_fault_is_not_remembered(pool, judge):
    answers = Answers(judge, pool, capacity=8)
    for _ in range(2):
        answers.ask(question(judge), "it")
        assert len(pool.submitted) == 1
        pool.finish(jobs.Ending.OUR_FAULT)
        ((_, report),) = answers.poll(1.0)
        assert report.is_fault


@pytest.mark.parametrize("name", ["submit", "poll"])
def test_a_pool_that_raises_is_our_fault(pool, judge, monkeypatch, name):
    answers = Answers(judge, pool, capacity=8)

    def raises(*arguments):
        raise RuntimeError("sandbox died")

    monkeypatch.setattr(pool, name, raises)
    for number in range(2):
        answers.ask(question(judge, number), number)
    arrived = answers.poll(1.0)
    assert [waiter for waiter, _ in arrived] == [0, 1]
    assert all(report.is_fault for _, report in arrived)
    assert arrived[0][1].told == "RuntimeError: sandbox died"
    assert answers.poll(1.0) == []


def test_a_result_that_makes_no_sense_is_our_fault(pool, judge):
    answers = Answers(judge, pool, capacity=8)
    answers.ask(question(judge), "it")
    ((ticket, _),) = pool.submitted
    pool.ready = [("nobody's", None), (ticket, jobs.Result(ending=jobs.Ending.RAISED))]
    ((_, report),) = answers.poll(1.0)
    assert report.is_fault and "expected has 4 values for 0 calls" in report.told


def test_a_pool_that_lost_a_job_does_not_keep_us_waiting(pool, judge):
    answers = Answers(judge, pool, capacity=8)
    answers.ask(question(judge), "it")
    ((_, report),) = answers.poll(3600.0)
    assert report.is_fault and "knows nothing" in report.told


def test_polling_waits_no_longer_than_told():
    pool = WaitingPool()
    judge = Judge(PythonTasksConfig(), sandbox_of(pool))
    answers = Answers(judge, pool, capacity=8)
    assert answers.poll(3600.0) == []  # nothing is to come
    answers.ask(question(judge), "it")
    assert answers.poll(0.0) == [] and answers.poll(0.01) == []
    pool.finish()
    assert len(answers.poll(0.0)) == 1
