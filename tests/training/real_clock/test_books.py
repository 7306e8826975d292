"""Early, late, after the deadline, never, and a worker that dies: by hand."""

from agentic_grpo.envs.host import StageArrival, VerdictArrival, Work
from agentic_grpo.records import EndReason
from agentic_grpo.training.real_clock.books import Books, Group, Ticket
from agentic_grpo.training.real_clock.settings import RealClockSettings

SETTINGS = RealClockSettings(stage_seconds=10.0, verdict_seconds=30.0, retries=1)


def group(tick=0, *, lane=0, row=0, is_last=True, members=2, stages=1):
    works = {
        member: Work(ticket=Ticket(tick, 0, lane, member), problem=0, actions=((1,),))
        for member in range(members)
    }
    if stages == 2:
        works = {
            member: Work(ticket=work.ticket, problem=0, actions=((1,), (2,)))
            for member, work in works.items()
        }
    return Group(block=0, lane=lane, row=row, is_last=is_last, works=works)


def stage(member, end_reason=EndReason.OUT_OF_STAGES, *, tick=0, attempt=0):
    ticket = Ticket(tick, 0, 0, member, attempt)
    return StageArrival(ticket=ticket, end_reason=end_reason, reward=0.5)


def verdict(member, *, tick=0, attempt=0, is_fault=False):
    ticket = Ticket(tick, 0, 0, member, attempt)
    return VerdictArrival(ticket=ticket, verdict=1.0, is_fault=is_fault)


def opened(*groups, now=0.0):
    books = Books(SETTINGS)
    books.open(groups or [group()], now=now)
    return books


def test_a_group_is_due_when_its_last_member_has_come():
    books = opened()
    books.enter([stage(0)], now=1.0)
    assert books.due(now=1.0) == ([], [])
    books.enter([verdict(1), stage(1)], now=2.0)  # a verdict may come first
    assert books.due(now=2.0) == ([(0, 0)], [])
    closed = books.close_stage((0, 0), now=2.0)
    assert {m: task.stage.reward for m, task in closed.tasks.items()} == {
        0: 0.5,
        1: 0.5,
    }
    assert books.due(now=2.0) == ([], []) and books.in_flight == 1
    books.enter([verdict(0)], now=3.0)
    assert books.due(now=3.0) == ([], [(0, 0)])
    tasks = books.close_verdicts((0, 0))
    assert [task.verdict.verdict for task in tasks.values()] == [1.0, 1.0]
    assert books.in_flight == 0 and books.next_deadline() is None
    assert vars(books.tally) == dict(late=0, absent=0, faults=0, resubmitted=0)


def test_at_the_deadline_of_a_stage_the_absent_are_lost_and_come_too_late():
    books = opened()
    books.enter([stage(0)], now=9.0)
    assert books.next_deadline() == 10.0
    assert books.due(now=9.99) == ([], []) and books.due(now=10.0) == ([(0, 0)], [])
    closed = books.close_stage((0, 0), now=10.0)
    assert closed.tasks[0].stage.end_reason == EndReason.OUT_OF_STAGES
    assert closed.tasks[1].stage.end_reason == EndReason.FAULT
    assert books.enter([stage(1), verdict(1)], now=11.0) == ([], [])
    assert (books.tally.absent, books.tally.late) == (1, 2)
    # the verdict of member 0 never comes: 30 s from the end of the group
    assert books.next_deadline() == 40.0
    assert books.due(now=40.0) == ([], [(0, 0)])
    assert books.close_verdicts((0, 0))[0].verdict is None
    assert books.tally.absent == 2 and books.in_flight == 0


def test_a_verdict_waits_for_the_stages_of_the_others():
    books = opened(group(is_last=False))
    submitted = stage(0, EndReason.SUBMITTED)
    books.enter([submitted, verdict(0), stage(1, EndReason.RUNNING)], now=1.0)
    books.close_stage((0, 0), now=1.0)
    assert books.due(now=100.0) == ([], []) and books.next_deadline() is None
    second = group(5, stages=2)
    del second.works[0]
    books.open([second], now=2.0)
    books.enter([stage(1, tick=5), verdict(1, tick=5)], now=3.0)
    books.close_stage((0, 0), now=3.0)
    assert books.due(now=3.0) == ([], [(0, 0)])
    assert sorted(books.close_verdicts((0, 0))) == [0, 1]


def test_a_group_without_anyone_to_judge_is_over_at_once():
    books = opened()
    books.enter([stage(m, EndReason.FAULT, attempt=0) for m in (0, 1)], now=1.0)
    books.enter([stage(m, EndReason.FAULT, attempt=1) for m in (0, 1)], now=2.0)
    books.close_stage((0, 0), now=2.0)
    assert books.due(now=2.0) == ([], [(0, 0)])
    assert books.close_verdicts((0, 0)) == {}


def test_work_of_a_worker_that_died_is_handed_in_again_and_at_last_left_out():
    books = opened()
    dead = [stage(0, EndReason.FAULT), verdict(0, is_fault=True)]  # both of one death
    entered, again = books.enter(dead, now=1.0)
    assert entered == []
    assert [work.ticket for work in again] == [Ticket(0, 0, 0, 0, attempt=1)]
    entered, again = books.enter([stage(0, attempt=1)], now=2.0)
    assert [one.ticket for one in entered] == [Ticket(0, 0, 0, 0)] and not again
    entered, again = books.enter([verdict(0, attempt=1, is_fault=True)], now=3.0)
    assert entered[0].is_fault and not again  # it was tried twice: retries=1
    assert (books.tally.faults, books.tally.resubmitted) == (2, 1)
    books.enter([stage(1), verdict(1)], now=4.0)
    books.close_stage((0, 0), now=4.0)
    tasks = books.close_verdicts((0, 0))
    assert tasks[0].verdict.is_fault and not tasks[1].verdict.is_fault


def test_the_answer_to_an_earlier_attempt_counts_and_the_second_does_not():
    books = opened()
    books.enter([verdict(0, is_fault=True)], now=1.0)
    assert len(books.enter([stage(0)], now=2.0)[0]) == 1
    assert books.enter([stage(0, attempt=1)], now=3.0) == ([], [])
    assert books.tally.late == 0


def test_a_row_that_another_group_has_hears_no_verdict_of_the_one_before():
    books = opened()
    books.enter([stage(0), stage(1)], now=1.0)
    books.close_stage((0, 0), now=1.0)
    books.open([group(7, lane=3)], now=2.0)
    assert books.due(now=1000.0) == ([(0, 3)], [])
    assert books.enter([verdict(0)], now=3.0) == ([], [])
    assert books.tally.late == 1 and books.in_flight == 2


def test_deadlines_start_anew_when_a_run_goes_on():
    books = opened(now=0.0)
    works = books.unanswered(now=500.0)
    assert [work.ticket.member for work in works] == [0, 1]
    assert books.next_deadline() == 510.0
