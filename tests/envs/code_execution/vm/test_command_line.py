"""The command line: what a person sees, and the exit status."""

import io
import runpy
import sys

import pytest

from agentic_grpo.envs.code_execution.vm import (
    command_line,
)
from agentic_grpo.envs.code_execution.vm import (
    trace as machine_trace,
)
from scripts.fuzzing import random_programs, reference_machine


def test_run_shows_output_and_fuel_of_each_input(capsys):
    assert command_line.main(["run", "n m *", "--inputs", "10", "-3,4"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "n = 10, m = 0: 0 (fuel 3)",
        "n = -3, m = 4: -12 (fuel 3)",
    ]


def test_run_reports_programs_that_fail_by_its_exit_status(capsys):
    assert command_line.main(["run", "5 n //", "--inputs", "0 1"]) == 1
    assert (
        command_line.main(["run", "n iterate close 1", "--inputs=9", "--fuel=4"]) == 1
    )
    assert capsys.readouterr().out.splitlines() == [
        "n = 0, m = 0: fault (fuel 3)",
        "n = 1, m = 0: 5 (fuel 3)",
        "n = 9, m = 0: out_of_fuel (fuel 4)",
    ]


def test_a_program_may_come_from_the_standard_input(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("# the answer\n6 7\n*\n"))
    assert command_line.main(["run", "-"]) == 0
    assert "42 (fuel 3)" in capsys.readouterr().out


def test_trace_shows_stack_and_loops_after_each_instruction(capsys):
    assert command_line.main(["trace", "n sum i close", "--inputs", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "n = 2, m = 0: n sum i close",
        machine_trace.HEADER,
        "   1        0  n               2",
        "   2        1  sum             -                             sum 1/2 total 0",
        "   3        2    i             1                             sum 1/2 total 0",
        "   4        3    close         -                             sum 2/2 total 1",
        "   5        2    i             2                             sum 2/2 total 1",
        "   6        3    close         3",
        "3 (fuel 6)",
        "",
    ]


def test_a_long_trace_is_cut_but_keeps_its_last_line(capsys):
    arguments = ["trace", "1 n iterate 2 * close", "--inputs", "40", "--lines", "3"]
    assert command_line.main(arguments) == 1
    lines = capsys.readouterr().out.splitlines()
    # 3 + 3 for each pass; 2 ** 31 is beyond the limit in the second unit of pass 31.
    assert lines[2:] == [
        "   1        0  1               1",
        "   2        1  n               1 40",
        "... 92 more, shown with --lines=95",
        "  95        4    *             fault: value overflow",
        "fault (fuel 95)",
        "",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("?77", "unknown opcode"),
        ("1 +", "stack underflow"),
        ("1 2 3 4 5 6 7 8 9", "stack overflow"),
        ("1 0 %", "division by zero"),
        ("i", "index outside its loop"),
        ("1 sum", "loop without a close"),
        ("1 sum " * 4 + "close " * 4, "loops nested too deeply"),
        ("close", "close without a loop"),
        ("1 sum close", "loop body ends at the wrong height"),
        ("1 iterate halt close", "halt inside a loop"),
        ("1 drop", "halt with an empty stack"),
    ],
)
def test_a_trace_names_the_fault(capsys, text, fault):
    assert command_line.main(["trace", text, "--unbalanced"]) == 1
    assert capsys.readouterr().out.splitlines()[-3].endswith(f"  fault: {fault}")


def test_a_trace_ends_as_the_reference_does():
    jobs = zip(*random_programs.jobs(3, 20, 12), strict=True)
    for row, inputs, fuel in jobs:
        expected = reference_machine.run(row, *inputs, fuel)
        steps = list(machine_trace.trace(row, inputs, fuel))
        assert len(steps) == expected[2]
        if steps:
            assert steps[-1].ending == expected[0]
            assert (steps[-1].fault is None) == (expected[0] != reference_machine.FAULT)
        if expected[0] == reference_machine.HALTED:
            assert steps[-1].stack[-1] == expected[1]


def test_check_compares_with_cases(capsys):
    program = "n n 1 + * 2 //"
    assert command_line.main(["check", program, "--cases", "3=6 4=10 40000=fault"]) == 0
    assert command_line.main(["check", program, "--cases", "-1=0", "5=14"]) == 1
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "n = -1, m = 0: 0 (fuel 7): passed",
        "n = 5, m = 0: 15 (fuel 7): WRONG, expected 14",
        "1 of 2 passed",
    ]


def test_check_compares_with_another_program(capsys):
    against = ["--against", "n sum i close", "--inputs", "0", "1", "50"]
    assert command_line.main(["check", "n n 1 + * 2 //", *against]) == 0
    assert command_line.main(["check", "n n *", *against]) == 1
    assert "WRONG, expected 1275" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "n sum i clos"], "line 1, column 9: unknown instruction 'clos'"),
        (["run", "n", "--inputs", "3,4,5"], "'3,4,5' must be n or n,m"),
        (["run", "n", "--inputs", "2147483648"], "in the range of int32"),
        (["run", "n", "--fuel", "-1"], "--fuel is -1; it must be in 0"),
        (["trace", "n", "--lines", "0"], "--lines is 0; it must be at least 1"),
        (["check", "n", "--cases", "3"], "'3' must be input=output"),
        (["check", "n", "--cases", "3=x"], "'3=x' must be input=output"),
        (["check", "n", "--cases", "3=3", "--inputs", "3"], "--inputs belongs to"),
        (
            ["check", "n", "--against", "n sum i close", "--fuel=9", "--inputs", "50"],
            "the program of --against, on n = 50, m = 0: out_of_fuel",
        ),
    ],
)
def test_wrong_arguments_exit_with_a_message(capsys, arguments, message):
    assert command_line.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert message in captured.err


def test_the_package_runs_as_a_module(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["code_execution", "run", "7"])
    with pytest.raises(SystemExit) as caught:
        runpy.run_module("agentic_grpo.envs.code_execution", run_name="__main__")
    assert caught.value.code == 0
    assert capsys.readouterr().out == "n = 0, m = 0: 7 (fuel 1)\n"
