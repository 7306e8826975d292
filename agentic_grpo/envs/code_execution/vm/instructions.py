"""The instruction set of the simulated machine: names, mnemonics, what each one does.

A program is a row of opcodes. The machine has a stack of int32, the inputs ``n`` and
``m``, and a loop stack. Every executed instruction costs one unit of fuel; HALT, and
the end of the row, cost none.

Loops. ``sum`` and ``iterate`` pop a count k and run the code up to their matching
``close`` for index 1 .. k (not at all if k <= 0). The body of ``sum`` leaves one value
more than it found, which is popped and added up; the total is pushed at the end. The
body of ``iterate`` leaves the stack as high as it found it: it works on the state
below.

The fine print:

* HALT, and the end of the row, end the program: its output is the top of the stack,
  whatever lies below. With an empty stack, or inside a loop, ending is a fault.
* A job that is given no fuel (<= 0) is out of fuel at once, whatever its program. Else
  a job is out of fuel when it has none left and its next instruction is not HALT; a
  program that ends with its last unit has halted.
* An instruction that faults was executed: it costs its unit.
* Every value on the stack, and every partial total of ``sum``, lies within
  ±VALUE_LIMIT, else it is a fault. Inputs may lie beyond: pushing them is the fault.
* A full stack (STACK_DEPTH values) refuses any push, also that of ``dup`` and ``over``.
* ``close`` belongs to the nearest opening before it that is not closed yet, as brackets
  do. To have an opening without a ``close``, a ``close`` without an opening, or an
  opcode that is not in the list, is no fault; to execute it is.
* An opening at LOOP_DEPTH open loops is a fault. That, and to lack a ``close``, is one
  even if k <= 0: whether loops are well formed does not depend on values.
* The opening costs one unit, once; each pass costs what its instructions cost and one
  for ``close``. A loop that is skipped costs its opening; a ``sum`` then pushes 0.
* A body may reach below the height that it found, as long as it ends at the right one.
"""

import enum

#: Values beyond this magnitude are an overflow, which is a fault. A power of two well
#: inside int32: a sum or difference of two values is recognised as too large even where
#: it wraps, and a product is checked in float32 before it is computed.
VALUE_LIMIT = 2**30
STACK_DEPTH = 8
LOOP_DEPTH = 3


class Op(enum.IntEnum):
    """Opcodes. ``a`` is the top of the stack, ``b`` below it, ``c`` below that."""

    HALT = 0  # ends the program; its output is the top of the stack
    PUSH_0 = 1
    PUSH_1 = 2
    PUSH_2 = 3
    PUSH_3 = 4
    PUSH_4 = 5
    PUSH_5 = 6
    PUSH_6 = 7
    PUSH_7 = 8
    PUSH_8 = 9
    PUSH_9 = 10
    INPUT_N = 11
    INPUT_M = 12
    INDEX = 13  # index of the innermost loop; outside any loop a fault
    OUTER_INDEX = 14  # index of the loop around it; without one a fault
    ADD = 15  # b + a
    SUB = 16  # b - a
    MUL = 17  # b * a
    FLOORDIV = 18  # floor(b / a); a == 0 is a fault
    MOD = 19  # b - a * floor(b / a), the sign of a; a == 0 is a fault
    MIN = 20
    MAX = 21
    LESS = 22  # 1 if b < a else 0
    EQUAL = 23  # 1 if b == a else 0
    SELECT = 24  # b if c != 0 else a; pops three
    DUP = 25  # a -> a a
    SWAP = 26  # b a -> a b
    OVER = 27  # b a -> b a b
    DROP = 28  # a ->
    SUM = 29  # k -> ; opens a summing loop
    ITERATE = 30  # k -> ; opens an iterating loop
    CLOSE = 31  # ends the body of the innermost loop


NUM_OPS = len(Op)
PUSHES = tuple(Op(code) for code in range(Op.PUSH_0, Op.OUTER_INDEX + 1))
BINARY = tuple(Op(code) for code in range(Op.ADD, Op.EQUAL + 1))
OPENINGS = (Op.SUM, Op.ITERATE)

#: Values that an instruction needs on the stack; 0 where not listed. What CLOSE needs
#: depends on its loop.
OPERANDS = {
    **dict.fromkeys((Op.DUP, Op.DROP, *OPENINGS), 1),
    **dict.fromkeys((*BINARY, Op.SWAP, Op.OVER), 2),
    Op.SELECT: 3,
}

#: How much higher an instruction leaves the stack; 0 where not listed. A loop that sums
#: takes one more value off at each CLOSE, and pushes its total at the end.
GROWTH = {
    **dict.fromkeys((*PUSHES, Op.DUP, Op.OVER), 1),
    **dict.fromkeys((*BINARY, Op.DROP, *OPENINGS), -1),
    Op.SELECT: -2,
}

MNEMONICS = {
    **{Op.PUSH_0 + digit: str(digit) for digit in range(10)},
    Op.HALT: "halt",
    Op.INPUT_N: "n",
    Op.INPUT_M: "m",
    Op.INDEX: "i",
    Op.OUTER_INDEX: "j",
    Op.ADD: "+",
    Op.SUB: "-",
    Op.MUL: "*",
    Op.FLOORDIV: "//",
    Op.MOD: "%",
    Op.MIN: "min",
    Op.MAX: "max",
    Op.LESS: "<",
    Op.EQUAL: "=",
    Op.SELECT: "select",
    Op.DUP: "dup",
    Op.SWAP: "swap",
    Op.OVER: "over",
    Op.DROP: "drop",
    Op.SUM: "sum",
    Op.ITERATE: "iterate",
    Op.CLOSE: "close",
}


class MachineEnding(enum.IntEnum):
    """What became of one program on one input."""

    RUNNING = 0
    HALTED = 1  # it produced an output, right or wrong
    FAULT = 2  # underflow, overflow, unbalanced loop, division by zero, bad opcode
    OUT_OF_FUEL = 3
