"""Waiting, deadlines, a full queue, a request to stop, on scripted arrivals."""

import jax
import numpy as np
import toy_host
from toy_host import ToyHost, initial_state

from agentic_grpo.envs.host import StageArrival, VerdictArrival
from agentic_grpo.records import EndReason
from agentic_grpo.training import tick_metrics
from agentic_grpo.training.real_clock.report import MEANINGS
from agentic_grpo.training.real_clock.settings import RealClockSettings


def played(run, ticks):
    state, metrics, _ = run.dispatch(
        initial_state(toy_host.program(ToyHost())), num_ticks=ticks
    )
    return state, jax.device_get(metrics)


def test_it_waits_only_when_nothing_can_be_done(run_on):
    def slow(work, kind):
        return 5.0 if kind is StageArrival else 7.0

    toy = ToyHost(slow)
    state, metrics = played(run_on(toy), 8)
    # two slots of four lanes: ticks 0 and 1 write at 0 s, tick 2 waits until 5 s for
    # all of them; two lanes of each block write again in tick 2, two in tick 3
    waited = metrics["clock/device_waited"].total
    np.testing.assert_array_equal(waited[:5], [0, 0, 1, 0, 1])
    assert metrics["clock/in_flight"][0] == 2 * 2 * toy_host.MEMBERS
    stepped = np.diff(np.append(0, np.cumsum(metrics["events/stage_rewards_served"])))
    assert (metrics["clock/in_flight"][stepped > 0] > 0).all() and stepped.sum() > 0
    assert int(state.tick) == 8


def test_every_number_has_a_meaning(run_on):
    _, metrics = played(run_on(ToyHost()), 6)
    ours = {name for name in metrics if name.startswith("clock/")}
    assert ours == set(MEANINGS)
    summary = tick_metrics.summarise(metrics)
    assert summary["clock/late"] == summary["clock/faults"] == 0
    assert summary["clock/lag_seconds_of_stages"] >= 1.0


def test_who_never_comes_is_lost_at_the_deadline_and_the_group_goes_on(run_on):
    def without_member_1(work, kind):
        return None if work.ticket.member == 1 else 1.0

    toy = ToyHost(without_member_1)
    settings = RealClockSettings(stage_seconds=4.0, verdict_seconds=9.0)
    state, metrics = played(run_on(toy, settings=settings), 12)
    reasons = np.asarray(state.table.end_reason)
    over = (reasons != EndReason.RUNNING).any(axis=-1)
    assert over.any() and (reasons[over][:, 1] == EndReason.FAULT).all()
    assert not (reasons[..., [0, 2, 3]] == EndReason.FAULT).any()
    assert metrics["clock/absent"].sum() > 0
    assert int(state.learner.step) > 0  # the others were paid


def test_a_verdict_after_its_deadline_is_dropped(run_on):
    def late_verdicts(work, kind):
        return 1.0 if kind is StageArrival else 12.0

    settings = RealClockSettings(stage_seconds=5.0, verdict_seconds=6.0)
    toy = ToyHost(late_verdicts)
    run = run_on(toy, settings=settings)
    state, metrics = played(run, 6)
    for _ in range(6):
        toy.now += 3.0
        state, more, _ = run.dispatch(state, num_ticks=1)
        metrics = {
            name: np.append(metrics[name], more[name])
            for name in ("clock/late", "clock/absent", "events/verdicts_served")
        }
    assert metrics["clock/absent"].sum() > 0 and metrics["clock/late"].sum() > 0
    assert metrics["events/verdicts_served"].sum() > 0  # what was spent is taken back
    # who submitted early may have been judged before the group was over
    to_the_end = np.asarray(state.table.end_reason) == EndReason.OUT_OF_STAGES
    assert not np.asarray(state.table.verdict_mask)[to_the_end].any()


def test_a_queue_that_is_full_is_not_made_fuller(run_on):
    most = 2 * 2 * toy_host.MEMBERS
    toy = ToyHost(lambda work, kind: 3.0 if kind is StageArrival else 30.0)
    _, metrics = played(run_on(toy, settings=RealClockSettings(queue=most)), 10)
    assert metrics["clock/in_flight"].max() <= most
    held_back = metrics["clock/held_back"].total
    assert 0 < held_back.sum() < 10


def test_a_request_to_stop_ends_a_wait(run_on):
    toy = ToyHost(lambda work, kind: None)
    settings = RealClockSettings(stage_seconds=1e6)
    run = run_on(toy, settings=settings, stop=lambda: toy.now > 30.0)
    state, _ = played(run, 4)
    assert int(state.tick) == 4 and 30.0 < toy.now < 35.0


def test_a_host_that_raises_or_talks_nonsense_costs_members_and_no_run(run_on):
    class Broken(ToyHost):
        def poll(self, timeout):
            if 2.0 < self.now < 3.0:
                self.now += timeout
                raise RuntimeError("it died")
            return super().poll(timeout)

        def submit(self, works):
            if len(self.submitted) > 40 and self.now < 8.0:
                raise RuntimeError("the queue is full")
            super().submit(works)

    def nonsense(work, kind):
        if work.ticket.member == 2 and kind is StageArrival:
            observation = (1,) * 99
            return StageArrival(
                ticket=work.ticket,
                end_reason=EndReason.RUNNING,
                observation=observation,
            )
        return 1.0

    toy = Broken(nonsense)
    state, metrics = played(run_on(toy), 12)
    assert metrics["clock/faults"].sum() > 0 and metrics["clock/resubmitted"].sum() > 0
    lost = np.asarray(state.table.end_reason) == EndReason.FAULT
    assert lost[..., 2].any() and int(state.learner.step) > 0


def test_a_verdict_that_is_our_fault_takes_its_member_from_the_group(run_on):
    def judge_of_member_0_dies(work, kind):
        if kind is VerdictArrival and work.ticket.member == 0:
            return VerdictArrival(ticket=work.ticket, is_fault=True)
        return 1.0

    toy = ToyHost(judge_of_member_0_dies)
    state, metrics = played(run_on(toy), 12)
    judged = np.asarray(state.table.verdict_mask)
    lost = np.asarray(state.table.end_reason) == EndReason.FAULT
    assert judged[..., 1:].any() and not judged[..., 0].any()
    assert lost[..., 0].any() and not lost[..., 1:].any()
    assert metrics["clock/resubmitted"].sum() >= 2 * lost.sum()
