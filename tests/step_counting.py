"""How many steps a program takes, counted: no clock, the same on every machine.

A step is an instruction of the interpreter, or a comparison or hash of an item of a
list, which C does by the thousand within one instruction.
"""

import sys

from agentic_grpo.envs.python_tasks.families.family import function_of


class Enough(Exception):
    """More steps than asked for."""


class _Counter:
    def __init__(self, at_most):
        self.steps, self._at_most = 0, at_most

    def step(self):
        self.steps += 1
        if self.steps > self._at_most:
            raise Enough

    def item(self, value):
        """An int that is counted whenever it is compared or hashed."""
        step = self.step

        class Counted(int):
            def __eq__(self, other):
                step()
                return int.__eq__(self, other)

            def __hash__(self):
                step()
                return int.__hash__(self)

        return [Counted(x) for x in value] if isinstance(value, list) else value

    def trace(self, frame, event, _):
        if frame.f_code.co_filename == __file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.step()
        return self.trace


def count_steps(program, entry, arguments, *, at_most):
    """The number of steps of one call; ``at_most`` + 1 if it takes more."""
    counter = _Counter(at_most)
    function = function_of(program, entry)
    arguments = [counter.item(value) for value in arguments]
    before = sys.gettrace()
    sys.settrace(counter.trace)
    try:
        function(*arguments)
    except Enough:
        pass
    finally:
        sys.settrace(before)
    return counter.steps
