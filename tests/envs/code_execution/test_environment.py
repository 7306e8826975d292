"""The environment's specification, clause by clause."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.envs import latency
from agentic_grpo.envs.code_execution import (
    CodeExecution,
    CodeExecutionConfig,
    Latency,
)
from agentic_grpo.envs.code_execution.problems import measurements
from agentic_grpo.envs.code_execution.problems import vocabulary as v
from agentic_grpo.envs.code_execution.vm.instructions import (
    MachineEnding,
)
from agentic_grpo.layout import StageKind
from agentic_grpo.records import EndReason

LANES, MEMBERS = 6, 4
NUM_STAGES = 7


def row_of(full, family):
    """A problem of the train split of one family of the full environment."""
    index = full.environment.config.families.index(family)
    return int(full.table.rows_of_split("train")[index][3])


@pytest.fixture(scope="module")
def cubes(full):
    """Every lane at one problem of the family cubes, with a plan that allows closed
    forms, and the texts of its two programs."""
    row = row_of(full, "cubes")
    state = full.begin_with(row)
    return state, full.program("brute_force", row), full.program("efficient", row)


# ------------------------------------------------------------------ robustness


@pytest.mark.parametrize("seed", range(3))
def test_any_tokens_at_any_stage_have_a_defined_outcome(full, seed):
    """Ids outside the vocabulary, empty texts and ragged masks included."""
    keys = jax.random.split(jax.random.key(seed), 4)
    width = full.spec.layout.max_action_width
    shape = (LANES, MEMBERS, width)
    state = full.begin(seed)
    for step in range(2 * NUM_STAGES):
        key = jax.random.fold_in(keys[0], step)
        tokens = jax.random.randint(key, shape, -3, v.VOCABULARY_SIZE + 3)
        length = jax.random.randint(key, shape[:2], 0, width + 1)
        mask = jnp.arange(width)[None, None] < length[..., None]
        stage = jax.random.randint(key, (LANES,), 0, NUM_STAGES)
        acting = jax.random.bernoulli(key, 0.8, shape[:2])
        lanes = jax.random.split(key, LANES)
        result = full.step(state, stage, tokens, mask, acting, lanes)
        chex.assert_tree_all_finite((result.reward, result.verdict))
        for rate in (result.reward, result.verdict):
            assert np.all((rate >= 0) & (rate <= 1))
        assert np.all(result.latency >= 0) and np.all(result.verdict_latency >= 0)
        assert np.all(result.observation_tokens >= 0)
        assert np.all(result.observation_tokens < v.VOCABULARY_SIZE)
        assert np.all(np.diff(result.observation_mask.astype(int), axis=-1) <= 0)
        state = result.state


def test_start_and_step_compile_once_and_unrewarded_stages_are_told_but_not_paid():
    environment = CodeExecution(
        CodeExecutionConfig(families=("affine",), unrewarded_stages=("hypothesis",))
    )
    kinds = [stage.kind for stage in environment.spec.layout.stages]
    assert kinds == [StageKind.NONE, StageKind.ESTIMATE, StageKind.ESTIMATE]
    start = jax.jit(
        chex.assert_max_traces(
            lambda keys: environment.start(keys, split="train", num_members=2), n=1
        )
    )
    step = jax.jit(chex.assert_max_traces(environment.step, n=1))
    state = start(jax.random.split(jax.random.key(0), 2)).state
    state = start(jax.random.split(jax.random.key(1), 2)).state
    tokens = jnp.zeros((2, 2, environment.spec.layout.max_action_width), jnp.int32)
    for stage in range(3):
        result = step(
            state,
            jnp.full(2, stage),
            tokens,
            tokens == 0,
            jnp.ones((2, 2), bool),
            jax.random.split(jax.random.key(stage), 2),
        )
        state = result.state
        assert np.all(result.reward_mask == (stage > 0))
        assert np.all(result.observation_mask[..., 0] == (stage < 2))


def test_equal_keys_give_equal_groups_and_different_keys_different_ones(full):
    one, same, other = full.begin(0), full.begin(0), full.begin(1)
    chex.assert_trees_all_equal(one, same)
    assert not np.array_equal(one.suites.inputs, other.suites.inputs)
    assert len(np.unique(one.members.seed)) == LANES * MEMBERS


# ------------------------------------------------------------------- the group


def test_lanes_at_different_stages_are_stepped_as_if_alone(full):
    """The likely bug: the stage of lane 0 deciding for all lanes."""
    texts = ["0 1 0 2", "closed", "3 closed", "n n *", "6 3 2 0 5 1", "n n +"]
    state = full.begin(3)
    mixed = full.write(state, range(6), texts)
    for lane, text in enumerate(texts):
        alone = full.write(state, lane, text)
        for name in ("reward", "observation_mask", "end_reason", "latency"):
            np.testing.assert_array_equal(
                getattr(mixed, name)[lane], getattr(alone, name)[lane], err_msg=name
            )
        chex.assert_trees_all_equal(
            jax.tree.map(lambda leaf, k=lane: leaf[k], mixed.state),
            jax.tree.map(lambda leaf, k=lane: leaf[k], alone.state),
        )


def test_members_that_write_the_same_fare_the_same(full, cubes):
    state, brute, efficient = cubes
    texts = [[brute, efficient, efficient, brute]] * LANES
    result = full.write(state, "code", texts)
    np.testing.assert_array_equal(result.reward[:, 1], result.reward[:, 2])
    np.testing.assert_array_equal(result.state_id[:, 0], result.state_id[:, 3])


def test_members_that_do_not_act_are_not_touched(full, cubes):
    state, _, efficient = cubes
    acting = np.arange(MEMBERS)[None].repeat(LANES, 0) % 2 == 0
    result = full.write(state, "code", efficient, acting=acting)
    written = np.any(np.asarray(result.state.members.program) != 0, axis=-1)
    np.testing.assert_array_equal(written, acting)
    np.testing.assert_array_equal(result.reward_mask, acting)
    assert not np.any(np.asarray(result.observation_mask)[~acting])


def test_a_member_that_has_ended_does_not_change_any_more(full, cubes):
    """Even if a caller lets it act again: it is neither rewarded nor judged twice."""
    state, brute, efficient = cubes
    state = full.write(state, "code", efficient).state
    state = full.write(state, "debug", "submit").state
    again = full.write(state, 6, brute)
    chex.assert_trees_all_equal(again.state, state)
    assert not np.any(again.reward_mask)
    np.testing.assert_array_equal(again.end_reason, EndReason.RUNNING)


# ------------------------------------------------------------------- the stages


def test_a_hypothesis_is_paid_by_the_share_verified_and_told_the_first_error(full):
    row = row_of(full, "affine")
    start = full.table.truth_start[row]
    zero, one = (int(x) for x in full.table.truth[start : start + 2])  # b and a + b
    state = full.begin_with(row, hidden=True)

    def claim(first, second):
        return " ".join(f"{first:02d}{second:02d}")

    wrong = (zero + 1) % 10
    texts = [claim(zero, one), claim(wrong, one), claim(zero, one + 1), "0 1 0", "n"]
    texts.append(claim(zero, one) + " 0")
    result = full.write(state, "hypothesis", texts)
    np.testing.assert_allclose(result.reward[:, 0], [1, 0.5, 0.5, 0, 0, 0])
    told = [full.told(result, lane) for lane in range(LANES)]
    tens, ones = f"{one:02d}"
    assert told == [
        "verified",
        f"counterexample 0 0 {zero}",
        f"counterexample 1 {tens} {ones}",
        "malformed",
        "malformed",
        "malformed",
    ]
    np.testing.assert_array_equal(
        result.state.members.revealed[:, 0], [True] * 3 + [False] * 3
    )


def test_a_plan_is_worth_its_best_reference_and_binds_what_follows(full):
    """cubes: closed has the efficient program, summing the brute force, others none."""
    row = row_of(full, "cubes")
    state = full.begin_with(row)
    plans = ["closed", "summing", "iterating", "looping", "n", "closed n"]
    result = full.write(state, "algorithm", plans)
    np.testing.assert_allclose(result.reward[:, 0], [1, 1, 0, 0, 0, 0])
    assert full.told(result, 0) == "passed 4"
    assert full.told(result, 2) == "fault 0"
    # The reference was judged, not the member's program: it has none yet.
    np.testing.assert_array_equal(result.state_id, 0)

    code = full.write(result.state, "code", full.program("efficient", row))
    np.testing.assert_allclose(code.reward[:, 0], [1, 0, 0, 0, 0, 0])
    code = full.write(result.state, "code", full.program("brute_force", row))
    np.testing.assert_allclose(code.reward[:, 0], [0, 1, 0, 1, 0, 0])


def test_code_is_scored_on_the_visible_tests_and_told_its_first_failure(full, cubes):
    state, brute, efficient = cubes
    result = full.write(state, "code", [brute, efficient, "n", "+", "<end>", "n n ?"])
    np.testing.assert_allclose(result.reward[:, 0], [1, 1, 0, 0, 0, 0])
    n, m = np.asarray(state.suites.inputs)[:, 0].T
    assert full.told(result, 0) == full.told(result, 1) == "passed 4 not_run"
    for lane, status in ((2, "wrong"), (3, "fault"), (4, "fault"), (5, "fault")):
        expected = f"{status} 0 not_run 0 {n[lane]} {m[lane]}"
        assert full.told(result, lane) == expected


def test_own_tests_are_paid_by_the_mutants_they_kill(full, cubes):
    """At n = 63, at n = 0, and at both; n = 99 lies outside the domain."""
    state, brute, efficient = cubes
    state = full.write(state, "code", [brute, efficient] * 3).state
    large, zero, none = "6 3 1", "0 0 1", "9 9 1"
    texts = [f"{large} {large}", f"{large} {none}", f"{none} {zero}"]
    texts += [f"{zero} {large}", f"{none} {none}", "n n n"]
    result = full.write(state, "tests", texts)

    row = int(state.problem[0])
    mutants = full.environment.setting.mutants.program[row]
    truth = full.table.truth[full.table.truth_start[row] + np.array([63, 0])]
    inputs = np.tile(np.array([[63, 1], [0, 1]], np.int32), (len(mutants), 1))
    ran = measurements.run_in_batches(np.repeat(mutants, 2, axis=0), inputs, 48)
    fails = ran.ending != MachineEnding.HALTED
    fails |= ran.output != np.tile(truth, len(mutants))
    large, zero = fails.reshape(-1, 2).T
    assert large[4] and not zero[4]  # the brute force: large inputs break it alone
    killed = [large, large, zero, large | zero, [False], [False]]
    expected = [np.sum(each) for each in killed]
    np.testing.assert_allclose(result.reward[:, 0], np.array(expected) / 5, rtol=1e-6)
    own = ["out_of_fuel", "passed", "passed", "passed"]
    for lane in range(4):
        assert full.told(result, lane) == f"{expected[lane]} {own[lane]}"
    assert full.told(result, 4) == full.told(result, 5) == "malformed"


def test_own_tests_give_debugging_feedback_but_no_reward(full, cubes):
    state, brute, efficient = cubes
    state = full.write(state, "code", brute).state
    state = full.write(state, "tests", "6 3 1 6 0 1").state
    result = full.write(state, "debug", [brute, efficient] * 3)
    np.testing.assert_allclose(result.reward, 1.0)  # the visible suite is blind
    assert full.told(result, 0) == "passed 4 out_of_fuel"
    assert full.told(result, 1) == "passed 4 passed"


def test_a_summary_is_paid_by_the_facts_in_their_places(full):
    row = row_of(full, "cubes")
    digit = int(full.table.digit[row])
    state = full.write(full.begin_with(row), "algorithm", "closed").state
    texts = [
        f"{digit} closed",
        f"{digit} summing",
        f"{(digit + 1) % 10} closed",
        f"closed {digit}",
        f"{digit} closed n",
        "<end>",
    ]
    result = full.write(state, "summary", texts)
    np.testing.assert_allclose(result.reward[:, 0], [1, 0.5, 0.5, 0, 0, 0])
    assert full.told(result, 0) == "2"
    np.testing.assert_array_equal(
        result.state.members.keeps_digit[:, 0], [True, True] + [False] * 4
    )


def test_debugging_replaces_the_program_and_submitting_keeps_it(full, cubes):
    state, _, efficient = cubes
    state = full.write(state, "code", efficient).state
    result = full.write(state, "debug", ["submit", "n"] * 3)
    before, after = state.members.program, result.state.members.program
    np.testing.assert_array_equal(before[0], after[0])
    assert not np.array_equal(before[1], after[1])
    np.testing.assert_allclose(result.reward[:, 0], [1, 0] * 3)


# -------------------------------------------------------------- end and verdict


def test_submitting_ends_the_episode_and_judges_the_current_program(full, cubes):
    state, brute, efficient = cubes
    texts = [brute, efficient, "n", brute, efficient, "n"]
    state = full.write(state, "code", texts).state
    result = full.write(state, "debug", "submit")
    np.testing.assert_array_equal(result.end_reason, EndReason.SUBMITTED)
    np.testing.assert_allclose(result.reward[:3, 0], [1, 1, 0])
    np.testing.assert_allclose(result.verdict[:, 0], [0, 1, 0] * 2)
    np.testing.assert_array_equal(result.solved[:, 0], [False, True, False] * 2)
    assert np.all(result.state.members.ended)
    assert not np.any(result.observation_mask)


def test_submit_is_no_program_outside_debugging(full, cubes):
    state, _, _ = cubes
    result = full.write(state, "code", "submit")
    np.testing.assert_array_equal(result.end_reason, EndReason.RUNNING)
    np.testing.assert_allclose(result.reward, 0.0)


def test_submitting_without_a_program_is_judged_as_nothing(full, cubes):
    state, _, _ = cubes
    result = full.write(state, "debug", "submit")
    np.testing.assert_array_equal(result.end_reason, EndReason.SUBMITTED)
    np.testing.assert_allclose(result.reward, 0.0)
    np.testing.assert_allclose(result.verdict, 0.0)


def test_who_has_written_every_stage_is_judged_all_the_same(full, cubes):
    state, brute, efficient = cubes
    texts = [brute, efficient, "submit"] * 2
    state = full.write(state, "code", efficient).state
    result = full.write(state, NUM_STAGES - 1, texts)
    truncated, submitted = EndReason.OUT_OF_STAGES, EndReason.SUBMITTED
    np.testing.assert_array_equal(
        result.end_reason[:, 0], [truncated, truncated, submitted] * 2
    )
    np.testing.assert_allclose(result.verdict[:, 0], [0, 1, 1] * 2)
    assert not np.any(result.observation_mask)  # nobody reads after the last stage


def test_nobody_is_judged_before_the_end(full, cubes):
    state, _, efficient = cubes
    result = full.write(state, "code", efficient)
    np.testing.assert_array_equal(result.end_reason, EndReason.RUNNING)
    np.testing.assert_array_equal(result.verdict, 0.0)
    assert not np.any(result.solved)


def test_brute_force_solves_level_1_alone(full):
    for family, solves in (("affine", True), ("rectangle", False)):
        row = row_of(full, family)
        brute = full.program("brute_force", row)
        result = full.write(full.begin_with(row), NUM_STAGES - 1, brute)
        np.testing.assert_array_equal(result.solved, solves)


def test_state_ids_number_the_verdict_vectors_of_the_last_program(full, cubes):
    state, brute, efficient = cubes
    assert not np.any(full.write(state, "hypothesis", "n").state_id)
    code = full.write(state, "code", [[brute, efficient, "n", "+"]] * LANES)
    ids = np.asarray(code.state_id)
    assert np.all(ids[:, 0] == ids[:, 1])  # both pass everything that is visible
    assert all(len(set(row)) == 3 for row in ids)
    # They stay with the member while it writes other things.
    later = full.write(code.state, "tests", "0 1 1 0 2 1")
    np.testing.assert_array_equal(later.state_id, ids)


# ------------------------------------------------- settings that change a result


def one_step(config, text_of, stage, num_lanes=LANES):
    """Every member writes one of its problem's programs, at one stage."""
    environment = CodeExecution(config)
    table = environment.setting.table
    keys = jax.random.split(jax.random.key(0), num_lanes)
    start = jax.jit(lambda keys: environment.start(keys, split="train", num_members=1))(
        keys
    )
    width = environment.spec.layout.max_action_width
    rows = [
        v.pad([v.FIRST_OPCODE + int(op) for op in program if op] + [v.END], width)
        for program in getattr(table, text_of)[np.asarray(start.state.problem)]
    ]
    tokens = jnp.asarray(rows, jnp.int32)[:, None]
    return jax.jit(environment.step)(
        start.state,
        jnp.full(num_lanes, stage),
        tokens,
        tokens != v.PAD,
        jnp.ones((num_lanes, 1), bool),
        jax.random.split(jax.random.key(1), num_lanes),
    )


