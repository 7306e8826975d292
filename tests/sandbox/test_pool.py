"""Tickets in, results out, in a bounded queue; nothing is lost on the way."""

import threading
import time

import pytest
from sandbox_jobs import PATIENCE, adding, collect, ended, looping, wait_until

from agentic_grpo.sandbox import hostile
from agentic_grpo.sandbox.jobs import Ending
from agentic_grpo.sandbox.pool import Pool, QueueFull


def test_results_come_with_their_tickets(pool):
    tickets = [("row", 3), "text", 7, None]
    for number, ticket in enumerate(tickets):
        pool.submit(ticket, adding(number))
    found = dict(collect(pool, 4))
    assert {ticket: r.outcomes[0].value for ticket, r in found.items()} == {
        ("row", 3): 1,
        "text": 2,
        7: 3,
        None: 4,
    }
    assert pool.outstanding == 0


def test_poll_returns_when_its_time_is_over_and_when_nothing_is_to_come(own_pool):
    before = time.monotonic()
    assert own_pool.poll(1000.0) == []
    own_pool.submit("slow", looping(cpu_seconds=0.5))
    assert own_pool.poll(0.0) == []
    assert own_pool.outstanding == 1
    ((ticket, result),) = own_pool.poll(1000.0)
    assert ticket == "slow" and result.ending is Ending.TOO_SLOW
    assert time.monotonic() - before < PATIENCE


def test_work_goes_on_while_nobody_polls(own_pool):
    for number in range(5):
        own_pool.submit(number, adding(number))
    assert own_pool.run([adding(5)])[0].outcomes[0].value == 6  # behind them
    assert [ticket for ticket, _ in own_pool.poll(0.0)] == [0, 1, 2, 3, 4]


def test_run_keeps_its_order_and_leaves_tickets_to_poll(pool):
    pool.submit("mine", adding(100))
    slow = looping(cpu_seconds=0.2)
    results = pool.run([adding(0), slow, adding(2), adding(3)])
    assert [result.ending for result in results] == [
        Ending.ANSWERED,
        Ending.TOO_SLOW,
        Ending.ANSWERED,
        Ending.ANSWERED,
    ]
    assert [results[i].outcomes[0].value for i in (0, 2, 3)] == [1, 3, 4]
    ((ticket, result),) = collect(pool, 1)
    assert (ticket, result.outcomes[0].value) == ("mine", 101)
    assert pool.run([]) == []


def test_many_threads_may_ask_at_once(pool):
    found = {}

    def ask(base):
        results = pool.run([adding(base + i) for i in range(10)])
        found[base] = [result.outcomes[0].value for result in results]

    threads = [threading.Thread(target=ask, args=(100 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert found == {100 * i: list(range(100 * i + 1, 100 * i + 11)) for i in range(4)}


def test_the_queue_is_bounded():
    with Pool(1, capacity=2) as pool:
        pool.submit("a", adding(1))
        pool.submit("b", adding(2))
        with pytest.raises(QueueFull, match="2 jobs are submitted and not polled"):
            pool.submit("c", adding(3))
        assert pool.run([adding(0)] * 3)[2].outcomes[0].value == 1  # has no ticket
        assert [ticket for ticket, _ in collect(pool, 2)] == ["a", "b"]
        pool.submit("c", adding(3))
        assert collect(pool, 1)[0][0] == "c"


@pytest.mark.parametrize(("workers", "capacity"), [(0, 1), (-1, 1), (1, 0)])
def test_a_pool_of_nothing_is_refused(workers, capacity):
    with pytest.raises(ValueError, match="it must be at least 1"):
        Pool(workers, capacity=capacity)


def test_seconds_in_the_queue_are_counted_apart(own_pool):
    slow = looping(cpu_seconds=0.3)
    first, second = own_pool.run([slow, adding(1)])
    assert first.seconds_run >= 0.25 > first.seconds_queued
    assert second.seconds_queued >= 0.25


def test_closing_answers_for_what_was_not_done():
    pool = Pool(1)
    (worker,) = pool.worker_numbers
    for ticket in "abc":
        pool.submit(ticket, looping())
    wait_until(lambda: hostile.children(worker))
    (child,) = hostile.children(worker)
    pool.close()
    pool.close()
    found = dict(pool.poll(0.0))
    assert {ticket: r.ending for ticket, r in found.items()} == {
        ticket: Ending.OUR_FAULT for ticket in "abc"
    }
    assert "closed" in found["b"].text
    with pytest.raises(RuntimeError, match="the pool is closed"):
        pool.submit("d", adding(1))
    with pytest.raises(RuntimeError, match="the pool is closed"):
        pool.run([adding(1)])
    assert pool.poll(1000.0) == []
    assert pool.worker_numbers == []
    wait_until(lambda: ended(worker) and ended(child))
