"""The simulated machine in plain Python: one program, one input, a chain of ifs.

The yardstick of the environment suite: what somebody would write who needs the machine
and not the batch. It uses integers and lists alone, so that Numba compiles it as it is.
"""

HALTED, FAULT, OUT_OF_FUEL = 1, 2, 3
VALUE_LIMIT, STACK_DEPTH, LOOP_DEPTH = 2**30, 8, 3


def run(program, n, m, fuel):
    """Runs one program on one input.

    Args:
      program: opcodes, of ``envs.code_execution.vm.instructions``.
      n, m: the inputs.
      fuel: instructions that it may execute.

    Returns:
      (ending, output, fuel used).
    """
    length = len(program)
    stack, height = [0] * STACK_DEPTH, 0
    kind, start, count = [0] * LOOP_DEPTH, [0] * LOOP_DEPTH, [0] * LOOP_DEPTH
    index, total, base = [0] * LOOP_DEPTH, [0] * LOOP_DEPTH, [0] * LOOP_DEPTH
    depth = address = used = 0
    if fuel <= 0:
        return OUT_OF_FUEL, 0, 0
    while address < length and program[address] != 0:
        if used == fuel:
            return OUT_OF_FUEL, 0, used
        used += 1
        op = program[address]
        address += 1
        writes, value = True, 0
        if op < 0 or op > 31:
            return FAULT, 0, used
        if op <= 14:  # pushes
            if op <= 10:
                value = op - 1
            elif op == 11:
                value = n
            elif op == 12:
                value = m
            elif depth < op - 12:
                return FAULT, 0, used
            else:
                value = index[depth - (op - 12)]
        elif op <= 23:  # two operands
            if height < 2:
                return FAULT, 0, used
            a, b = stack[height - 1], stack[height - 2]
            height -= 2
            if op == 15:
                value = b + a
            elif op == 16:
                value = b - a
            elif op == 17:
                value = b * a
            elif op == 18 or op == 19:
                if a == 0:
                    return FAULT, 0, used
                value = b // a if op == 18 else b % a
            elif op == 20:
                value = min(b, a)
            elif op == 21:
                value = max(b, a)
            elif op == 22:
                value = 1 if b < a else 0
            else:
                value = 1 if b == a else 0
        elif op == 24:  # select
            if height < 3:
                return FAULT, 0, used
            height -= 3
            value = stack[height + 1] if stack[height] != 0 else stack[height + 2]
        elif op == 25:  # dup
            if height < 1:
                return FAULT, 0, used
            value = stack[height - 1]
        elif op == 26:  # swap
            if height < 2:
                return FAULT, 0, used
            top = stack[height - 1]
            stack[height - 1], stack[height - 2] = stack[height - 2], top
            writes = False
        elif op == 27:  # over
            if height < 2:
                return FAULT, 0, used
            value = stack[height - 2]
        elif op == 28:  # drop
            if height < 1:
                return FAULT, 0, used
            height -= 1
            writes = False
        elif op <= 30:  # sum, iterate
            close = matching_close(program, address)
            if close == length or depth == LOOP_DEPTH or height < 1:
                return FAULT, 0, used
            height -= 1
            repeats = stack[height]
            if repeats > 0:
                kind[depth], start[depth], count[depth] = op, address, repeats
                index[depth], total[depth], base[depth] = 1, 0, height
                depth += 1
                writes = False
            else:
                address = close + 1
                writes = op == 29
        else:  # close
            if depth == 0:
                return FAULT, 0, used
            loop = depth - 1
            if height != base[loop] + (1 if kind[loop] == 29 else 0):
                return FAULT, 0, used
            if kind[loop] == 29:
                height -= 1
                total[loop] += stack[height]
                if abs(total[loop]) > VALUE_LIMIT:
                    return FAULT, 0, used
            if index[loop] < count[loop]:
                index[loop] += 1
                address = start[loop]
                writes = False
            else:
                depth = loop
                value = total[loop]
                writes = kind[loop] == 29
        if writes:
            if height == STACK_DEPTH or abs(value) > VALUE_LIMIT:
                return FAULT, 0, used
            stack[height] = value
            height += 1
    if depth > 0 or height == 0:
        return FAULT, 0, used
    return HALTED, stack[height - 1], used


def matching_close(program, address):
    """Where the loop whose body begins at ``address`` ends; the length if nowhere."""
    nesting = 1
    for i in range(address, len(program)):
        op = program[i]
        if op == 29 or op == 30:
            nesting += 1
        elif op == 31:
            nesting -= 1
            if nesting == 0:
                return i
    return len(program)