def test_costs_are_taken_from_estimate_and_verdict_alike():
    """cubes has level 3 of 5: half of the length penalty; 14 of 14 columns written."""
    config = CodeExecutionConfig(
        families=("cubes",),
        stages=("code",),
        hidden_rate=0.0,
        visible_fidelity=1.0,
        stage_cost=0.05,
        length_penalty=0.2,
    )
    result = one_step(config, "efficient", 0)
    np.testing.assert_allclose(result.reward, 1 - 0.05 - 0.1, rtol=1e-6)
    np.testing.assert_allclose(result.verdict, 1 - 0.05 - 0.1, rtol=1e-6)
    assert np.all(result.solved)


def test_a_graded_verdict_is_the_mean_score_and_speed_counts_in_it():
    """affine: brute force gains no speed; 3 large tests at 0.5, a small one at 1."""
    config = CodeExecutionConfig(
        families=("affine",),
        stages=("code",),
        hidden_rate=0.0,
        verdict="graded",
        speed_score=True,
    )
    result = one_step(config, "brute_force", 0)
    np.testing.assert_allclose(result.verdict, (1 + 3 * 0.5) / 4, rtol=1e-6)
    assert np.all(result.solved)


def test_latencies_are_constant_or_have_a_tail(full):
    constant = Latency(minimum=3)
    tail = Latency(minimum=2, maximum=6, tail_probability=0.25)
    uniform = jax.random.uniform(jax.random.key(0), (2, 2, 4000))
    drawn = np.asarray(latency.draw(uniform, [constant, tail], jnp.array([0, 1])))
    np.testing.assert_array_equal(drawn[0], 3)
    assert set(drawn[1]) == {2, 3, 4, 5, 6}
    late = np.mean(drawn[1] > 2)
    assert abs(late - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 4000)
    # The places of the tail, 3 .. 6, are equally likely: mean 4.5, deviation 1.12.
    assert abs(drawn[1][drawn[1] > 2].mean() - 4.5) < 4 * 1.12 / np.sqrt(1000)


def test_an_unknown_split_is_refused_by_name(full):
    with pytest.raises(ValueError, match="'dev'"):
        full.environment.start(
            jax.random.split(jax.random.key(0), 2), split="dev", num_members=1
        )


def test_no_feedback_tells_what_a_test_expects(full, cubes):
    """The observation of a wrong program is the same whatever the right answers are."""
    state, _, _ = cubes
    other = dataclasses.replace(
        state,
        suites=dataclasses.replace(state.suites, expected=state.suites.expected + 1),
    )
    one, two = (full.write(each, "code", "n") for each in (state, other))
    np.testing.assert_array_equal(one.observation_tokens, two.observation_tokens)
