"""The scripted agent: its dials, and that it knows no more than it was told."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.envs.code_execution import (
    CodeExecution,
    CodeExecutionConfig,
    ScriptedAgent,
)
from agentic_grpo.envs.code_execution.problems import vocabulary as v
from agentic_grpo.envs.code_execution.stages import answers, writing
from agentic_grpo.envs.code_execution.state import CodeState

LANES, MEMBERS = 6, 4


@pytest.fixture(scope="module")
def write(full):
    """(state, stage, **dials) -> the texts of all members, [lane][member]."""
    agent = ScriptedAgent(full.environment, efficient_share=1.0)
    compiled = jax.jit(agent.write)

    def texts(state, stage, **dials):
        dials = ScriptedAgent(
            full.environment, **{"efficient_share": 1.0} | dials
        ).dials
        stages = jnp.full(LANES, full.stage(stage) if isinstance(stage, str) else stage)
        keys = jax.random.split(jax.random.key(5), LANES)
        tokens, mask = compiled(state, stages, keys, dials)
        assert np.all(np.diff(mask.astype(int), axis=-1) <= 0)
        assert np.all(np.asarray(tokens)[~np.asarray(mask)] == v.PAD)
        return [[v.spell(member) for member in lane] for lane in np.asarray(tokens)]

    return texts


def test_its_texts_end_and_earn_full_marks(full, write):
    """Stage by stage, as an efficient agent, on what nothing was hidden from."""
    state = full.begin(0, hidden=jnp.zeros(LANES, bool))
    for stage in ("hypothesis", "algorithm", "summary", "code", "tests"):
        texts = write(state, stage)
        assert all(text.endswith("<end>") for lane in texts for text in lane)
        result = full.write(state, stage, [[t[:-6] for t in lane] for lane in texts])
        if stage != "tests":  # which draws its inputs at random
            np.testing.assert_allclose(result.reward, 1.0, err_msg=stage)
        state = result.state
    assert np.mean(result.reward) > 0.5
    assert write(state, "debug") == [["submit <end>"] * MEMBERS] * LANES


def test_efficient_share_is_the_share_of_episodes(full, write):
    """Of episodes, not of stages: plan and program of one member agree."""
    state = full.begin(1, hidden=jnp.zeros(LANES, bool))
    seed = np.asarray(state.members.seed)
    texts = write(state, "code", efficient_share=0.5)
    plans = write(state, "algorithm", efficient_share=0.5)
    for lane, problem in enumerate(np.asarray(state.problem)):
        for member in range(MEMBERS):
            efficient = seed[lane, member] < 0.5
            kind = "efficient" if efficient else "brute_force"
            assert texts[lane][member] == full.program(kind, problem) + " <end>"
            plan = v.TOKENS[plans[lane][member].split()[0]] - v.FIRST_PLAN
            assert plan == full.table.plan[problem, int(efficient)]


def hidden_digits(full, state, texts):
    """How many members wrote the efficient program of their very problem."""
    return np.mean(
        [
            [text == full.program("efficient", problem) + " <end>" for text in lane]
            for lane, problem in zip(texts, np.asarray(state.problem), strict=True)
        ]
    )


def test_a_hidden_parameter_is_known_only_after_the_hypothesis(full, write):
    """Guessing among ten digits is right one time in ten, or a little more often."""
    state = full.begin(2, hidden=jnp.ones(LANES, bool))
    assert hidden_digits(full, state, write(state, "code")) < 0.5
    malformed = full.write(state, "hypothesis", "n").state
    assert hidden_digits(full, malformed, write(malformed, "code")) < 0.5
    revealed = full.write(state, "hypothesis", "0 0 0 0").state
    assert hidden_digits(full, revealed, write(revealed, "code")) == 1.0


def write_facts(full, state):
    """The right summary of each lane, before any plan."""
    digits = full.table.digit[np.asarray(state.problem)]
    return [f"{digit} malformed" for digit in digits]


def test_what_a_summary_lost_is_not_known_any_more(full, write):
    state = full.begin(2, hidden=jnp.ones(LANES, bool))
    state = full.write(state, "hypothesis", "0 0 0 0").state
    lost = full.write(state, "summary", "n n").state
    assert hidden_digits(full, lost, write(lost, "code")) < 0.5
    kept = full.write(state, "summary", write_facts(full, state)).state
    assert hidden_digits(full, kept, write(kept, "code")) == 1.0


def test_debugging_mends_slow_programs_at_the_repair_share(full, write):
    state = full.begin(4, hidden=jnp.zeros(LANES, bool))
    texts = write(state, "code", efficient_share=0.0)
    state = full.write(state, "code", [[t[:-6] for t in lane] for lane in texts]).state
    # Blind visible tests: it submits, unless its own tests have shown it to be slow.
    assert write(state, "debug", repair_share=1.0)[0][0] == "submit <end>"
    slow = np.asarray(full.table.level)[np.asarray(state.problem)] > 0
    largest = ["6 3 1 6 0 1" if each else "2 0 1 1 9 1" for each in slow]
    tested = full.write(state, "tests", largest).state
    mended = write(tested, "debug", repair_share=1.0)
    unmended = write(tested, "debug", repair_share=0.0)
    for lane, problem in enumerate(np.asarray(state.problem)):
        if slow[lane]:
            assert mended[lane][0] == full.program("efficient", problem) + " <end>"
            assert unmended[lane][0] == full.program("brute_force", problem) + " <end>"
        else:
            assert mended[lane][0] == "submit <end>"
    assert slow.any() and not slow.all()


def test_an_incompetent_stage_writes_noise_of_the_same_length(full, write):
    state = full.begin(1, hidden=jnp.zeros(LANES, bool))
    meant, noise = write(state, "code"), write(state, "code", competence={"code": 0.0})
    assert meant != noise
    assert write(state, "tests", competence={"code": 0.0}) == write(state, "tests")
    words = [len(text.split()) for lane in noise for text in lane]
    assert np.mean(words) == pytest.approx(
        np.mean([len(text.split()) for lane in meant for text in lane]), abs=1.0
    )


@pytest.mark.parametrize(
    ("dials", "message"),
    [
        ({"efficient_share": 1.5}, "efficient_share=1.5"),
        ({"repair_share": -0.1}, "repair_share=-0.1"),
        ({"competence": {"code": 2.0}}, "code=2.0"),
        ({"competence": {"coding": 0.5}}, "'coding'"),
    ],
)
def test_wrong_dials_are_refused(full, dials, message):
    with pytest.raises(ValueError, match=message):
        ScriptedAgent(full.environment, **{"efficient_share": 1.0} | dials)


def test_the_dials_are_data(full):
    """Turning them must not compile anything: they are arrays of fixed shapes."""
    one = ScriptedAgent(full.environment, efficient_share=0.1).dials
    other = ScriptedAgent(
        full.environment, efficient_share=0.9, competence={"debug": 0.5}
    ).dials
    assert jax.tree.map(jnp.shape, one) == jax.tree.map(jnp.shape, other)
    assert np.all(dataclasses.replace(one).competence == 1.0)
    np.testing.assert_allclose(other.competence, [1, 1, 1, 1, 1, 0.5, 0.5])


def test_a_status_that_a_summary_lost_is_not_known_until_the_next_run():
    """The agent must not submit on what it cannot see; the flags say what it can."""
    workflow = CodeExecution(
        CodeExecutionConfig(
            families=("cubes",), stages=("code", "summary", "debug"), hidden_rate=0.0
        )
    )
    members = writing.newcomers(workflow.setting, jnp.zeros((1, 2)))
    assert workflow.setting.facts == ("digit", "status")
    kept = jnp.array([[[True, False], [False, True]]])
    forgot = answers.forget(workflow.setting.facts, members, kept)
    np.testing.assert_array_equal(forgot.keeps_digit, [[True, False]])
    np.testing.assert_array_equal(forgot.keeps_status, [[False, True]])
    agent = ScriptedAgent(workflow, efficient_share=1.0)
    passed = jnp.ones_like(forgot.visible_status)  # TestStatus.PASSED
    known = dataclasses.replace(forgot, visible_status=passed)
    state = CodeState(
        problem=jnp.zeros(1, jnp.int32),
        hidden=jnp.zeros(1, bool),
        suites=None,
        members=known,
    )
    tokens, _ = agent(state, jnp.full(1, 2), jax.random.split(jax.random.key(0), 1))
    submits = tokens[0, :, 0] == v.SUBMIT
    np.testing.assert_array_equal(submits, [False, True])
