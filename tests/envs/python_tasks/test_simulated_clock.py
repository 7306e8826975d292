"""Python tasks under the protocol of all environments."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.envs import host, simulated_clock, testing
from agentic_grpo.envs.latency import Latency
from agentic_grpo.envs.python_tasks.scripted_agent import ScriptedAgent
from agentic_grpo.records import EndReason

WORKFLOW = ("hypothesis", "code", "debug")


def simulated(tasks, **options):
    stages = len(tasks.config.stages)
    latencies = (Latency(minimum=1, maximum=3, tail_probability=0.5),) * stages
    return simulated_clock.on_simulated_clock(
        tasks,
        stage_latencies=options.pop("stage_latencies", latencies),
        verdict_latency=Latency(minimum=4),
        **options,
    )


def test_python_tasks_keep_the_contract(make):
    tasks = make(stages=WORKFLOW)
    agent = ScriptedAgent(tasks, quick_share=0.4, slow_share=0.3)
    testing.check_environment(
        simulated(tasks), agent=agent, num_lanes=2, num_members=2, num_problems=26
    )


LANES, MEMBERS = 8, 2


def play(environment, agent, *, seed=0):
    """The start, and the answers of all stages, of scripted episodes."""
    keys = jax.random.split(jax.random.key(seed), LANES)
    draw = functools.partial(environment.start, split="train", num_members=MEMBERS)
    start = jax.jit(draw)(keys)
    write, step = jax.jit(lambda *a: agent(*a)), jax.jit(environment.step)
    state, results = start.state, []
    acting = np.ones((LANES, MEMBERS), bool)
    for stage in range(environment.spec.layout.num_stages):
        at = np.full(LANES, stage, np.int32)
        result = step(state, at, *write(state, at, keys), acting, keys)
        results.append((acting, jax.device_get(result)))
        acting = acting & (np.asarray(result.end_reason) == EndReason.RUNNING)
        state = result.state
        keys = jax.random.split(jax.random.key(1000 + seed + stage), LANES)
    return start, results


def test_a_quick_program_is_judged_as_it_was_rewarded_a_slow_one_is_not(make):
    tasks = make(stages=("code",))
    slow_ones = {n for n, one in enumerate(tasks.list) if one.slow is not None}
    environment = simulated(tasks)
    for shares, verdict_of_slow in (((1.0, 0.0), 1.0), ((0.0, 1.0), 0.5)):
        agent = ScriptedAgent(tasks, quick_share=shares[0], slow_share=shares[1])
        start, ((_, result),) = play(environment, agent)
        is_slow = np.isin(start.state.problem, list(slow_ones))
        assert is_slow.any() and not is_slow.all()
        assert (result.reward == 1.0).all() and result.reward_mask.all()
        expected = np.where(is_slow, verdict_of_slow, 1.0)[:, None]
        np.testing.assert_array_equal(result.verdict, np.repeat(expected, 2, axis=1))
        np.testing.assert_array_equal(result.solved, result.verdict == 1.0)


def test_a_member_submits_what_passes_and_repairs_what_does_not(make):
    tasks = make(stages=("code", "debug"))
    agent = ScriptedAgent(tasks, quick_share=0.5)
    _, ((_, code), (acting, debug)) = play(simulated(tasks), agent)
    passed = code.reward == 1.0
    assert acting.all() and passed.any() and not passed.all()
    ended = np.where(passed, EndReason.SUBMITTED, EndReason.OUT_OF_STAGES)
    np.testing.assert_array_equal(debug.end_reason, ended)
    assert (debug.verdict[passed] == 1.0).all()
    assert 0.2 < np.mean(debug.verdict[~passed]) < 0.8
    assert code.observation_mask.any(axis=-1).all()
    assert not debug.observation_mask.any()


def test_latencies_are_drawn_within_their_bounds(make):
    environment = simulated(make())
    agent = ScriptedAgent(make(), quick_share=1.0)
    _, ((_, result),) = play(environment, agent)
    assert set(np.unique(result.latency)) == {1, 2, 3}
    assert (result.verdict_latency == 4).all()
    assert environment.spec.layout.stages[0].max_latency == 3
    spec = environment.spec
    assert spec.min_verdict_latency == spec.max_verdict_latency == 4


def step_arguments(environment, tasks):
    agent = ScriptedAgent(tasks, quick_share=1.0)
    keys = jax.random.split(jax.random.key(3), LANES)
    draw = functools.partial(environment.start, split="train", num_members=MEMBERS)
    state = jax.jit(draw)(keys).state
    stage = jnp.zeros(LANES, jnp.int32)
    tokens, mask = jax.jit(lambda *a: agent(*a))(state, stage, keys)
    return state, stage, tokens, mask, jnp.ones((LANES, MEMBERS), bool), keys


def test_it_runs_under_scan_and_vmap(make):
    tasks = make()
    environment = simulated(tasks)
    arguments = step_arguments(environment, tasks)
    plain = jax.jit(environment.step)(*arguments)

    def steps(*arguments):
        def step(_, __):
            return None, environment.step(*arguments).verdict

        return jax.lax.scan(step, None, length=2)[1]

    scanned = jax.jit(steps)(*arguments)
    stacked = jax.tree.map(lambda x: jnp.stack([x, x]), arguments)
    mapped = jax.jit(jax.vmap(environment.step))(*stacked).verdict
    for twice in (scanned, mapped):
        np.testing.assert_array_equal(twice, np.stack([plain.verdict] * 2))


def test_members_that_do_not_act_cost_nothing(make, pool):
    tasks = make()
    environment = simulated(tasks)
    *arguments, acting, keys = step_arguments(environment, tasks)
    step = jax.jit(environment.step)
    result = step(*arguments, jnp.zeros_like(acting), keys)
    assert not pool.submitted
    assert (result.end_reason == EndReason.RUNNING).all()
    # and one that has ended does not act, whatever is said
    once = step(*arguments, acting, keys)
    asked = len(pool.submitted)
    again = step(once.state, *arguments[1:], acting, keys)
    assert len(pool.submitted) == asked and not again.reward_mask.any()


# What fails on the host


class Failing:
    """A host environment that does something wrong in the n-th call, and then not."""

    def __init__(self, tasks, submit=None, poll=None):
        self.spec, self.problems, self._tasks = tasks.spec, tasks.problems, tasks
        self._submit, self._poll = submit, poll

    def submit(self, works):
        (self._submit or self._tasks.submit)(works)

    def poll(self, timeout):
        arrived = self._tasks.poll(timeout)
        return arrived if self._poll is None else self._poll(arrived)


def raises(*arguments):
    raise RuntimeError("it died")


def without_verdicts(arrived):
    return [a for a in arrived if isinstance(a, host.StageArrival)]


def too_much_feedback(arrived):
    arrived = list(arrived)
    for index, one in enumerate(arrived):
        if isinstance(one, host.StageArrival) and one.ticket.ticket[1:] == (1, 1):
            arrived[index] = host.StageArrival(
                ticket=one.ticket, end_reason=EndReason.RUNNING, observation=(1,) * 99
            )
    return arrived


@pytest.mark.parametrize(
    "failure",
    [
        {"submit": raises},
        {"poll": raises},
        {"poll": lambda arrived: []},
        {"poll": without_verdicts},
    ],
)
def test_what_does_not_come_is_a_fault_and_no_exception(make, failure):
    tasks = make()
    failing = Failing(tasks, **failure)
    environment = simulated_clock.on_simulated_clock(
        failing,
        stage_latencies=[Latency(minimum=1)],
        verdict_latency=Latency(minimum=1),
    )
    arguments = step_arguments(environment, tasks)
    result = jax.jit(environment.step)(*arguments)
    assert (result.end_reason == EndReason.FAULT).all()
    assert not result.solved.any() and result.state.ended.all()
    failing._submit = failing._poll = None
    later = jax.jit(environment.step)(*arguments)  # the next tick is a new one
    assert (later.end_reason == EndReason.OUT_OF_STAGES).all() and later.solved.all()


def test_one_answer_that_makes_no_sense_costs_one_member(make):
    tasks = make()
    environment = simulated_clock.on_simulated_clock(
        Failing(tasks, poll=too_much_feedback),
        stage_latencies=[Latency(minimum=1)],
        verdict_latency=Latency(minimum=1),
    )
    result = jax.jit(environment.step)(*step_arguments(environment, tasks))
    expected = np.full((LANES, MEMBERS), EndReason.OUT_OF_STAGES)
    expected[1, 1] = EndReason.FAULT
    np.testing.assert_array_equal(result.end_reason, expected)


def test_a_pool_that_fails_leaves_the_group(make, pool):
    tasks = make()
    environment = simulated(tasks)
    arguments = step_arguments(environment, tasks)
    pool.broken = RuntimeError("no worker")
    result = jax.jit(environment.step)(*arguments)
    assert (result.end_reason == EndReason.FAULT).all()


class Sleepy:
    """Arrivals of two calls, the first of which came too late."""

    def __init__(self, late):
        self.late = late

    def submit(self, works):
        self.works = works

    def poll(self, timeout):
        tickets = [*self.late, *(work.ticket for work in self.works)]
        return [
            host.StageArrival(ticket=ticket, end_reason=EndReason.RUNNING, reward=0.5)
            for ticket in tickets
        ]


def test_an_answer_to_an_earlier_call_is_dropped():
    work = host.Work(ticket=(2, 0, 0), problem=0, actions=((1,),))
    arrived = host.wait_for_all(Sleepy([(1, 0, 0)]), [work], patience=1.0)
    assert list(arrived) == [(2, 0, 0)]
    assert host.wait_for_all(Sleepy([]), [], patience=1.0) == {}


# What is refused


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stage_latencies": ()}, r"stage_latencies=\(\) must be one for each of code"),
        ({"patience": 0.0}, "patience=0.0 must be greater than 0"),
    ],
)
def test_a_clock_that_makes_no_sense_is_refused(make, options, words):
    with pytest.raises(ValueError, match=words):
        simulated(make(), **options)


def test_a_split_without_problems_is_refused(make, problems):
    only = [one for one in problems if one.split == "train"]
    environment = simulated(make(chosen=only))
    start = functools.partial(environment.start, jax.random.split(jax.random.key(0), 2))
    with pytest.raises(
        ValueError, match="split='test' must be a split that has problems"
    ):
        start(split="test", num_members=1)
    with pytest.raises(ValueError, match="split='dev' must be one of train"):
        start(split="dev", num_members=1)


def test_people_see_what_was_executed(make):
    tasks = make(stages=("code", "debug"))
    environment = simulated(tasks)
    _, results = play(environment, ScriptedAgent(tasks, quick_share=0.0))
    state = results[-1][1].state
    lines = environment.describe_member(state, 0, 1)
    assert lines[0] == "visible:" and "return None" in lines[-2]
    assert environment.describe_problem(state, 0)[0].startswith("problem ")
    assert environment.spell(np.array([0, 5])) == tasks.spell([5])


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ({"quick_share": 1.5}, r"quick_share=1.5 must be in \[0, 1\]"),
        (
            {"quick_share": 0.6, "slow_share": 0.6},
            "quick_share [+] slow_share=1.2 must",
        ),
    ],
)
def test_shares_of_an_agent_that_are_none_are_refused(make, shares, words):
    with pytest.raises(ValueError, match=words):
        ScriptedAgent(make(), **shares)


def test_an_agent_refuses_problems_that_it_cannot_write(make, problems):
    with pytest.raises(
        ValueError, match=r"'fibonacci 0'\].reference=.* at most 20 tok"
    ):
        ScriptedAgent(make(program_width=20), quick_share=1.0)
    unknown = type(problems[0])(**{**vars(problems[0]), "reference": None})
    with pytest.raises(ValueError, match=r"'add 0'\].reference=None must be known"):
        ScriptedAgent(make(chosen=[unknown]), quick_share=1.0)
