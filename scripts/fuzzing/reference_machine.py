"""The simulated machine, slowly: one program, one input, plain Python integers.

The truth that the batched interpreter is compared with. It imports nothing of ours and
follows the prose of the instruction set: Python's integers never wrap, and loops are
plain lists.
"""

VALUE_LIMIT = 1_073_741_824  # 2 ** 30
STACK_DEPTH = 8
LOOP_DEPTH = 3

HALTED, FAULT, OUT_OF_FUEL = 1, 2, 3

HALT, INPUT_N, INPUT_M, INDEX, OUTER_INDEX = 0, 11, 12, 13, 14
SELECT, DUP, SWAP, OVER, DROP, SUM, ITERATE, CLOSE = 24, 25, 26, 27, 28, 29, 30, 31
BINARY = {
    15: lambda b, a: b + a,
    16: lambda b, a: b - a,
    17: lambda b, a: b * a,
    18: lambda b, a: b // a,
    19: lambda b, a: b % a,
    20: min,
    21: max,
    22: lambda b, a: int(b < a),
    23: lambda b, a: int(b == a),
}


class Fault(Exception):
    """What a program must not do."""


def run(program, n, m, fuel):
    """Runs one program: (ending, output, fuel used)."""
    if fuel <= 0:
        return OUT_OF_FUEL, 0, 0
    machine = _Machine(program, n, m)
    used = 0
    while True:
        if machine.at_end():
            if machine.loops or not machine.stack:
                return FAULT, 0, used
            return HALTED, machine.stack[-1], used
        if used == fuel:
            return OUT_OF_FUEL, 0, used
        used += 1
        try:
            machine.execute()
        except Fault:
            return FAULT, 0, used


class _Machine:
    def __init__(self, program, n, m):
        self.program = [int(opcode) for opcode in program]
        self.inputs = {INPUT_N: int(n), INPUT_M: int(m)}
        self.address = 0
        self.stack = []
        self.loops = []

    def at_end(self):
        return self.address == len(self.program) or self.program[self.address] == HALT

    def execute(self):
        op = self.program[self.address]
        self.address += 1
        if 1 <= op <= 10:
            self.push(op - 1)
        elif op in self.inputs:
            self.push(self.inputs[op])
        elif op in (INDEX, OUTER_INDEX):
            level = 1 if op == INDEX else 2
            if len(self.loops) < level:
                raise Fault("no such loop")
            self.push(self.loops[-level]["index"])
        elif op in BINARY:
            a, b = self.pop(), self.pop()
            if op in (18, 19) and a == 0:
                raise Fault("division by zero")
            self.push(BINARY[op](b, a))
        elif op == SELECT:
            a, b, c = self.pop(), self.pop(), self.pop()
            self.push(b if c != 0 else a)
        elif op == DUP:
            a = self.pop()
            self.push(a)
            self.push(a)
        elif op == SWAP:
            a, b = self.pop(), self.pop()
            self.push(a)
            self.push(b)
        elif op == OVER:
            a, b = self.pop(), self.pop()
            self.push(b)
            self.push(a)
            self.push(b)
        elif op == DROP:
            self.pop()
        elif op in (SUM, ITERATE):
            self.open_loop(op)
        elif op == CLOSE:
            self.close_loop()
        else:
            raise Fault("bad opcode")

    def pop(self):
        if not self.stack:
            raise Fault("underflow")
        return self.stack.pop()

    def push(self, value):
        if abs(value) > VALUE_LIMIT:
            raise Fault("overflow")
        if len(self.stack) == STACK_DEPTH:
            raise Fault("stack is full")
        self.stack.append(value)

    def open_loop(self, op):
        end = self.matching_close()
        if len(self.loops) == LOOP_DEPTH:
            raise Fault("too many open loops")
        count = self.pop()
        if count > 0:
            self.loops.append(
                {
                    "op": op,
                    "start": self.address,
                    "count": count,
                    "index": 1,
                    "total": 0,
                    "height": len(self.stack),
                }
            )
        else:
            if op == SUM:
                self.push(0)
            self.address = end + 1

    def matching_close(self):
        """Address of the close that matches the opening just fetched."""
        nesting = 1
        for address in range(self.address, len(self.program)):
            if self.program[address] in (SUM, ITERATE):
                nesting += 1
            elif self.program[address] == CLOSE:
                nesting -= 1
                if nesting == 0:
                    return address
        raise Fault("no matching close")

    def close_loop(self):
        if not self.loops:
            raise Fault("nothing to close")
        loop = self.loops[-1]
        if loop["op"] == SUM:
            if len(self.stack) != loop["height"] + 1:
                raise Fault("the body must leave one value")
            loop["total"] += self.pop()
            if abs(loop["total"]) > VALUE_LIMIT:
                raise Fault("overflow")
        elif len(self.stack) != loop["height"]:
            raise Fault("the body must leave the stack as high as it was")
        if loop["index"] < loop["count"]:
            loop["index"] += 1
            self.address = loop["start"]
        else:
            self.loops.pop()
            if loop["op"] == SUM:
                self.push(loop["total"])
