"""Reads a compiled program and a profiler trace: time and FLOP by label.

XLA's text of a compiled program names every operation, the scopes that it was traced
in, and its shapes; the trace names the operations that ran, and when. Neither knows the
other: the names join them.
"""

import collections
import dataclasses
import heapq
import math
import pathlib
import re

import jax

#: Operations under none of the labels.
BOOKKEEPING = "bookkeeping"

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*)$")
_OPCODE = re.compile(r"(?:^|\s)([a-z][\w\-]*)\(")
_ARRAY = re.compile(r"\w+\[([\d,]*)\]")
_CALLED = re.compile(
    r"(?:calls|body|condition|to_apply|true_computation|false_computation)=%?([\w.\-]+)"
)
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_BATCH = re.compile(r"lhs_batch_dim(?:ension)?s\W*=?\W*[{\[]([^}\]]*)[}\]]")
_CONTAINERS = ("while", "call", "conditional")


@dataclasses.dataclass(frozen=True)
class Cost:
    """Of one operation.

    Attributes:
      label: the part that it belongs to.
      flops: of its matrix products, per execution.
      contains: it runs other operations, which have events of their own.
    """

    label: str
    flops: float
    contains: bool


@dataclasses.dataclass
class _Instruction:
    name: str
    computation: str
    opcode: str
    label: str | None
    flops: float
    called: list[str]


def of_program(text: str, labels: tuple[str, ...]) -> dict[str, Cost]:
    """Costs by the name of the operation.

    An operation without a label of its own gets the one that most operations within it
    have, else that of the operation that runs it.

    Args:
      text: of a compiled executable (``as_text``).
      labels: names of scopes; of several around an operation, the innermost counts.
    """
    instructions = _instructions(text, labels)
    inside = collections.defaultdict(list)
    for instruction in instructions.values():
        inside[instruction.computation].append(instruction)
    callers = {
        computation: instruction
        for instruction in instructions.values()
        for computation in instruction.called
    }

    def label_of(instruction):
        if instruction.opcode not in _CONTAINERS:
            votes = collections.Counter(
                inner.label
                for computation in instruction.called
                for inner in inside[computation]
                if inner.label
            )
            if votes:
                return votes.most_common(1)[0][0]
        while instruction is not None:
            if instruction.label:
                return instruction.label
            instruction = callers.get(instruction.computation)
        return BOOKKEEPING

    def flops_of(instruction):
        if instruction.opcode in _CONTAINERS:
            return 0.0
        return instruction.flops + sum(
            flops_of(inner)
            for computation in instruction.called
            for inner in inside[computation]
        )

    return {
        name: Cost(
            label=label_of(instruction),
            flops=flops_of(instruction),
            contains=instruction.opcode in _CONTAINERS,
        )
        for name, instruction in instructions.items()
    }


def _instructions(text, labels):
    instructions, shapes, computation = {}, {}, ""
    for line in text.splitlines():
        if header := _COMPUTATION.match(line):
            computation = header[1]
        elif found := _INSTRUCTION.match(line):
            name, rest = found.groups()
            opcode = _OPCODE.search(rest)
            if opcode is None:
                continue
            shapes[name] = _size(rest[: opcode.start()])
            called = _CALLED.findall(rest)
            if branches := _BRANCHES.search(rest):
                called += [b.strip().lstrip("%") for b in branches[1].split(",")]
            instructions[name] = _Instruction(
                name=name,
                computation=computation,
                opcode=opcode[1],
                label=_label(rest, labels),
                flops=_flops(opcode[1], rest[opcode.end() :], shapes, shapes[name]),
                called=called,
            )
    return instructions


def _label(rest, labels):
    op_name = _OP_NAME.search(rest)
    if op_name is None:
        return None
    # A scope may stand inside a transformation: "transpose(jvp(forward_backward))".
    parts = re.split(r"[/()]", op_name[1])
    return next((part for part in reversed(parts) if part in labels), None)


def _size(shape):
    """(elements, first dimensions) of the first array in a shape."""
    found = _ARRAY.search(shape)
    dims = [int(d) for d in found[1].split(",") if d] if found else []
    return math.prod(dims), dims


def _flops(opcode, arguments, shapes, result):
    """2 b m n k of a matrix product, from the sizes b m k, b k n and b m n."""
    is_product = opcode == "dot" or (
        opcode == "custom-call" and re.search(r'target="[^"]*(gemm|matmul)', arguments)
    )
    if not is_product:
        return 0.0
    operands = re.findall(r"%?([\w.\-]+)", arguments.split(")")[0])
    left, right = [shapes[o] for o in operands if o in shapes][:2]
    batch_dims = _BATCH.search(arguments)
    batch = 1
    if batch_dims:
        batch = math.prod(left[1][int(d)] for d in re.findall(r"\d+", batch_dims[1]))
    return 2.0 * math.sqrt(left[0] * right[0] * result[0] / batch)


def attribute(trace: pathlib.Path, costs: dict[str, Cost]):
    """Adds a trace up by label.

    Wall time is shared out: at every instant among the operations that run then; where
    only a loop is under way, to the innermost one.

    Args:
      trace: an ``.xplane.pb`` of the profiler.
      costs: as from ``of_program``.

    Returns:
      ({label: seconds of wall time}, {label: FLOP executed}); the former sum to the
      time in which anything ran at all.
    """
    flops = collections.Counter()
    events = []
    for plane in jax.profiler.ProfileData.from_file(str(trace)).planes:
        for line in plane.lines:
            for event in line.events:
                operation = next((v for k, v in event.stats if k == "hlo_op"), None)
                cost = costs.get(operation)
                if cost is not None and event.duration_ns > 0:
                    events.append((event.start_ns, event.end_ns, cost))
                    flops[cost.label] += cost.flops
    return _share_out(events), dict(flops)


def _share_out(events) -> dict[str, float]:
    """{label: seconds} of events (start, end, cost) in nanoseconds."""
    seconds = collections.Counter()
    events = sorted(events, key=lambda event: event[0])
    ends = []  # heap of (end, index) of what is under way
    leaves, containers = collections.Counter(), {}
    now = 0.0

    def advance(until):
        nonlocal now
        if leaves:
            total = sum(leaves.values())
            for label, number in leaves.items():
                seconds[label] += (until - now) * number / total * 1e-9
        elif containers:
            innermost = next(reversed(containers.values()))
            seconds[innermost] += (until - now) * 1e-9
        now = until

    def finish(until):
        while ends and ends[0][0] <= until:
            end, index = heapq.heappop(ends)
            advance(end)
            cost = events[index][2]
            if cost.contains:
                containers.pop(index)
            else:
                leaves[cost.label] -= 1
                if not leaves[cost.label]:
                    del leaves[cost.label]

    for index, (start, end, cost) in enumerate(events):
        finish(start)
        advance(start)
        heapq.heappush(ends, (end, index))
        if cost.contains:
            containers[index] = cost.label
        else:
            leaves[cost.label] += 1
    finish(math.inf)
    return dict(seconds)
