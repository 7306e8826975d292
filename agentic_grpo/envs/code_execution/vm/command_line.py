"""A small command line for the simulated machine: run, trace or check a program.

    python -m agentic_grpo.envs.code_execution run "n sum i close" --inputs 10 100
    python -m agentic_grpo.envs.code_execution trace "n sum i close" --inputs 3
    python -m agentic_grpo.envs.code_execution check "n n 1 + * 2 //" --cases 3=6 4=10
    python -m agentic_grpo.envs.code_execution check "n n 1 + * 2 //" \\
        --against "n sum i close" --inputs 0 1 2 50

An input is ``n`` or ``n,m`` (m is 0 if absent). The text ``-`` is read from the
standard input. Exit status: 0 if every run halted, or every case passed; 1 if not; 2 if
the arguments or the text are wrong.
"""

import argparse
import dataclasses
import re
import sys

import jax
import numpy as np

from agentic_grpo.envs.code_execution.vm import (
    assembler,
    interpreter,
)
from agentic_grpo.envs.code_execution.vm import (
    trace as machine_trace,
)
from agentic_grpo.envs.code_execution.vm.instructions import (
    MachineEnding,
)

_INT32 = np.iinfo(np.int32)
_JOBS_STEP, _LENGTH_STEP = 16, 64


