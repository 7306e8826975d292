"""Several who ask one host: each hears what is his, whoever polled when it came."""

from toy_host import ToyHost

from agentic_grpo.envs import desk
from agentic_grpo.envs.host import StageArrival, Work

WORK = Work(ticket="one", problem=0, actions=((1,),))


def test_what_comes_for_another_is_kept_for_him():
    toy = ToyHost(lambda work, kind: 1.0)
    front = desk.Desk(toy)
    training, evaluation = front.counter(), front.counter()
    training.submit([WORK])
    evaluation.submit([WORK])  # the same ticket, and not the same work
    assert [arrival.ticket for arrival in evaluation.poll(5.0)] == ["one"]
    assert toy.now == 1.0
    assert [arrival.ticket for arrival in training.poll(0.0)] == ["one"]
    assert training.poll(0.0) == evaluation.poll(0.0) == []


def test_he_who_waits_is_not_sent_away_with_what_is_another_ones():
    def one_second_or_four(work, kind):
        return 4.0 if work.ticket.counter == 1 else 1.0

    toy = ToyHost(one_second_or_four)
    front = desk.Desk(toy)
    first, second = front.counter(), front.counter()
    first.submit([WORK])
    second.submit([WORK])
    assert len(second.poll(60.0)) == 1 and toy.now == 4.0
    assert len(first.poll(60.0)) == 1 and toy.now == 4.0


def test_what_nobody_asked_for_is_dropped():
    toy = ToyHost(lambda work, kind: StageArrival(ticket="no such", end_reason=1))
    counter = desk.Desk(toy).counter()
    counter.submit([WORK])
    assert counter.poll(3.0) == []
