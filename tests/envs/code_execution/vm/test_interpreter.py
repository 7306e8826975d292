"""The batched interpreter: every clause of the instruction set; a slow reference."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.envs.code_execution.vm import assembler, interpreter
from agentic_grpo.envs.code_execution.vm.instructions import (
    BINARY,
    VALUE_LIMIT,
    MachineEnding,
    Op,
)
from scripts.fuzzing import random_programs, reference_machine

FAULT, OUT_OF_FUEL = MachineEnding.FAULT, MachineEnding.OUT_OF_FUEL
NUM_JOBS, LENGTH = 1024, 16  # the one shape that most tests share; it is compacted

# text, n, m, fuel given; output or ending, fuel used. All derived by hand.
CASES = [
    # Loops. n, sum: 2 units; then 2 for each pass.
    ("n sum i close", 3, 0, 99, 6, 8),
    ("n sum i close", 0, 0, 99, 0, 2),
    ("n sum i close", -5, 0, 99, 0, 2),
    ("1 n iterate 2 * close", 10, 0, 99, 1024, 33),
    ("7 n iterate 2 * close", 0, 0, 99, 7, 3),
    ("n sum i sum i j * close close", 2, 0, 99, 1 + 2 * (1 + 2), 20),
    ("n sum 1 sum 1 sum i close close close", 2, 0, 99, 2, 18),
    ("1 sum 2 sum 1 sum j close close close", 0, 0, 99, 1 + 2, 15),
    ("n iterate close 4", 3, 0, 99, 4, 6),  # an empty body
    ("1 2 3 4 5 6 7 2 sum i close", 0, 0, 99, 3, 13),  # the total needs no room
    ("4 2 iterate drop 5 close", 0, 0, 99, 5, 9),  # a body reaches below
    ("4 2 sum drop 1 2 close", 0, 0, 99, 2 + 2, 11),
    ("2 sum i close 3 sum i close *", 0, 0, 99, 3 * 6, 6 + 8 + 1),
    # Loops that are not well formed.
    ("3 sum close", 0, 0, 99, FAULT, 3),
    ("3 sum 1 1 close", 0, 0, 99, FAULT, 5),
    ("3 iterate 1 close", 0, 0, 99, FAULT, 4),
    ("1 2 iterate drop close", 0, 0, 99, FAULT, 5),
    ("close", 0, 0, 99, FAULT, 1),
    ("7 halt close", 0, 0, 99, 7, 1),
    ("1 sum", 0, 0, 99, FAULT, 2),
    ("0 sum", 0, 0, 99, FAULT, 2),
    ("0 sum iterate close 5", 0, 0, 99, FAULT, 2),  # the close is that of iterate
    ("7 halt sum", 0, 0, 99, 7, 1),
    ("sum close", 0, 0, 99, FAULT, 1),
    ("1 sum 1 sum 1 sum 1 sum i close close close close", 0, 0, 99, FAULT, 8),
    ("1 sum 1 sum 1 sum 0 sum i close close close close", 0, 0, 99, FAULT, 8),
    # What is skipped is not executed.
    ("0 iterate 1 0 // close 7", 0, 0, 99, 7, 3),
    ("0 iterate halt close 7", 0, 0, 99, 7, 3),
    ("0 iterate ?99 close 7", 0, 0, 99, 7, 3),
    ("0 iterate 1 sum i close close 7", 0, 0, 99, 7, 3),  # to its own close
    ("5 1 iterate halt close", 0, 0, 99, FAULT, 3),
    # Indices.
    ("i", 0, 0, 99, FAULT, 1),
    ("1 sum j close", 0, 0, 99, FAULT, 3),
    ("1 sum i close i", 0, 0, 99, FAULT, 5),
    # The end of a program.
    ("", 0, 0, 99, FAULT, 0),
    ("1 drop", 0, 0, 99, FAULT, 2),
    ("1 2 3", 0, 0, 99, 3, 3),
    ("1 1 + 1 + 1 + 1 + 1 + 1 + 1 + dup", 0, 0, 99, 8, LENGTH),  # no room for HALT
    # Fuel.
    ("7", 0, 0, 1, 7, 1),
    ("1 2 +", 0, 0, 3, 3, 3),
    ("1 2 +", 0, 0, 2, OUT_OF_FUEL, 2),
    ("0 0 //", 0, 0, 3, FAULT, 3),
    ("7", 0, 0, 0, OUT_OF_FUEL, 0),
    ("", 0, 0, 0, OUT_OF_FUEL, 0),
    ("7", 0, 0, -3, OUT_OF_FUEL, 0),
    ("n iterate close", 2**30, 0, 50, OUT_OF_FUEL, 50),
    # The stack: eight values.
    ("1 2 3 4 5 6 7 8", 0, 0, 99, 8, 8),
    ("1 2 3 4 5 6 7 8 swap", 0, 0, 99, 7, 9),
    ("1 2 3 4 5 6 7 8 9", 0, 0, 99, FAULT, 9),
    ("1 2 3 4 5 6 7 8 dup", 0, 0, 99, FAULT, 9),
    ("1 2 3 4 5 6 7 8 over", 0, 0, 99, FAULT, 9),
    ("1 2 3 4 5 6 7 8 + + + + + + +", 0, 0, 99, 36, 15),
    ("dup", 0, 0, 99, FAULT, 1),
    ("1 over", 0, 0, 99, FAULT, 2),
    ("1 swap", 0, 0, 99, FAULT, 2),
    ("drop", 0, 0, 99, FAULT, 1),
    ("1 +", 0, 0, 99, FAULT, 2),
    ("1 2 select", 0, 0, 99, FAULT, 3),
    ("1 2 3 over", 0, 0, 99, 2, 4),
    ("1 2 3 drop", 0, 0, 99, 2, 4),
    ("1 2 3 swap -", 0, 0, 99, 1, 5),
    # Arithmetic.
    ("n m -", 3, 8, 99, -5, 3),
    ("n m //", -7, 2, 99, -4, 3),
    ("n m %", -7, 2, 99, 1, 3),
    ("n m //", 7, -2, 99, -4, 3),
    ("n m %", 7, -2, 99, -1, 3),
    ("n m %", 7, 0, 99, FAULT, 3),
    ("n m <", 3, 8, 99, 1, 3),
    ("n m <", 8, 8, 99, 0, 3),
    ("0 5 6 select", 0, 0, 99, 6, 4),
    ("n 5 6 select", -1, 0, 99, 5, 4),
    # Overflow. In int32, 65536 * 65536 is 0 and 2 ** 30 + 2 ** 30 is negative.
    ("n", VALUE_LIMIT + 1, 0, 99, FAULT, 1),
    ("n 1 +", VALUE_LIMIT - 1, 0, 99, VALUE_LIMIT, 3),
    ("n 1 +", VALUE_LIMIT, 0, 99, FAULT, 3),
    ("n n +", VALUE_LIMIT, 0, 99, FAULT, 3),
    ("n m -", -VALUE_LIMIT, VALUE_LIMIT, 99, FAULT, 3),
    ("n n *", 65536, 0, 99, FAULT, 3),
    ("n n *", -32768, 0, 99, VALUE_LIMIT, 3),
    ("2 sum n close", 2**29, 0, 99, VALUE_LIMIT, 6),
    ("2 sum n close", VALUE_LIMIT, 0, 99, FAULT, 6),
    # Opcodes that are not in the list; 64 has the low bits of HALT.
    ("?32", 0, 0, 99, FAULT, 1),
    ("?-1", 0, 0, 99, FAULT, 1),
    ("7 ?64", 0, 0, 99, FAULT, 2),
    ("7 ?-64", 0, 0, 99, FAULT, 2),
    ("7 halt ?99", 0, 0, 99, 7, 1),
]


@pytest.fixture(scope="module")
def run():
    """Runs up to NUM_JOBS jobs: int64 [N, 3] of ending, output and fuel used."""
    compiled = jax.jit(interpreter.run)

    def padded(programs, inputs, fuel):
        missing = NUM_JOBS - len(fuel)
        result = compiled(
            np.pad(programs, ((0, missing), (0, 0))),
            np.pad(inputs, ((0, missing), (0, 0))),
            np.pad(fuel, (0, missing)),
        )
        return columns(result)[: len(fuel)]

    return padded


@pytest.fixture(scope="module")
def outcomes(run):
    """What the machine makes of CASES."""
    rows = [assembler.assemble(case[0], LENGTH, balanced=False) for case in CASES]
    numbers = np.array([case[1:4] for case in CASES], np.int32)
    return run(np.stack(rows), numbers[:, :2], numbers[:, 2])


def columns(result):
    fields = (result.ending, result.output, result.fuel_used)
    return np.stack(fields, axis=-1).astype(np.int64)


def reference(programs, inputs, fuel):
    jobs = zip(programs.tolist(), inputs.tolist(), fuel.tolist(), strict=True)
    return np.array([reference_machine.run(row, *pair, cap) for row, pair, cap in jobs])


@pytest.mark.parametrize(
    "number", range(len(CASES)), ids=[" ".join(map(str, c[:4])) for c in CASES]
)
def test_a_program_does_what_the_instruction_set_says(outcomes, number):
    *_, result, fuel_used = CASES[number]
    if isinstance(result, MachineEnding):
        expected = [result, 0, fuel_used]
    else:
        expected = [MachineEnding.HALTED, result, fuel_used]
    assert outcomes[number].tolist() == expected


def test_the_reference_agrees_on_the_derived_cases():
    # Else the comparison below would prove little.
    for text, n, m, fuel, result, fuel_used in CASES:
        row = assembler.assemble(text, LENGTH, balanced=False)
        ending, output, used = reference_machine.run(row.tolist(), n, m, fuel)
        got = output if ending == MachineEnding.HALTED else ending
        assert (got, used) == (result, fuel_used), text


def test_binary_instructions_are_exact_up_to_the_limits(run):
    # A float quotient or product would be off by one near the limits.
    values = [0, 1, -1, 7, -32768, 46341, 2**29 + 1, 1 - 2**30, 2**30, -(2**30)]
    pairs = np.array([(b, a) for b in values for a in values], np.int32)
    rows = np.zeros((len(BINARY) * len(pairs), LENGTH), np.int32)
    rows[:, :2] = Op.INPUT_N, Op.INPUT_M
    rows[:, 2] = np.repeat(BINARY, len(pairs))
    jobs = rows, np.tile(pairs, (len(BINARY), 1)), np.full(len(rows), 9, np.int32)
    np.testing.assert_array_equal(run(*jobs), reference(*jobs))


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_agree_with_the_reference(run, seed):
    # scripts/fuzz_machine.py does the same a thousand times over.
    jobs = random_programs.jobs(seed, NUM_JOBS, LENGTH)
    expected = reference(*jobs)
    assert set(expected[:, 0]) == {1, 2, 3}
    assert np.median(expected[:, 2]) >= 4  # most do not fault at once
    np.testing.assert_array_equal(run(*jobs), expected)


def test_a_batch_that_is_not_compacted_agrees_too():
    jobs = random_programs.jobs(11, 256, 24)
    np.testing.assert_array_equal(
        columns(jax.jit(interpreter.run)(*jobs)), reference(*jobs)
    )


@pytest.mark.parametrize("turn", [64, 100])
def test_a_batch_too_large_for_one_turn_agrees_too(turn, monkeypatch):
    monkeypatch.setattr(interpreter, "_TURN", turn)
    jobs = random_programs.jobs(11, 256, 24)  # in fours, or in threes with idle ones
    np.testing.assert_array_equal(
        columns(jax.jit(lambda *jobs: interpreter.run(*jobs))(*jobs)), reference(*jobs)
    )


def test_any_bits_have_a_defined_outcome(run):
    rng = np.random.default_rng(5)
    bits = np.iinfo(np.int32)
    programs = rng.integers(bits.min, bits.max, (NUM_JOBS, LENGTH), endpoint=True)
    programs[::2] = rng.integers(0, 32, (NUM_JOBS // 2, LENGTH))
    inputs = rng.integers(bits.min, bits.max, (NUM_JOBS, 2), endpoint=True)
    fuel = rng.integers(-5, 400, NUM_JOBS)
    jobs = [array.astype(np.int32) for array in (programs, inputs, fuel)]
    got = run(*jobs)
    assert set(got[:, 0]) <= {1, 2, 3}
    assert np.abs(got[:, 1]).max() <= VALUE_LIMIT
    assert (got[:, 2] <= np.maximum(fuel, 0)).all()
    np.testing.assert_array_equal(got, reference(*jobs))


def test_a_job_does_not_depend_on_its_neighbours(run):
    # Compaction that mixed up columns would show here.
    jobs = random_programs.jobs(21, NUM_JOBS, LENGTH)
    order = np.random.default_rng(0).permutation(NUM_JOBS)
    np.testing.assert_array_equal(run(*(x[order] for x in jobs)), run(*jobs)[order])


def test_more_than_a_quarter_may_run_to_the_end(run):
    # The small batch that goes on alone must take no job that does not fit.
    row = assembler.assemble("n sum i close", LENGTH)
    fuel = np.where(np.arange(NUM_JOBS) % 3 == 0, 40, 200).astype(np.int32)
    got = run(np.tile(row, (NUM_JOBS, 1)), np.full((NUM_JOBS, 2), 2000, np.int32), fuel)
    assert (got[:, 0] == OUT_OF_FUEL).all()
    np.testing.assert_array_equal(got[:, 2], fuel)


def test_vmap_equals_the_flat_batch():
    programs, inputs, fuel = random_programs.jobs(31, 12, 8)
    by_three = [x.reshape(3, 4, *x.shape[1:]) for x in (programs, inputs, fuel)]
    got = jax.jit(jax.vmap(interpreter.run))(*by_three)
    np.testing.assert_array_equal(
        columns(got).reshape(12, 3), reference(programs, inputs, fuel)
    )


def test_jobs_spread_over_devices_end_as_on_one(run):
    mesh = jax.make_mesh((4,), ("jobs",), axis_types=(jax.sharding.AxisType.Auto,))
    over_jobs = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("jobs"))
    jobs = random_programs.jobs(41, NUM_JOBS, LENGTH)
    got = jax.jit(interpreter.run)(*jax.device_put(jobs, over_jobs))
    np.testing.assert_array_equal(columns(got), run(*jobs))


@pytest.mark.parametrize(("num_jobs", "length"), [(0, 4), (3, 0)])
def test_empty_batches_and_empty_programs_are_defined(num_jobs, length):
    result = interpreter.run(
        jnp.zeros((num_jobs, length), jnp.int32),
        jnp.zeros((num_jobs, 2), jnp.int32),
        jnp.full(num_jobs, 5, jnp.int32),
    )
    np.testing.assert_array_equal(
        columns(result), np.full((num_jobs, 3), [FAULT, 0, 0])
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"fuel": np.zeros((2, 1), np.int32)}, r"fuel has shape \[2, 1\]"),
        ({"inputs": np.zeros((3, 2), np.int32)}, r"inputs has shape \[3, 2\].*N = 2"),
        ({"programs": np.zeros(4, np.int32)}, r"programs has shape \[4\]"),
        (
            {"programs": np.zeros((2, 4), np.int64)},
            "programs has dtype int64; .* int32",
        ),
    ],
)
def test_wrong_arguments_are_refused_by_name(changed, message):
    right = {
        "programs": np.zeros((2, 4), np.int32),
        "inputs": np.zeros((2, 2), np.int32),
        "fuel": np.zeros(2, np.int32),
    }
    with pytest.raises(ValueError, match=message):
        interpreter.run(**(right | changed))


def test_a_program_too_long_to_address_is_refused():
    shapes = [(1, 2**25), (1, 2), (1,)]
    with pytest.raises(ValueError, match="length 33554432; it must be at most"):
        jax.eval_shape(
            interpreter.run, *(jax.ShapeDtypeStruct(s, np.int32) for s in shapes)
        )
