"""Random jobs for the simulated machine: noise, programs that run, and mutants of them.

Noise faults within a few instructions, so most programs are built to run: a small model
of the stack keeps every instruction supplied with operands and closes every loop at the
right height. Mutants of those then fail late and in many ways.
"""

import random

import numpy as np

STACK_DEPTH, LOOP_DEPTH = 8, 3
INPUTS, INDEX, OUTER_INDEX = (11, 12), 13, 14
PUSHES = tuple(range(1, 15))
COUNTS = (2, 3, 4, 5, *INPUTS * 2)  # the literals 1 .. 4, or an input
SELECT, DUP, SWAP, OVER, DROP, SUM, ITERATE, CLOSE = range(24, 32)
BINARY = tuple(range(15, 24))
ADD, MUL = 15, 17
LIMIT = 2**30

# opcode -> (operands, growth of the stack)
EFFECTS = {
    **{op: (0, 1) for op in PUSHES},
    **{op: (2, -1) for op in BINARY},
    SELECT: (3, -2),
    DUP: (1, 1),
    SWAP: (2, 0),
    OVER: (2, 1),
    DROP: (1, -1),
    SUM: (1, -1),
    ITERATE: (1, -1),
}
CHOICES = (*EFFECTS, *INPUTS * 3, ADD, MUL, *(SUM, ITERATE) * 4)


def jobs(seed, num_jobs, length):
    """(programs int32 [N, length], inputs int32 [N, 2], fuel int32 [N])."""
    rng = random.Random(seed)
    programs = np.zeros((num_jobs, length), np.int32)
    for row in programs:
        code = program(rng, length)
        row[: len(code)] = code
    inputs = [[_input(rng), _input(rng)] for _ in range(num_jobs)]
    fuel = [_fuel(rng) for _ in range(num_jobs)]
    return programs, np.array(inputs, np.int32), np.array(fuel, np.int32)


def program(rng, length):
    """At most ``length`` opcodes, of one of the three kinds."""
    kind = rng.random()
    if kind < 0.1:
        return [rng.randint(-2, 40) for _ in range(length)]
    code = runnable(rng, rng.randint(1, length))
    if kind < 0.5:
        code = mutated(rng, code)
    return code[:length]


def runnable(rng, length):
    """Opcodes that neither underflow nor unbalance; they may still overflow."""
    tall = rng.choice((0,) * 8 + (4, 7))  # else few programs fill the stack
    code = [rng.choice(PUSHES[:12]) for _ in range(min(tall, length))]
    height, loops = len(code), []  # loops: the height that each body must end at
    while len(code) < length:
        room = length - len(code) - _cost_to_close(height, loops)
        if loops and (room <= 4 or rng.random() < 0.15):
            end = loops.pop()
            adjust = [DROP] * (height - end) or [rng.choice(PUSHES)] * (end - height)
            code += [*adjust, CLOSE]
            height = end
            continue
        op = rng.choice(CHOICES)
        operands, growth = EFFECTS[op]
        piece = [op]
        opens = op in (SUM, ITERATE)
        if opens and rng.random() < 0.8:  # with a count that is likely to be positive
            piece, operands, growth = [rng.choice(COUNTS), op], 0, 0
        if (
            height < operands
            or height + growth + opens > STACK_DEPTH
            or len(loops) < (op == INDEX) + 2 * (op == OUTER_INDEX)
            or (opens and (len(loops) > LOOP_DEPTH or room < 8))
        ):
            continue
        code += piece
        height += growth
        if opens:
            loops.append(height + (op == SUM))
    return code


def _cost_to_close(height, loops):
    cost = 0
    for end in reversed(loops):
        cost += abs(height - end) + 1
        height = end
    return cost


def mutated(rng, code):
    """A copy with one to three opcodes replaced, inserted, removed or exchanged."""
    code = list(code)
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(code)) if code else 0
        kind = rng.randrange(4)
        if kind == 0 or not code:
            code.insert(place, rng.randint(0, 31))
        elif kind == 1:
            code[place] = rng.randint(-1, 33)
        elif kind == 2:
            del code[place]
        else:
            other = rng.randrange(len(code))
            code[place], code[other] = code[other], code[place]
    return code


def _input(rng):
    kind = rng.random()
    if kind < 0.7:
        return rng.randint(0, 12)
    if kind < 0.85:
        return rng.randint(-200, 200)
    if kind < 0.95:
        return rng.randint(-LIMIT, LIMIT)
    return rng.choice(
        (LIMIT, -LIMIT, LIMIT - 1, LIMIT + 1, -LIMIT - 1, 2**31 - 1, -(2**31), 32768)
    )


def _fuel(rng):
    kind = rng.random()
    if kind < 0.05:
        return rng.randint(-3, 2)
    return rng.randint(1, 40) if kind < 0.3 else rng.randint(40, 400)
