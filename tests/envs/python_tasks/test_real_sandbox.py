"""Python tasks where programs really run."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from known_programs import sandbox_of

from agentic_grpo.envs import host, simulated_clock
from agentic_grpo.envs.latency import Latency
from agentic_grpo.envs.python_tasks import families, judging
from agentic_grpo.envs.python_tasks.config import PythonTasksConfig
from agentic_grpo.envs.python_tasks.environment import PythonTasks
from agentic_grpo.envs.python_tasks.problem import Problem
from agentic_grpo.envs.python_tasks.scripted_agent import ScriptedAgent
from agentic_grpo.records import EndReason
from agentic_grpo.sandbox.pool import Pool

CHECKED = Problem(
    id="checked",
    statement="def half(x):",
    entry="half",
    visible=(),
    checker="def check(f):\n    assert f(4) == 2\n    assert f(10) == 5\n",
    reference="def half(x):\n    return x // 2\n",
)


@pytest.fixture(scope="module")
def pool():
    with Pool(1) as started:
        yield started


@pytest.fixture(scope="module")
def tasks(pool, tokenizer):
    chosen = families.generate(["add", "sum_of_multiples_to", "fibonacci"])
    return PythonTasks(
        [*chosen, CHECKED],
        PythonTasksConfig(stages=("code", "debug")),
        tokenizer=tokenizer,
        sandbox=sandbox_of(pool),
    )


def judge(tasks, bodies):
    """(stage, verdict) of {problem id: body}, submitted at once."""
    numbers = {one.id: number for number, one in enumerate(tasks.list)}
    end = tasks.spec.end_tokens[-1]
    works = [
        host.Work(
            ticket=(id, body),
            problem=numbers[id],
            actions=((*tasks._tokenizer.encode(body), end), (end,)),
        )
        for id, body in bodies
    ]
    return host.wait_for_all(tasks, works, patience=300.0)


def test_programs_of_every_kind_are_kept_apart(tasks):
    slow_sum = " total = 0\n    for i in range(1, n + 1): total += i\n    return total"
    expected = {
        ("add 0", " return x + 2"): (1.0, 1.0),
        ("add 0", " return x + 2.0"): (0.0, 0.0),  # another type
        ("add 0", " return 5"): (0.25, 0.0),
        ("add 0", " if x > 5: raise KeyError(x)\n    return x + 2"): (0.75, 0.375),
        ("add 0", " while True: pass"): (0.0, 0.0),
        ("add 0", " import os\n    os._exit(0)"): (0.0, 0.0),
        ("add 0", " return (((("): (0.0, 0.0),
        ("sum_of_multiples_to 0", " return n * (n + 1) // 2"): (1.0, 1.0),
        ("sum_of_multiples_to 0", slow_sum): (1.0, 0.5),  # overrated at first
        ("checked", " return x / 2"): (None, 1.0),
        ("checked", " return x - 2"): (None, 0.0),
    }
    arrived = judge(tasks, expected)
    found = {
        ticket: (stage.reward, verdict.verdict)
        for ticket, (stage, verdict) in arrived.items()
    }
    assert found == expected
    assert arrived["checked", " return x / 2"][1].solved
    stages = [stage for stage, _ in arrived.values()]
    assert all(stage.end_reason == EndReason.SUBMITTED for stage in stages)


def test_members_read_what_their_programs_did(tasks, tokenizer):
    told = {}
    for body in (" while True: pass", " return x.y"):
        action = tuple(tokenizer.encode(body))
        tasks.submit([host.Work(ticket=body, problem=0, actions=(action,))])
        (stage,) = tasks.poll(60.0)
        told[body] = tokenizer.decode(stage.observation)
    assert "# add_2(3) took too long\n" in told[" while True: pass"]
    assert "# add_2(3) raised AttributeError: 'int' object" in told[" return x.y"]


def test_the_device_waits_for_programs(tasks):
    environment = simulated_clock.on_simulated_clock(
        tasks,
        stage_latencies=[Latency(minimum=1)] * 2,
        verdict_latency=Latency(minimum=2),
    )
    agent = ScriptedAgent(tasks, quick_share=0.5)
    keys = jax.random.split(jax.random.key(0), 4)
    draw = functools.partial(environment.start, split="train", num_members=3)
    state = jax.jit(draw)(keys).state
    step, write = jax.jit(environment.step), jax.jit(lambda *a: agent(*a))
    acting = np.ones((4, 3), bool)
    for stage in (0, 1):
        at = jnp.full(4, stage, jnp.int32)
        result = step(state, at, *write(state, at, keys), acting, keys)
        state = result.state
    rewards = np.asarray(result.reward)[np.asarray(result.reward_mask)]
    assert set(np.unique(rewards)) == {0.0, 1.0}
    solved = np.asarray(result.solved)
    np.testing.assert_array_equal(result.verdict, solved.astype(np.float32))
    assert solved.any() and not solved.all()


def test_references_run_in_the_sandbox(tasks, pool):
    judging.check_references(tasks.list, tasks.config, sandbox_of(pool))
    wrong = Problem(**{**vars(CHECKED), "reference": "def half(x):\n    return x\n"})
    with pytest.raises(ValueError, match="checked: hidden: half"):
        judging.check_references([wrong], tasks.config, sandbox_of(pool))


def test_a_closed_pool_is_a_fault_of_ours(tokenizer):
    with Pool(1) as closed:
        tasks = PythonTasks(
            families.generate(["add"]),
            PythonTasksConfig(),
            tokenizer=tokenizer,
            sandbox=sandbox_of(closed),
        )
    tasks.submit([host.Work(ticket="it", problem=0, actions=((5,),))])
    stage, verdict = sorted(tasks.poll(60.0), key=lambda one: type(one).__name__)
    assert stage.end_reason == EndReason.FAULT and verdict.is_fault


@pytest.mark.slow
def test_every_slow_program_is_too_slow_and_every_quick_one_is_not(pool):
    problems = [one for one in families.generate() if one.slow is not None]
    config, sandbox = PythonTasksConfig(), sandbox_of(pool)
    asked = judging.Judge(config, sandbox)
    for program, score in (("reference", 1.0), ("slow", 0.5)):
        for suite in (judging.Suite.VISIBLE, judging.Suite.HIDDEN):
            questions = [
                asked.question(suite, number, one, getattr(one, program))
                for number, one in enumerate(problems)
            ]
            results = pool.run([question.job for question in questions])
            expected = 1.0 if suite is judging.Suite.VISIBLE else score
            for one, question, result in zip(problems, questions, results, strict=True):
                assert asked.report(question, result).score == expected, one.id