def main(argv: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    # To argparse "-3,4" is an option; with a blank in front it is a value.
    argv = [f" {word}" if re.match(r"-\d", word) else word for word in argv]
    arguments = _parser().parse_args(argv)
    try:
        return arguments.command(arguments)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m agentic_grpo.envs.code_execution",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="run | trace | check")
    run = commands.add_parser("run", help="output and fuel on each input")
    trace = commands.add_parser("trace", help="every instruction on each input")
    check = commands.add_parser("check", help="compare with what is expected")
    for command, function in ((run, _run), (trace, _trace), (check, _check)):
        command.set_defaults(command=function)
        command.add_argument("program", help="the text, or - for the standard input")
        command.add_argument("--inputs", nargs="+", help="n or n,m each (default: 0)")
        command.add_argument(
            "--fuel", type=int, default=1000, help="of each run (default: 1000)"
        )
        command.add_argument(
            "--unbalanced", action="store_true", help="accept loops that do not match"
        )
    trace.add_argument(
        "--lines", type=int, default=100, help="most lines of each run (default: 100)"
    )
    expected = check.add_mutually_exclusive_group(required=True)
    expected.add_argument(
        "--cases", nargs="+", help="input=output each; the output may be fault"
    )
    expected.add_argument("--against", help="a program that is right on --inputs")
    return parser


def _run(arguments):
    inputs = _inputs(arguments.inputs)
    results = _execute(_assemble(arguments.program, arguments), inputs, arguments)
    for pair, result in zip(inputs, results, strict=True):
        print(f"{_show(pair)}: {result}")
    return _status(result.ending == MachineEnding.HALTED for result in results)


def _trace(arguments):
    if arguments.lines < 1:
        raise ValueError(f"--lines is {arguments.lines}; it must be at least 1")
    inputs = _inputs(arguments.inputs)
    row = _assemble(arguments.program, arguments)
    results = _execute(row, inputs, arguments)
    for pair, result in zip(inputs, results, strict=True):
        print(f"{_show(pair)}: {assembler.disassemble(row)}")
        print(machine_trace.HEADER)
        steps = machine_trace.trace(row, pair, arguments.fuel)
        hidden = max(result.fuel_used - arguments.lines, 0)
        for number, step in enumerate(steps, start=1):
            if number < arguments.lines or number == result.fuel_used:
                print(machine_trace.format_step(step))
            elif number == arguments.lines:
                print(f"... {hidden} more, shown with --lines={result.fuel_used}")
        print(f"{result}\n")
    return _status(result.ending == MachineEnding.HALTED for result in results)


def _check(arguments):
    row = _assemble(arguments.program, arguments)
    if arguments.cases is None:
        inputs = _inputs(arguments.inputs)
        expected = _expected(arguments, inputs)
    elif arguments.inputs is not None:
        raise ValueError("--inputs belongs to --against; --cases has its own inputs")
    else:
        cases = [_parse_case(case) for case in _words(arguments.cases)]
        inputs, expected = zip(*cases, strict=True)
    results = _execute(row, inputs, arguments)
    passed = [
        result.outcome == right for result, right in zip(results, expected, strict=True)
    ]
    for pair, result, right, is_right in zip(
        inputs, results, expected, passed, strict=True
    ):
        judged = "passed" if is_right else f"WRONG, expected {right}"
        print(f"{_show(pair)}: {result}: {judged}")
    print(f"{sum(passed)} of {len(passed)} passed")
    return _status(passed)


def _expected(arguments, inputs):
    """The outcomes of a program that is taken to be right."""
    results = _execute(_assemble(arguments.against, arguments), inputs, arguments)
    for pair, result in zip(inputs, results, strict=True):
        if result.ending != MachineEnding.HALTED:
            raise ValueError(f"the program of --against, on {_show(pair)}: {result}")
    return [result.outcome for result in results]


@dataclasses.dataclass(frozen=True)
class _Result:
    ending: MachineEnding
    output: int
    fuel_used: int

    @property
    def outcome(self):
        """The output, or what went wrong, as it is written in a case."""
        if self.ending == MachineEnding.HALTED:
            return str(self.output)
        return self.ending.name.lower()

    def __str__(self):
        return f"{self.outcome} (fuel {self.fuel_used})"


def _execute(row, inputs, arguments):
    if not 0 <= arguments.fuel <= _INT32.max:
        raise ValueError(f"--fuel is {arguments.fuel}; it must be in 0 .. 2**31 - 1")
    # Padded with jobs that have no fuel, so that few shapes are ever compiled.
    num_jobs = -(-len(inputs) // _JOBS_STEP) * _JOBS_STEP
    fuel = np.zeros(num_jobs, np.int32)
    fuel[: len(inputs)] = arguments.fuel
    pairs = np.zeros((num_jobs, 2), np.int32)
    pairs[: len(inputs)] = inputs
    result = jax.jit(interpreter.run)(np.tile(row, (num_jobs, 1)), pairs, fuel)
    columns = (np.asarray(x).tolist() for x in dataclasses.astuple(result))
    return [
        _Result(MachineEnding(ending), output, fuel_used)
        for ending, output, fuel_used in zip(*columns, strict=True)
    ][: len(inputs)]


def _assemble(text, arguments):
    text = sys.stdin.read() if text == "-" else text
    length = -(-len(text.split()) // _LENGTH_STEP) * _LENGTH_STEP
    return assembler.assemble(text, length, balanced=not arguments.unbalanced)


def _inputs(texts):
    return [_parse_input(text) for text in _words(texts or ["0"])]


def _words(texts):
    return " ".join(texts).split()


def _parse_case(text):
    pair, equals, output = text.partition("=")
    if not equals or not re.fullmatch(r"-?\d+|fault|out_of_fuel", output):
        raise ValueError(
            f"the case {text!r} must be input=output, where the output is a number,"
            " fault or out_of_fuel"
        )
    return _parse_input(pair), output


def _parse_input(text):
    if not re.fullmatch(r"-?\d{1,10}(,-?\d{1,10})?", text, re.ASCII):
        raise ValueError(f"the input {text!r} must be n or n,m, two integers")
    n, _, m = text.partition(",")
    pair = int(n), int(m or 0)
    if not all(_INT32.min <= value <= _INT32.max for value in pair):
        raise ValueError(f"the input {text!r} must be n or n,m in the range of int32")
    return pair


def _show(pair):
    return f"n = {pair[0]}, m = {pair[1]}"


def _status(passes):
    return 0 if all(passes) else 1
