"""How an environment is put in words: by itself, or by a reader that knows it."""

import itertools

import jax
import numpy as np

from agentic_grpo.envs.code_execution import CodeExecution, judging
from agentic_grpo.envs.code_execution.judging import TestStatus
from agentic_grpo.envs.code_execution.problems import (
    vocabulary as code_vocabulary,
)
from agentic_grpo.envs.code_execution.vm import assembler, interpreter

PADDING = "<pad>"


def reader_of(environment) -> "Reader":
    """The environment itself in words if it is an ``envs.base.Readable``."""
    if hasattr(environment, "spell"):
        words = environment
    elif isinstance(environment, CodeExecution):
        words = CodeExecutionReader(environment)
    else:
        words = Numbers(environment)
    return Reader(words, environment.spec.pad_token)


class Reader:
    """Spells every token that is really there, padding too: an agent may write it."""

    def __init__(self, words, pad_token: int):
        self._words, self._pad = words, pad_token
        self.describe_problem = words.describe_problem
        self.describe_member = words.describe_member

    def spell(self, tokens) -> str:
        parts = []
        by_kind = itertools.groupby(map(int, tokens), lambda token: token == self._pad)
        for is_padding, group in by_kind:
            if is_padding:
                parts += [PADDING for _ in group]
            else:
                parts.append(self._words.spell(list(group)))
        return " ".join(parts)


class Numbers:
    """Reads any environment: token ids as numbers, and nothing else."""

    def __init__(self, environment):
        self._pad = environment.spec.pad_token

    def spell(self, tokens) -> str:
        return " ".join(str(int(token)) for token in tokens if token != self._pad)

    def describe_problem(self, state, lane: int) -> list[str]:
        del state, lane
        return []

    def describe_member(self, state, lane: int, member: int) -> list[str]:
        del state, lane, member
        return []


class CodeExecutionReader:
    """Reads the code-execution environment: programs, and the tests they ran on."""

    def __init__(self, environment: CodeExecution):
        self._table = environment.setting.table
        self._num_visible = environment.config.num_visible_tests
        self._run = jax.jit(interpreter.run)

    def spell(self, tokens) -> str:
        size = code_vocabulary.VOCABULARY_SIZE
        words = (
            code_vocabulary.spell([token]) if 0 <= token < size else f"<{token}>"
            for token in map(int, tokens)
        )
        return " ".join(word for word in words if word)

    def describe_problem(self, state, lane: int) -> list[str]:
        table, problem = self._table, int(state.problem[lane])
        lines = [
            f"family: {table.families[table.family[problem]].name}",
            f"efficient: {assembler.disassemble(table.efficient[problem])}",
            f"brute force: {assembler.disassemble(table.brute_force[problem])}",
        ]
        if state.hidden[lane]:
            lines.append(f"hidden parameter: {table.digit[problem]}")
        large = np.asarray(state.suites.timed[lane, : self._num_visible])
        lines.append(f"{large.sum()} of {large.size} visible tests are hidden-like")
        return lines

    def describe_member(self, state, lane: int, member: int) -> list[str]:
        members, suites = state.members, state.suites
        program = np.asarray(members.program[lane, member])
        ended = bool(members.ended[lane, member])
        if not program.any():
            return []
        result = self._run(
            np.tile(program, (suites.expected.shape[1], 1)),
            np.asarray(suites.inputs[lane]),
            np.asarray(suites.fuel[lane]),
        )
        status = judging.judge(
            result.ending, result.output, np.asarray(suites.expected[lane])
        )
        tests = jax.device_get(
            {
                "n": suites.inputs[lane, :, 0],
                "m": suites.inputs[lane, :, 1],
                "expected": suites.expected[lane],
                "fuel": suites.fuel[lane],
                "output": result.output,
                "used": result.fuel_used,
                "status": status,
            }
        )
        lines = [f"program: {assembler.disassemble(program)}"]
        lines += _of_suite("visible", tests, range(self._num_visible))
        if ended:
            hidden = range(self._num_visible, len(tests["n"]))
            lines += _of_suite("hidden", tests, hidden)
        return lines


def _of_suite(name: str, tests: dict, indices: range) -> list[str]:
    """How many tests passed; and each that did not."""
    of = [{field: int(values[i]) for field, values in tests.items()} for i in indices]
    passed = [test for test in of if test["status"] == TestStatus.PASSED]
    fuel = f", fuel at most {max(test['used'] for test in passed)}" if passed else ""
    lines = [f"{name}: {len(passed)} of {len(of)} tests passed{fuel}"]
    for test in of:
        status = TestStatus(test["status"])
        if status is TestStatus.PASSED:
            continue
        what = status.name.lower().replace("_", " ")
        if status is TestStatus.WRONG:
            what += f", {test['output']} for {test['expected']}"
        place = f"n={test['n']} m={test['m']}"
        lines.append(f"{name} {place}: {what} (fuel {test['used']} of {test['fuel']})")
    return lines
